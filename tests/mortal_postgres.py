"""A PostgreSQL that can be killed and started again, frozen and thawed."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psutil

from tests.postgres import Postgres, own_server


@dataclass(frozen=True, slots=True)
class MortalPostgres(Postgres):
    """A server of its own, for one test."""

    server: Any

    def kill(self) -> None:
        """kill -9 of the server with all its processes."""
        every = self._processes()
        for process in every:
            process.kill()
        psutil.wait_procs(every, timeout=10)

    @contextmanager
    def frozen(self) -> Generator[None]:
        """It keeps its connections, and answers nothing for as long as this lasts."""
        every = self._processes()
        for process in every:
            process.suspend()
        try:
            yield
        finally:
            for process in every:
                process.resume()

    def _processes(self) -> list[psutil.Process]:
        main = psutil.Process(self.server.get_pid())
        return [main, *main.children(recursive=True)]

    def start(self) -> None:
        """Bring it back, on the same data and the same socket."""
        self.server.ensure_postgres_running()


@contextmanager
def mortal_postgres() -> Generator[MortalPostgres]:
    """A fresh server."""
    with own_server() as server:
        yield MortalPostgres(server.get_uri(), server)
