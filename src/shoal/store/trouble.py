"""Database trouble as our own error."""

from __future__ import annotations

import sqlite3
from collections.abc import Generator
from contextlib import contextmanager

from sqlalchemy.exc import SQLAlchemyError

from shoal.errors import StoreUnavailable


@contextmanager
def translated_errors() -> Generator[None]:
    """Database trouble as our own error, with its cause in words."""
    try:
        yield
    except (SQLAlchemyError, sqlite3.Error) as exc:
        raise StoreUnavailable(f"the database refused: {getattr(exc, 'orig', None) or exc}") from exc
