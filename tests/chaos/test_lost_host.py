"""What a host that has lost its power leaves behind on others: connections that nobody will ever close."""

from __future__ import annotations

import sys
from datetime import timedelta
from pathlib import Path

import psycopg

from tests.chaos.moved_postgres import move_postgres
from tests.chaos.namespaces import a_network
from tests.command import REPOSITORY
from tests.postgres import own_server
from tests.waiting import wait_until

PASSWORD = "not-a-secret"
UNFINISHED = """
import sys, time
import sqlalchemy as sa
from shoal.store.database import open_database
with open_database(sys.argv[1]).begin() as connection:
    connection.execute(sa.text("UPDATE alembic_version SET version_num = version_num"))
    open(sys.argv[2], "w").close()
    time.sleep(600)
"""
"""It has changed a row, and will neither keep nor undo that."""
SOON = timedelta(seconds=30)
NOTICED_WITHIN = timedelta(seconds=15)
"""Kernels left to themselves wait for two hours before they ask."""


def test_a_transaction_of_a_lost_host_is_undone_and_keeps_nobody_waiting_for_long(tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    with own_server(tmp_path) as server, a_network(tmp_path, ("database", "worker"), {}) as network:
        local = move_postgres(server, network.plug_in("database"), "shoal", PASSWORD)
        worker = network.plug_in("worker")
        url = f"postgresql://shoal:{PASSWORD}@database/shoal"
        worker.start(sys.executable, "-c", UNFINISHED, url, str(begun), variables={"PYTHONPATH": str(REPOSITORY)})
        wait_until(begun.exists, within=SOON)
        with psycopg.connect(local, autocommit=True) as other:
            assert not _is_free(other)
            worker.lose()
            wait_until(lambda: _is_free(other), within=NOTICED_WITHIN, poll_s=0.5)


def _is_free(connection: psycopg.Connection[tuple[object, ...]]) -> bool:
    """May the row be changed by others?"""
    try:
        connection.execute("SELECT 1 FROM alembic_version FOR UPDATE NOWAIT")
    except psycopg.errors.LockNotAvailable:
        return False
    return True
