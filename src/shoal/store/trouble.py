"""Database trouble as our own errors, and how long a call has been waiting for the database.

Either the database cannot be used, which passes, and then the same call can be made again; or it does not take what it
was given, and never will.

A locked or frozen database does not fail at once: until it does, the time of the calls under way is all that shows it.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Generator
from contextlib import contextmanager
from itertools import count

from sqlalchemy.exc import DataError, IntegrityError, SQLAlchemyError

from shoal.core.redact import without_secrets
from shoal.errors import RowRefused, StoreUnavailable

_ABOUT_A_ROW = (IntegrityError, DataError, OverflowError, UnicodeEncodeError)
"""The last two come from drivers that cannot even hand a value over: a huge number, half a character."""
_LIMIT_EXCEEDED = "54"
"""PostgreSQL's class of errors about what is too large for it; its driver counts them among the outages."""

_numbers = count()
_under_way: dict[int, float] = {}
"""Number of a call of this process → when it began, in the order in which they did."""


@contextmanager
def translated_errors() -> Generator[None]:
    """Database trouble as our own errors, with its cause in words; raises StoreUnavailable and RowRefused."""
    number = next(_numbers)
    _under_way[number] = time.monotonic()
    try:
        yield
    except (SQLAlchemyError, sqlite3.Error, *_ABOUT_A_ROW) as exc:
        cause = getattr(exc, "orig", None) or exc
        why = without_secrets(str(cause))  # PostgreSQL repeats the row
        if _is_about_a_row(exc, cause):
            raise RowRefused(f"the database does not take this row: {why}") from exc
        raise StoreUnavailable(f"the database refused: {why}") from exc
    finally:
        del _under_way[number]


def _is_about_a_row(exc: Exception, cause: BaseException) -> bool:
    state: str = getattr(cause, "sqlstate", None) or ""
    return isinstance(exc, _ABOUT_A_ROW) or state.startswith(_LIMIT_EXCEEDED)


def longest_wait_s() -> float:
    """How long the oldest database call of this process that is still under way has taken so far."""
    started = min(list(_under_way.values()), default=None)
    return 0.0 if started is None else time.monotonic() - started
