"""A query that is not answered: the server works on it, or nobody does."""

from __future__ import annotations

import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from psycopg.sql import SQL
from sqlalchemy.engine import Engine
from sqlalchemy.exc import OperationalError

from shoal.errors import StoreUnavailable
from shoal.store import postgres as store
from shoal.store.database import open_database
from tests.fault_proxy import FaultProxy
from tests.mortal_postgres import mortal_postgres
from tests.postgres import Postgres


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "SILENCE_S", 0.3)
    monkeypatch.setitem(store.LIMITS, "connect_timeout", 2)


@pytest.fixture
def proxy(postgres: Postgres) -> Generator[FaultProxy]:
    query = sa.make_url(postgres.uri).query
    folder, port = query["host"], query.get("port", "5432")
    with FaultProxy(str(Path(str(folder)) / f".s.PGSQL.{port}")).running() as between:
        yield between


def _ask(engine: Engine, query: str = "SELECT 1") -> object:
    with engine.connect() as connection:
        return connection.execute(sa.text(query)).scalar()


def test_a_query_that_the_server_works_on_may_take_its_time(postgres: Postgres) -> None:
    engine = open_database(postgres.new_database())
    assert _ask(engine, "SELECT 7 FROM pg_sleep(1.5)") == 7
    engine.dispose()


def test_a_connection_that_cannot_be_made_ready_is_closed(postgres: Postgres, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[store.PatientConnection] = []

    class Noted(store.PatientConnection):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            made.append(self)

    monkeypatch.setattr(store, "PatientConnection", Noted)
    monkeypatch.setattr(store, "_SET_THEIRS", SQL("SELECT set_config('no such limit', '1', false)"))
    with pytest.raises(StoreUnavailable, match="no such limit"):
        open_database(postgres.new_database())
    assert [each.closed for each in made] == [True]


def test_an_answer_that_comes_while_somebody_asks_for_it_is_heard(
    postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask = store._trouble_of  # pyright: ignore[reportPrivateUsage]
    found: list[str] = []

    def ask_late(*args: Any) -> str:
        time.sleep(1.0)
        found.append(ask(*args))
        return found[-1]

    monkeypatch.setattr(store, "_trouble_of", ask_late)
    engine = open_database(postgres.new_database())
    assert _ask(engine, "SELECT 7 FROM pg_sleep(0.7)") == 7
    assert found == ["the server knows of no such query (idle in transaction)"]
    engine.dispose()


def test_a_connection_that_somebody_has_forgotten_is_given_up_and_replaced(
    postgres: Postgres, proxy: FaultProxy
) -> None:
    direct = sa.make_url(postgres.new_database())
    between = direct.set(host="127.0.0.1", port=proxy.port, query={})
    engine = open_database(between.render_as_string(hide_password=False))
    with engine.connect() as connection:
        assert proxy.mute_all() > 0
        with pytest.raises(OperationalError, match="the server knows of no such query") as caught:
            connection.execute(sa.text("SELECT 1"))
        assert caught.value.connection_invalidated
    assert _ask(engine) == 1
    engine.dispose()


def test_a_frozen_server_is_given_up_and_used_again_when_it_thaws() -> None:
    with mortal_postgres() as server:
        engine = open_database(server.new_database())
        with engine.connect() as connection, server.frozen():
            with pytest.raises(OperationalError, match="connection timeout expired"):
                connection.execute(sa.text("SELECT 1"))
            with pytest.raises(OperationalError, match="connection timeout expired"):
                _ask(engine)
        assert _ask(engine) == 1
        engine.dispose()


def test_what_the_url_says_is_stronger_than_our_limits(postgres: Postgres) -> None:
    url = sa.make_url(postgres.new_database()).update_query_dict({"connect_timeout": "9"})
    engine = open_database(url.render_as_string(hide_password=False))
    with engine.connect() as connection:
        given = connection.connection.driver_connection
        assert isinstance(given, store.PatientConnection)
        assert given.info.get_parameters()["connect_timeout"] == "9"
        assert given.info.get_parameters()["tcp_user_timeout"] == "10000"
    engine.dispose()
