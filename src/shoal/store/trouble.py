"""Database trouble as our own error, and how long a call has been waiting for the database.

A locked or frozen database does not fail at once: until it does, the time of the calls under way is all that shows it.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Generator
from contextlib import contextmanager
from itertools import count

from sqlalchemy.exc import SQLAlchemyError

from shoal.errors import StoreUnavailable

_numbers = count()
_under_way: dict[int, float] = {}
"""Number of a call of this process → when it began, in the order in which they did."""


@contextmanager
def translated_errors() -> Generator[None]:
    """Database trouble as our own error, with its cause in words."""
    number = next(_numbers)
    _under_way[number] = time.monotonic()
    try:
        yield
    except (SQLAlchemyError, sqlite3.Error) as exc:
        raise StoreUnavailable(f"the database refused: {getattr(exc, 'orig', None) or exc}") from exc
    finally:
        del _under_way[number]


def longest_wait_s() -> float:
    """How long the oldest database call of this process that is still under way has taken so far."""
    started = min(list(_under_way.values()), default=None)
    return 0.0 if started is None else time.monotonic() - started
