"""Databases for tests: copies of one that was migrated once, because migrating takes longer than a test."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path

import pytest

from shoal.store.database import open_database
from tests.postgres import Postgres

DATABASES = ("sqlite", "postgresql")


def a_database(request: pytest.FixtureRequest, folder: Path) -> str:
    """For a fixture over `DATABASES`: the URL of one with all tables and no row."""
    if request.param == "sqlite":
        return a_sqlite(folder)
    return a_postgresql(request.getfixturevalue("postgres"))


def a_sqlite(folder: Path) -> str:
    """The URL of the database in this folder; it is made if it is not there."""
    path = folder / "shoal.db"
    if not path.exists():
        path.write_bytes(_sqlite())
    return f"sqlite:///{path}"


def a_postgresql(server: Postgres) -> str:
    """The URL of a new database on this server."""
    return server.copy_database(_postgresql(server))


@cache
def _sqlite() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "shoal.db"
        open_database(f"sqlite:///{path}").dispose()
        return path.read_bytes()


@cache
def _postgresql(server: Postgres) -> str:
    url = server.new_database()
    open_database(url).dispose()
    return url
