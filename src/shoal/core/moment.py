"""Dates as sitemaps and feeds write them: ISO 8601 down to a year alone, and those of mail (RFC 822)."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

_YEAR = re.compile(r"(\d{4})(?:-(\d{2}))?")
_DAY = re.compile(r"\d{4}-?\d{2}-?\d{2}")
_MOST_CHARS = 60
_INSTANT = timedelta(milliseconds=1)


def latest_ms(text: str) -> int | None:
    """The last ms that a date can mean: of a day its end, of a year its end; None when it cannot be understood."""
    text = text.strip()
    if len(text) > _MOST_CHARS:
        return None
    try:
        return _ms(_end_of(text))
    except (ValueError, OverflowError, TypeError):
        return None


def _end_of(text: str) -> datetime:
    if short := _YEAR.fullmatch(text):
        year, month = int(short[1]), int(short[2] or 12)
        return datetime(year + month // 12, month % 12 + 1, 1, tzinfo=UTC) - _INSTANT
    if _DAY.fullmatch(text):
        return datetime.fromisoformat(text).replace(tzinfo=UTC) + timedelta(days=1) - _INSTANT
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return parsedate_to_datetime(text)


def _ms(at: datetime) -> int:
    """UTC, where there is no zone."""
    return round((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)
