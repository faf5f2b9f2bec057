"""Versions of the schema: up, down and up again with rows in it, beside others, and for processes of other versions."""

from __future__ import annotations

import threading
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.engine import Engine
from structlog.testing import capture_logs

from shoal import __version__
from shoal.core.fleet import WorkerBeat
from shoal.core.spec import JobSpec
from shoal.errors import InputError, RedisUnavailable, StoreUnavailable
from shoal.frontier.crew import BEAT_LIFETIME, Crew
from shoal.frontier.scripts import connect
from shoal.redis_url import RedisUrls
from shoal.settings import Settings
from shoal.store import schema
from shoal.store.database import HEAD, make_engine, open_database, revision_of
from shoal.store.items import ItemRow
from shoal.store.job_rows import NewJob
from shoal.store.jobs import JobStore
from shoal.store.page_rows import DeadLetter, PageRow
from shoal.store.pages import PageStore
from shoal.store.postgres import PROGRAM
from shoal.upgrades import open_store
from tests.contract.databases import DATABASES
from tests.postgres import Postgres

BEFORE = schema.migrations()[-2].revision
"""The version before the newest."""


@pytest.fixture(params=DATABASES)
def empty(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[Engine]:
    """A database without any table."""
    url = f"sqlite:///{tmp_path / 'shoal.db'}"
    engine = make_engine(url if request.param == "sqlite" else request.getfixturevalue("postgres").new_database())
    yield engine
    engine.dispose()


def _shape(engine: Engine) -> dict[str, Any]:
    """Every table: columns, keys and indexes."""
    inspector = sa.inspect(engine)
    return {table: _table(inspector, table) for table in inspector.get_table_names() if table != "alembic_version"}


def _table(inspector: sa.Inspector, table: str) -> dict[str, Any]:
    columns = {
        column["name"]: (str(column["type"]), column["nullable"], column["default"])
        for column in inspector.get_columns(table)
    }
    indexes = {
        index["name"]: (index["column_names"], index["unique"], _said(index.get("dialect_options", {})))
        for index in inspector.get_indexes(table)
    }
    uniques = {unique["name"]: unique["column_names"] for unique in inspector.get_unique_constraints(table)}
    key = inspector.get_pk_constraint(table)["constrained_columns"]
    return {"columns": columns, "indexes": indexes, "uniques": uniques, "key": key}


def _said(options: dict[str, Any]) -> dict[str, str]:
    return {name: str(value) for name, value in options.items()}


def _fill(engine: Engine) -> None:
    page = PageRow("job", 1, "http://a.example/", "a.example", 200, 0, 0, "text/html", "utf-8", 1, 1.0, 5)
    item = ItemRow("job", 1, 0, "http://a.example/", {"title": "a"})
    letter = DeadLetter("job", 2, "http://a.example/2", "a.example", "dead", "http_404", "", 0, 1, 5)
    JobStore(engine).create(NewJob("job", JobSpec(urls=("http://a.example/",)), 5, "red", "r"), [["http://a.example/"]])
    PageStore(engine).write([page], [item, ItemRow("job", 1, 0, "http://a.example/", {}, "v2")], [letter])


def test_every_step_down_leaves_what_the_steps_up_had_made_and_the_rows_stay(empty: Engine) -> None:
    versions = [each.revision for each in schema.migrations()]
    shapes: dict[str, Any] = {}
    for version in versions:
        schema.upgrade(empty, version)
        shapes[version] = _shape(empty)
    _fill(empty)
    for version in reversed(versions[:-1]):
        schema.downgrade(empty, version)
        assert _shape(empty) == shapes[version], version
    with empty.connect() as connection:
        assert revision_of(connection) == versions[0]
    schema.upgrade(empty)
    assert _shape(empty) == shapes[HEAD]
    store = PageStore(empty)
    assert [page.url for page in store.pages("job")] == ["http://a.example/"]
    assert [item.data for item in store.items("job")] == [{"title": "a"}]
    assert [letter.reason for letter in store.dead_letters("job")] == ["http_404"]
    job = JobStore(empty).get("job")
    assert job is not None
    assert (job.tenant, job.spec.urls) == ("default", ())  # tenants are of a later version than the first


def test_ids_are_never_used_again_after_a_way_down_and_up(empty: Engine) -> None:
    """What reads on behind an id relies on it."""
    schema.upgrade(empty)
    _fill(empty)
    schema.downgrade(empty, schema.migrations()[0].revision)
    schema.upgrade(empty)
    letter = DeadLetter("job", 3, "http://a.example/3", "a.example", "dead", "http_404", "", 0, 1, 5)
    store = PageStore(empty)
    ((first, _),) = store.letters_after("job", 0)
    store.remove("job")
    store.write([], [], [letter])
    ((second, _),) = store.letters_after("job", 0)
    assert second > first


@pytest.mark.parametrize("statement", [5, 20, 60])
def test_who_is_cut_short_in_mid_migration_has_changed_nothing(empty: Engine, statement: int) -> None:
    counted = iter(range(1, 10**6))

    def cut_short(*_: object) -> None:
        if next(counted) == statement:
            raise KeyboardInterrupt

    event.listen(empty, "before_cursor_execute", cut_short)
    with pytest.raises(KeyboardInterrupt):
        schema.upgrade(empty)
    assert sa.inspect(empty).get_table_names() == []
    schema.upgrade(empty)
    with empty.connect() as connection:
        assert revision_of(connection) == HEAD


def test_every_migration_says_whether_old_processes_can_live_with_it() -> None:
    from shoal.store.migrations import versions

    for path in Path(versions.__path__[0]).glob("v*.py"):
        assert "\nadditive = " in path.read_text(encoding="utf-8"), f"{path.name}: say additive = True or False"


def test_a_version_that_there_is_not_is_refused(engine: Engine) -> None:
    with pytest.raises(InputError, match="there is no schema '0000'"):
        schema.downgrade(engine, "0000")


# --- newer than this process ------------------------------------------------------------------------------------------


def _pretend_newer(engine: Engine, usable_from: str) -> str:
    with engine.begin() as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = '9999'"))
        values = f"('9999', '{usable_from}', '99.0', 5)"
        connection.execute(sa.text(f"INSERT INTO schema_log (revision, works_from, version, at_ms) VALUES {values}"))
    return engine.url.render_as_string(hide_password=False)


def test_a_newer_schema_that_only_adds_is_used_and_told(engine: Engine) -> None:
    url = _pretend_newer(engine, HEAD)
    with capture_logs() as logs:
        other = open_database(url)
    assert [entry["event"] for entry in logs] == ["schema_newer"]
    assert PageStore(other).count("job") == 0
    other.dispose()


def test_a_newer_schema_that_says_nothing_is_refused(engine: Engine) -> None:
    with engine.begin() as connection:  # what an older one has said is no word on it
        connection.execute(sa.text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(StoreUnavailable, match="'9999', which this Shoal does not know"):
        open_database(engine.url.render_as_string(hide_password=False))


@pytest.mark.parametrize("usable_from", ["9999", "9000"])
def test_a_newer_schema_that_would_break_this_process_is_refused(engine: Engine, usable_from: str) -> None:
    said = (
        r"'9999', which this Shoal does not know \(Shoal 99.0 made it\).*Install Shoal 99.0.*shoal db downgrade " + HEAD
    )
    with pytest.raises(StoreUnavailable, match=said):
        open_database(_pretend_newer(engine, usable_from))


@pytest.mark.parametrize("revision", ["1975ea83b712", "0009ab3c12de", "head"])
def test_a_database_of_another_program_that_uses_alembic_is_called_so(empty: Engine, revision: str) -> None:
    with empty.begin() as connection:
        connection.execute(sa.text("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL)"))
        connection.execute(sa.text(f"INSERT INTO alembic_version VALUES ('{revision}')"))
    with pytest.raises(StoreUnavailable, match=rf"belongs to another program.*'{revision}'.*SHOAL_DATABASE_URL"):
        open_database(empty.url.render_as_string(hide_password=False))
    assert sa.inspect(empty).get_table_names() == ["alembic_version"]


def test_a_process_of_the_version_before_writes_into_a_schema_that_only_adds(engine: Engine) -> None:
    """What `additive` promises: a column and a table more change nothing for who does not know them."""
    with engine.begin() as connection:
        connection.execute(sa.text("ALTER TABLE pages ADD COLUMN later TEXT"))
        connection.execute(sa.text("ALTER TABLE items ADD COLUMN later INTEGER NOT NULL DEFAULT 0"))
    _fill(engine)
    assert [page.url for page in PageStore(engine).pages("job")] == ["http://a.example/"]


# --- older than this process, and shared ------------------------------------------------------------------------------


@pytest.fixture
def shared(postgres: Postgres, valkey_url: str, tmp_path: Path) -> Generator[Settings]:
    """Settings of a fleet whose PostgreSQL has the schema of the version before."""
    url = postgres.new_database()
    engine = make_engine(url)
    schema.upgrade(engine, BEFORE)
    engine.dispose()
    yield Settings(home=tmp_path, redis_url=valkey_url, database_url=url, prefix=f"upgrades-{tmp_path.name}")


def _worker(settings: Settings, version: str, knows: str = HEAD) -> None:
    assert settings.redis_url
    client = connect(RedisUrls.of(settings.redis_url).frontier)
    beat = WorkerBeat("host:1", ("http.batch",), 1, 0, 0, 50, 5, version, schema=knows)
    Crew(client, settings.prefix).heartbeat(beat, BEAT_LIFETIME)
    client.close()


def _revision(settings: Settings) -> str | None:
    engine = make_engine(settings.sql_url)
    with engine.connect() as connection:
        found = revision_of(connection)
    engine.dispose()
    return found


def test_who_starts_alone_brings_the_schema_up_to_date(shared: Settings) -> None:
    _worker(shared, __version__)
    open_store(shared).dispose()
    assert _revision(shared) == HEAD


def test_who_starts_beside_workers_of_another_version_changes_nothing(shared: Settings) -> None:
    _worker(shared, "0.0.9")
    with pytest.raises(StoreUnavailable, match=rf"host:1 \(0.0.9 schema {HEAD}\).*shoal db upgrade"):
        open_store(shared)
    assert _revision(shared) == BEFORE


@pytest.mark.parametrize("knows", ["", BEFORE])
def test_a_build_of_the_same_version_that_knows_another_schema_is_a_stranger(shared: Settings, knows: str) -> None:
    """One from before builds told it says nothing."""
    _worker(shared, __version__, knows)
    with pytest.raises(StoreUnavailable, match=r"of another version are at work: host:1 .*shoal db upgrade"):
        open_store(shared)
    assert _revision(shared) == BEFORE


def test_connections_of_a_build_that_knows_another_schema_are_strangers(shared: Settings) -> None:
    name = f"shoal {__version__} schema {BEFORE}"
    url = sa.make_url(shared.sql_url).update_query_dict({"application_name": name})
    engine = make_engine(url.render_as_string(hide_password=False))
    with (
        engine.connect(),
        pytest.raises(StoreUnavailable, match=f"1 connection of Shoal {__version__} schema {BEFORE}"),
    ):
        open_store(shared)
    engine.dispose()
    assert _revision(shared) == BEFORE


def test_who_starts_beside_connections_of_another_version_changes_nothing(shared: Settings) -> None:
    url = sa.make_url(shared.sql_url).update_query_dict({"application_name": "shoal 0.0.9"})
    engine = make_engine(url.render_as_string(hide_password=False))
    with engine.connect(), pytest.raises(StoreUnavailable, match=r"1 connection of Shoal 0.0.9.*shoal db upgrade"):
        open_store(shared)
    engine.dispose()
    assert _revision(shared) == BEFORE


def test_a_fleet_can_forbid_it_to_whoever_starts(shared: Settings, postgres: Postgres) -> None:
    careful = shared.model_copy(update={"database_upgrade": "refuse"})
    for url in (shared.sql_url, postgres.new_database()):
        with pytest.raises(StoreUnavailable, match="SHOAL_DATABASE_UPGRADE=refuse"):
            open_store(careful.model_copy(update={"database_url": url}))
    assert _revision(shared) == BEFORE


def test_who_cannot_ask_for_workers_changes_nothing(shared: Settings) -> None:
    with pytest.raises(RedisUnavailable):
        open_store(shared.model_copy(update={"redis_url": "redis://127.0.0.1:1"}))
    assert _revision(shared) == BEFORE


def test_a_file_of_sqlite_is_brought_up_to_date_whoever_lives(shared: Settings, tmp_path: Path) -> None:
    _worker(shared, "0.0.9")
    file = shared.model_copy(update={"database_url": f"sqlite:///{tmp_path / 'own.db'}", "database_upgrade": "refuse"})
    engine = make_engine(file.sql_url)
    schema.upgrade(engine, BEFORE)
    engine.dispose()
    open_store(file).dispose()
    assert _revision(file) == HEAD


def test_an_upgrade_steps_back_for_whoever_holds_a_table(postgres: Postgres, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever wants a table for himself and waits lets all others wait behind him."""
    monkeypatch.setattr(schema, "LOCK_WAIT_S", 1)
    monkeypatch.setattr(schema, "PAUSE_S", 0.2)
    monkeypatch.setattr(schema, "TRIES", 2)
    engine = make_engine(postgres.new_database())
    schema.upgrade(engine, "0013")  # the next one changes pages
    holder = engine.connect()
    holder.execute(sa.text("LOCK TABLE pages IN ACCESS SHARE MODE"))
    with pytest.raises(StoreUnavailable, match=r"could not be changed: somebody has held its tables"):
        schema.upgrade(engine)
    release = threading.Timer(0.5, holder.close)
    release.start()
    schema.upgrade(engine)
    release.join()
    with engine.connect() as connection:
        assert revision_of(connection) == HEAD
    engine.dispose()


# --- connections ------------------------------------------------------------------------------------------------------


def test_connections_say_who_they_are_and_prepare_as_the_url_says(postgres: Postgres) -> None:
    plain = postgres.new_database()
    for query, threshold in ({}, 5), ({"prepare_threshold": "none"}, None), ({"prepare_threshold": "2"}, 2):
        engine = make_engine(sa.make_url(plain).update_query_dict(query).render_as_string(hide_password=False))
        with engine.connect() as connection:
            driver: Any = connection.connection.driver_connection
            assert driver.prepare_threshold == threshold
            assert connection.execute(sa.text("SHOW application_name")).scalar_one() == PROGRAM
        engine.dispose()
    with pytest.raises(InputError, match="prepare_threshold is a number, or none"):
        open_database(
            sa.make_url(plain).update_query_dict({"prepare_threshold": "x"}).render_as_string(hide_password=False)
        )
