"""`shoal hosts`: limits that stay, a view with reasons, and the ledger, by the real command."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from shoal.core.ledger import Ask
from shoal.core.manners import LimitSource
from shoal.core.robots import RobotsCopy, version_of
from shoal.store.database import open_database
from shoal.store.pages import PageStore
from shoal.store.robots import RobotsStore
from tests.command import Shoal
from tests.waiting import wait_until

NOON = 1_793_534_400_000
"""2026-11-01T12:00Z."""
ROBOTS = b"User-agent: *"
ASK = Ask(NOON, "shop.example", "job1", "http://shop.example/", 200, "", 4.0, 2, LimitSource.JOB, "0123456789abcdef")


def _listed(shoal: Shoal, *args: str) -> list[dict[str, Any]]:
    done = shoal.run("hosts", *args, "--json")
    assert done.code == 0, done.err
    return json.loads(done.out)


def _write(shoal: Shoal, asks: Iterable[Ask]) -> None:
    shoal.home.mkdir(exist_ok=True)
    engine = open_database(shoal.settings.sql_url)
    PageStore(engine).write([], [], [], list(asks))
    engine.dispose()


# --- limits ----------------------------------------------------------------------------------------------------------


def test_limits_stay_when_everything_has_ended(shoal: Shoal) -> None:
    done = shoal.run("hosts", "set", "Shop.example", "--rate", "30/m", "--parallel", "1", "--note", "by [mail]")
    assert (done.code, done.out) == (0, "")
    assert "shop.example: 30/m, 1 at once (operator); open" in done.err
    (row,) = _listed(shoal)
    assert (row["host"], row["rate"], row["parallel"], row["note"]) == ("shop.example", 0.5, 1, "by [mail]")
    table = shoal.run("hosts").out
    for cell in ("shop.example", "open", "30/m, 1 at once (operator)", "by [mail]"):
        assert cell in table


def test_a_host_is_paused_resumed_held_and_let_go(shoal: Shoal) -> None:
    assert shoal.run("hosts", "set", "shop.example", "--pause", "--json").json["state"] == "paused"
    assert [row["host"] for row in _listed(shoal, "--state", "paused")] == ["shop.example"]
    assert _listed(shoal, "--state", "held") == []
    held = shoal.run("hosts", "set", "https://shop.example/page", "--resume", "--hold", "600", "--json").json
    assert (held["state"], held["paused"], held["operator"]) == ("held", False, None)
    done = shoal.run("hosts", "unset", "shop.example")
    assert (done.code, done.out) == (0, "")
    assert "shop.example: as the jobs say; open" in done.err


def test_one_limit_is_taken_back_and_the_other_stays(shoal: Shoal) -> None:
    shoal.run("hosts", "set", "shop.example", "--rate", "unlimited", "--parallel", "8")
    row = shoal.run("hosts", "set", "shop.example", "--rate", "none", "--json").json
    assert (row["rate"], row["parallel"]) == (None, 8)


def test_everything_about_a_host_can_be_shown(shoal: Shoal) -> None:
    shoal.run("hosts", "set", "shop.example", "--rate", "100/h", "--note", "agreed")
    done = shoal.run("hosts", "show", "shop.example")
    assert done.code == 0, done.err
    for words in ("shop.example", "state         open", "100/h (operator)", "“agreed”", "in flight     0"):
        assert words in done.out
    assert shoal.run("hosts", "show", "shop.example", "--json").json["operator"]["note"] == "agreed"
    missing = shoal.run("hosts", "show", "never.example")
    assert (missing.code, missing.out) == (1, "")
    assert "never.example" in missing.err


def test_every_flag_has_its_variable(shoal: Shoal) -> None:
    variables = {
        "SHOAL_HOST_RATE": "2",
        "SHOAL_HOST_PARALLEL": "3",
        "SHOAL_HOST_PAUSED": "true",
        "SHOAL_HOST_HOLD": "60",
        "SHOAL_HOST_NOTE": "from afar",
    }
    row = Shoal(shoal.home, tuple(variables.items())).run("hosts", "set", "shop.example", "--json").json
    assert (row["rate"], row["parallel"], row["paused"], row["note"]) == (2, 3, True, "from afar")
    assert row["hold_seconds"] > 0
    help_text = shoal.run("hosts", "set", "--help").out
    assert all(name in help_text for name in (*variables, "SHOAL_JSON"))
    help_text = shoal.run("hosts", "audit", "--help").out
    assert all(name in help_text for name in ("SHOAL_SINCE", "SHOAL_UNTIL", "SHOAL_LIMIT", "SHOAL_FORMAT"))
    assert "SHOAL_HOST_STATE" in shoal.run("hosts", "--help").out


def test_the_file_of_hosts_is_shown_beside_what_was_set(shoal: Shoal, tmp_path: Path) -> None:
    file = tmp_path / "hosts.yaml"
    file.write_text("hosts: {shop.example: {rate: 30/m, paused: true}}", encoding="utf-8")
    with_file = Shoal(shoal.home, (("SHOAL_HOSTS_FILE", str(file)),))
    done = with_file.run("hosts", "set", "shop.example", "--parallel", "2", "--resume")
    assert "30/m (file), 2 at once (operator); paused" in done.err
    assert "the file of hosts says: 30/m, paused" in done.err
    shown = with_file.run("hosts", "show", "shop.example").out
    assert "limits        30/m (file), 2 at once (operator)" in shown
    (filed,) = [line for line in shown.splitlines() if "in the file" in line]
    assert "30/m, paused; since" in filed
    assert f"({file})" in filed


@pytest.mark.embedded
def test_a_host_without_a_robots_txt_is_said_to_have_none(shoal: Shoal) -> None:
    shoal.run("hosts", "set", "shop.example", "--rate", "1")
    engine = open_database(shoal.settings.sql_url)
    try:
        for scheme, status, body in (("http", 404, b""), ("https", 200, ROBOTS)):
            copy = RobotsCopy(f"{scheme}://shop.example", status, version_of(body), NOON, NOON + 1, body)
            RobotsStore(engine).save(copy)
    finally:
        engine.dispose()
    shown = shoal.run("hosts", "show", "shop.example").out
    assert "http://shop.example: no robots.txt (404), read 2026-11-01T12:00:00" in shown
    assert f"https://shop.example: version {version_of(ROBOTS)}, read" in shown


@pytest.mark.parametrize("command", [["worker"], ["api", "--port", "0"], ["up", "--port", "0"], ["hosts"]])
def test_a_bad_file_of_hosts_is_found_out_at_the_start(shoal: Shoal, tmp_path: Path, command: list[str]) -> None:
    file = tmp_path / "hosts.yaml"
    file.write_text("hosts:\n  shop.example: {rate: fast}\n", encoding="utf-8")
    done = Shoal(shoal.home, (("SHOAL_HOSTS_FILE", str(file)),)).run(*command)
    assert done.code == 2
    assert f"{file} is not valid:" in done.err
    assert "hosts.shop.example.rate:" in done.err


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["set", "shop.example"], "nothing to set"),
        (["set", "shop.example", "--rate", "fast"], "--rate: write requests a second, minute or hour, such as 4, 30/m"),
        (["set", "shop.example", "--rate", "0"], "--rate:"),
        (["set", "shop.example", "--parallel", "0"], "--parallel:"),
        (["set", "a b", "--rate", "1"], "is not a host"),
        (["set", "@127.0.0.1", "--rate", "1"], "is not a domain"),
        (["audit", "@example.org"], "the ledger has each host by itself"),
        (["audit", "shop.example", "--json", "--format", "csv"], "--json and --format csv: give one of the two"),
        (["audit", "shop.example", "--since", "yesterday"], "--since 'yesterday'"),
        (["audit", "shop.example", "--since", "1h", "--until", "2h"], "is not before"),
        (["audit", "shop.example", "-o", "/nowhere/at/all.csv"], "cannot write"),
        (["--state", "asleep"], "asleep"),
    ],
)
def test_bad_input_is_refused(shoal: Shoal, args: list[str], words: str) -> None:
    done = shoal.run("hosts", *args)
    assert (done.code, done.out) == (2, ""), done.err
    assert words in done.err
    assert "Traceback" not in done.err


def test_a_job_that_waits_for_a_paused_host_says_so(shoal: Shoal) -> None:
    job = shoal.run("crawl", "http://127.0.0.1:9/", "--detach").out.strip()
    assert shoal.run("hosts", "set", "127.0.0.1:9", "--pause").code == 0
    with shoal.running("worker", "--queues", "http.batch"):
        paused = "127.0.0.1:9: paused by an operator"
        wait_until(lambda: shoal.status(job)["waiting_for"] == paused, within=timedelta(seconds=60))
        assert f"  waiting for {paused}\n" in shoal.run("status", job).out
    assert shoal.run("cancel", job).code == 0
    assert shoal.status(job)["waiting_for"] is None


# --- the ledger ------------------------------------------------------------------------------------------------------


@pytest.fixture
def audited(shoal: Shoal) -> Shoal:
    """A home with a ledger, where commands would fail if they looked for a Redis."""
    asks = [replace(ASK, at_ms=NOON + n * 250, url=f"http://shop.example/{n}") for n in range(30)]
    late = replace(ASK, at_ms=NOON + 7_200_000, job="job2", status=429, reason="http_429", rate=0.5, robots="")
    _write(
        shoal, [*asks, replace(late, source=LimitSource.THROTTLE, rule='=cmd|"x"'), replace(ASK, host="other.example")]
    )
    named = (("SHOAL_REDIS_URL", "redis://127.0.0.1:9"), ("SHOAL_DATABASE_URL", shoal.settings.sql_url))
    return Shoal(shoal.home, named)


def test_a_complaint_can_be_answered_with_facts(audited: Shoal) -> None:
    done = audited.run("hosts", "audit", "http://shop.example/")
    assert done.code == 0, done.err
    for words in (
        "shop.example: 31 requests since the ledger begins",
        "most in a second 4; the highest limit in force was 4/s, which allows 5",
        "most in a minute 30",
        "200 × 30, 429 × 1",
        "4/s, 2 at once (job) 30 requests, 2026-11-01T12:00:00.000+00:00 to 2026-11-01T12:00:07.250+00:00",
        "30/m, 2 at once (throttle) 1 request,",
        "0123456789abcdef 30 requests",
        "job2 1 request",
        "2026-11-01T14:00 1",
        "http://shop.example/29",
    ):
        assert words in " ".join(done.out.split())
    assert "http://shop.example/5\n" not in done.out  # the last twenty are enough for the eye


def test_a_period_can_be_chosen(audited: Shoal) -> None:
    def count(*period: str) -> int:
        return audited.run("hosts", "audit", "shop.example", "--format", "json", *period).json["requests"]

    assert count("--since", "2026-11-01T12:00:01", "--until", "2026-11-01T12:00:02") == 4
    assert count("--since", "2026-11-01T13:00:00+01:00") == 31
    assert count("--since", "2026-11-01", "--until", "2026-11-01T13:00Z") == 30
    assert count("--since", "1s") == 0
    done = audited.run("hosts", "audit", "shop.example", "--since", "1s")
    assert "shop.example was not asked for anything since" in done.out


def test_all_entries_are_written_for_programs(audited: Shoal, tmp_path: Path) -> None:
    lines = audited.run("hosts", "audit", "shop.example", "--format", "jsonl").records
    assert [line["url"] for line in lines[:30]] == [f"http://shop.example/{n}" for n in range(30)]
    assert (lines[30]["status"], lines[30]["source"], lines[30]["rate"]) == (429, "throttle", 0.5)
    target = tmp_path / "shop.csv"
    assert audited.run("hosts", "audit", "shop.example", "-o", str(target)).code == 0
    rows = list(csv.DictReader(io.StringIO(target.read_text(encoding="utf-8"))))
    assert len(rows) == 31
    assert rows[30]["rule"] == '\'=cmd|"x"'
    last = audited.run("hosts", "audit", "shop.example", "--format", "jsonl", "--limit", "2").records
    assert last == lines[-2:]


def test_the_sums_are_there_for_programs(audited: Shoal) -> None:
    sums = audited.run("hosts", "audit", "shop.example", "--format", "json", "--limit", "1").json
    assert (sums["busiest_second"], sums["busiest_minute"], sums["statuses"]) == (4, 30, {"200": 30, "429": 1})
    assert sums["allowed_in_a_second"] == 5
    assert [job["job"] for job in sums["jobs"]] == ["job2", "job1"]
    assert [limit["source"] for limit in sums["limits"]] == ["throttle", "job"]
    assert len(sums["entries"]) == 1
    assert audited.run("hosts", "audit", "shop.example", "--json", "--limit", "1").json == sums
