"""`shoal db`: the schema is shown, brought up to date and back by the real command, beside those who are at work."""

from __future__ import annotations

from collections.abc import Generator
from datetime import timedelta

import pytest

from shoal import __version__
from shoal.core.fleet import WorkerBeat
from shoal.frontier.crew import BEAT_LIFETIME, Crew
from shoal.frontier.scripts import connect
from shoal.redis_url import RedisUrls
from shoal.store import schema
from shoal.store.database import HEAD, make_engine
from tests.command import Shoal
from tests.postgres import Postgres
from tests.waiting import wait_until

VERSIONS = [each.revision for each in schema.migrations()]
BEFORE = VERSIONS[-2]
LAST_BREAK = next(each.revision for each in reversed(schema.migrations()) if not each.additive)
BEFORE_THE_BREAK = VERSIONS[VERSIONS.index(LAST_BREAK) - 1]


@pytest.fixture
def fleet(shoal: Shoal, postgres: Postgres, valkey_url: str) -> Generator[Shoal]:
    """Commands that share a PostgreSQL, without tables yet, and a Redis."""
    shared = {"SHOAL_DATABASE_URL": postgres.new_database(), "SHOAL_REDIS_URL": valkey_url}
    yield Shoal(shoal.home, (*shared.items(), ("SHOAL_PREFIX", f"db-{shoal.home.parent.name}")))


def _at(fleet: Shoal, version: str) -> None:
    engine = make_engine(dict(fleet.extra)["SHOAL_DATABASE_URL"])
    schema.upgrade(engine, version)
    engine.dispose()


def _other_worker(fleet: Shoal) -> None:
    """A sign of life of another version's."""
    variables = dict(fleet.extra)
    client = connect(RedisUrls.of(variables["SHOAL_REDIS_URL"]).frontier)
    beat = WorkerBeat("elsewhere:7", ("http.batch",), 1, 0, 0, 50, 5, "0.0.9")
    Crew(client, variables["SHOAL_PREFIX"]).heartbeat(beat, BEAT_LIFETIME * 10)
    client.close()


def _schema(shoal: Shoal) -> str:
    done = shoal.run("db", "status", "--json")
    assert done.code == 0, done.err
    return done.json["schema"]


def test_a_database_is_made_taken_back_and_brought_up_again(shoal: Shoal) -> None:
    before = shoal.run("db", "status")
    assert before.code == 0
    assert "none yet" in before.out
    assert "shoal db upgrade" in before.err
    assert not (shoal.home / "shoal.db").exists()  # who looks makes nothing
    made = shoal.run("db", "upgrade", "--json")
    assert (made.json["from"], made.json["schema"], made.json["up_to_date"]) == (None, HEAD, True)
    assert "nothing to do" in shoal.run("db", "upgrade").err
    asked = shoal.run("db", "downgrade", BEFORE)
    assert asked.code == 2
    assert "--yes" in asked.err
    assert _schema(shoal) == HEAD
    back = shoal.run("db", "downgrade", BEFORE, "--yes", "--json")
    assert [each["revision"] for each in back.json["undone"]] == [HEAD]
    shown = shoal.run("db", "status")
    assert f"pending   {HEAD}" in shown.out
    assert "(additive)" in shown.out
    assert shoal.run("keys", "list").code == 0  # a file of SQLite is brought up to date by who opens it
    assert _schema(shoal) == HEAD


@pytest.mark.parametrize(
    ("version", "told"),
    [("0000", "there is no schema '0000'"), ("head", "there is no schema"), (HEAD, "nothing to do")],
)
def test_a_version_that_leads_nowhere_is_told(shoal: Shoal, version: str, told: str) -> None:
    assert shoal.run("db", "upgrade").code == 0
    done = shoal.run("db", "downgrade", version, "--yes")
    assert (told in done.err, "Traceback" in done.err) == (True, False)
    assert _schema(shoal) == HEAD


def test_an_upgrade_that_adds_is_done_beside_another_version_but_only_when_it_is_asked_for(fleet: Shoal) -> None:
    _at(fleet, BEFORE)
    _other_worker(fleet)
    refused = fleet.run("keys", "list")
    assert refused.code == 1
    assert "elsewhere:7 (0.0.9)" in refused.err
    assert "shoal db upgrade" in refused.err
    status = fleet.run("db", "status", "--json").json
    assert (status["schema"], status["workers"]) == (
        BEFORE,
        [{"name": "elsewhere:7", "version": "0.0.9", "schema": ""}],
    )
    done = fleet.run("db", "upgrade")
    assert done.code == 0, done.err
    assert "can go on" in done.err
    assert _schema(fleet) == HEAD
    assert fleet.run("keys", "list").code == 0


def test_an_upgrade_that_would_break_another_version_is_refused_until_it_is_gone_or_given_up(fleet: Shoal) -> None:
    _at(fleet, BEFORE_THE_BREAK)
    _other_worker(fleet)
    refused = fleet.run("db", "upgrade")
    assert refused.code == 1
    assert f"{LAST_BREAK} would break processes of another version" in refused.err
    assert "--force" in refused.err
    assert _schema(fleet) == BEFORE_THE_BREAK
    forced = fleet.run("db", "upgrade", "--force", "--json")
    assert forced.json["schema"] == HEAD


def test_nobody_knows_who_works_while_redis_is_away(fleet: Shoal) -> None:
    _at(fleet, BEFORE_THE_BREAK)
    blind = Shoal(fleet.home, (*fleet.extra, ("SHOAL_REDIS_URL", "redis://127.0.0.1:9")))
    assert "not known" in blind.run("db", "status").err
    assert "may be at work" in blind.run("db", "upgrade").err
    assert _schema(blind) == BEFORE_THE_BREAK
    assert blind.run("db", "upgrade", "--force").code == 0
    assert _schema(blind) == HEAD


def test_a_fleet_that_forbids_it_is_upgraded_by_the_command_alone(fleet: Shoal) -> None:
    careful = Shoal(fleet.home, (*fleet.extra, ("SHOAL_DATABASE_UPGRADE", "refuse")))
    for args in (("keys", "list"), ("api", "--port", "0")):
        refused = careful.run(*args)
        assert (refused.code, "shoal db upgrade" in refused.err) == (1, True), refused.err
    assert careful.run("db", "upgrade").code == 0
    assert careful.run("keys", "list").code == 0


def test_who_goes_back_waits_for_those_who_work(fleet: Shoal) -> None:
    """A real worker: it upgrades the empty database when it starts, and is at work with it."""
    with fleet.running("worker", "--log-level", "error"):
        wait_until(lambda: fleet.run("db", "status", "--json").json["workers"] != [], within=timedelta(seconds=30))
        status = fleet.run("db", "status", "--json").json
        assert status["workers"][0]["version"] == __version__
        refused = fleet.run("db", "downgrade", BEFORE, "--yes")
        assert refused.code == 1
        assert "Stop workers and APIs first" in refused.err
        assert _schema(fleet) == HEAD
    done = fleet.run("db", "downgrade", BEFORE, "--yes")
    assert done.code == 0, done.err
    assert _schema(fleet) == BEFORE
