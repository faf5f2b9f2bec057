"""Is the database away, so that waiting helps, or does it refuse us for good?"""

from __future__ import annotations

import sqlite3

from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from shoal.errors import StoreUnavailable

_SQLITE = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_FULL)
_POSTGRESQL = ("08", "40", "53", "55", "57", "58")
"""Classes of SQLSTATE: connections, collisions, resources, locks, operators, the system."""


def is_away(url: str, error: StoreUnavailable) -> bool:
    """False when its configuration is wrong, or when the database is the wrong one."""
    cause = error.__cause__
    if isinstance(cause, PoolTimeout):
        return True
    refusal = getattr(cause, "orig", None) or cause
    if isinstance(refusal, sqlite3.Error):
        return getattr(refusal, "sqlite_errorcode", 0) & 0xFF in _SQLITE
    if not isinstance(cause, SQLAlchemyError) or not url.startswith("postgres"):
        return False
    state = getattr(refusal, "sqlstate", None)
    return state[:2] in _POSTGRESQL if state else _cannot_connect(url)


def _cannot_connect(url: str) -> bool:
    from shoal.store.postgres import refuses

    return not refuses(url)
