"""Connections to PostgreSQL. Imported only where one is used: its driver may be missing."""

from __future__ import annotations

import psycopg
import sqlalchemy as sa
from psycopg.conninfo import make_conninfo
from psycopg.pq import PGconn, Ping

LIMITS: dict[str, int] = {"connect_timeout": 5}
"""In seconds."""
_FULL = ("too many clients", "connection slots are reserved")
"""libpq keeps the code of a refusal to itself, and has but its text."""


def driver_url(url: sa.URL) -> sa.URL:
    """The URL with the driver that Shoal brings along, unless it names one."""
    return url.set(drivername="postgresql+psycopg") if url.drivername in ("postgresql", "postgres") else url


def refuses(url: str) -> bool:
    """Is the server well, and does not let us in? Not while it is away, starting, stopping or full."""
    chosen = driver_url(sa.make_url(url))
    _, parameters = chosen.get_dialect()().create_connect_args(chosen)
    conninfo = make_conninfo("", **{**LIMITS, **parameters})
    if PGconn.ping(conninfo.encode()) in (Ping.REJECT, Ping.NO_RESPONSE):
        return False
    try:
        psycopg.connect(conninfo).close()  # it may have come just now
    except psycopg.Error as exc:
        return not any(words in str(exc) for words in _FULL)
    return False
