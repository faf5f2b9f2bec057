"""Dates as pages write them, as ISO 8601: `2024-03-12`, or `2024-03-12T14:30:00+01:00` when there is a time.

A date is read only when nothing has to be guessed: `03/04/2024` without a locale, or `March 2024`, is none.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import lru_cache

UNIX = "unix"
"""The form of a number of seconds, or milliseconds, since 1970."""
_MS_FROM = 100_000_000_000
"""Seconds until the year 5138; a larger number is one of milliseconds."""
_ISO = re.compile(r"\d{4}-\d\d-\d\d(?:[T ]|\Z)")
_TIME = re.compile(
    r"(?<!\d)(?P<hour>\d{1,2}):(?P<minute>\d\d)(?::(?P<second>\d\d)(?:[.,]\d+)?)?"
    r"(?:\s*(?P<half>[ap])\.?m\b\.?)?(?:\s*(?P<zone>Z|UTC|GMT|[+\-]\d\d:?\d\d)(?![\w:]))?",
    re.IGNORECASE,
)
_NUMBERS = re.compile(r"(?P<a>\d{1,4})\s*(?P<mark>[./\-年])\s*(?P<b>\d{1,2})\s*[./\-月]\s*(?P<c>\d{1,4})\s*日?")
_WORD = re.compile(r"[^\W\d_]+")
_DAY_OR_YEAR = re.compile(r"\d+")
_MONTHS = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
]
_DAYS = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]
_ENGLISH = {
    **{name[:length]: number for number, name in enumerate(_MONTHS, 1) for length in (3, 4, len(name))},
    **{name[:length]: 0 for name in _DAYS for length in (2, 3, 4, 5, len(name))},
}
"""Months by their number; 0 for words that say nothing."""
_FILLERS = dict.fromkeys(
    [
        "st",
        "nd",
        "rd",
        "th",
        "of",
        "on",
        "at",
        "the",
        "le",
        "de",
        "del",
        "den",
        "um",
        "uhr",
        "à",
        "alle",
        "kl",
        "г",
        "года",
    ],
    0,
)
_CENTURY = 69
"""A year of two digits from here on is one of the last century's."""


def read_date(text: str, locale: str = "", form: str = "") -> str | None:
    """The date of a text, or None."""
    if form == UNIX:
        return _of_unix(text)
    try:
        if form:
            return _of_form(text, locale, form)
        if _ISO.match(text):
            return _iso(datetime.fromisoformat(text), has_time=len(text) > 10)
        return _of_parts(text, locale)
    except (ValueError, OverflowError):
        return None


def check_form(form: str) -> str | None:
    """What is wrong with it, if anything."""
    if form == UNIX:
        return None
    if "%" not in form:
        return "write it as Python's strptime does: %d.%m.%Y, or unix for seconds since 1970"
    try:
        read = datetime.strptime(datetime(2024, 3, 12, 14, 30).strftime(form), form)
    except (ValueError, re.error) as exc:
        return str(exc)
    return None if read.year == 2024 else "it has no year"


def _of_unix(text: str) -> str | None:
    try:
        number = float(text)
        seconds = number / 1000 if abs(number) >= _MS_FROM else number
        return _iso(datetime.fromtimestamp(seconds, UTC), has_time=True)
    except (ValueError, OverflowError, OSError):
        return None


def _of_form(text: str, locale: str, form: str) -> str | None:
    has_time = any(part in form for part in ("%H", "%I", "%X", "%c", "%T", "%R"))
    if locale:
        text = _WORD.sub(lambda match: _in_english(match[0], locale), text)
    return _iso(datetime.strptime(text, form), has_time=has_time)


def _of_parts(text: str, locale: str) -> str | None:
    time = _TIME.search(text)
    rest = f"{text[: time.start()]} {text[time.end() :]}" if time else text
    day = _of_numbers(rest, locale) or _of_words(rest, locale)
    if day is None or time is None:
        return None if day is None else _iso(day, has_time=False)
    hour = int(time["hour"])
    if half := (time["half"] or "").lower():
        hour = hour % 12 + (12 if half == "p" else 0)
    zone = (time["zone"] or "").upper().replace("Z", "+00:00").replace("UTC", "+00:00").replace("GMT", "+00:00")
    clock = f"{hour:02}:{time['minute']}:{time['second'] or '00'}"
    return _iso(datetime.fromisoformat(f"{day.date().isoformat()}T{clock}{zone}"), has_time=True)


def _of_numbers(text: str, locale: str) -> datetime | None:
    """12.03.2024, 2024/3/12, and what a locale makes of 03/12/2024."""
    match = _NUMBERS.search(text)
    if match is None or any(_meaning(word, locale) for word in _WORD.findall(text.replace(match[0], ""))):
        return None
    first, second, third = int(match["a"]), int(match["b"]), int(match["c"])
    if len(match["a"]) == 4:
        return datetime(first, second, third)
    day_first = match["mark"] == "." or (_day_first(locale) if locale else None)
    if day_first is None:
        if first <= 12 and second <= 12 and first != second:
            return None
        day_first = first > 12
    day, month = (first, second) if day_first else (second, first)
    return datetime(_year(match["c"]), month, day)


def _of_words(text: str, locale: str) -> datetime | None:
    """12 March 2024, March 12th, 2024, in the locale's words or in English."""
    meanings = [_meaning(word, locale) for word in _WORD.findall(text)]
    months = [month for month in meanings if month]
    numbers = _DAY_OR_YEAR.findall(text)
    if len(months) != 1 or None in meanings or len(numbers) != 2:
        return None
    day, year = numbers if len(numbers[0]) <= 2 else reversed(numbers)
    return datetime(_year(year), months[0], int(day))


def _meaning(word: str, locale: str) -> int | None:
    """The number of a month, 0 for a word that says nothing, None for one that nobody knows."""
    name = word.lower()
    own = _names(locale).get(name) if locale else None
    return own if own is not None else _ENGLISH.get(name, _FILLERS.get(name))


def _year(text: str) -> int:
    number = int(text)
    return number if len(text) > 2 else number + (1900 if number >= _CENTURY else 2000)


def _iso(at: datetime, *, has_time: bool) -> str:
    return at.isoformat(timespec="seconds") if has_time else at.date().isoformat()


def _in_english(word: str, locale: str) -> str:
    month = _names(locale).get(word.lower())
    return _MONTHS[month - 1].capitalize() if month else word


@lru_cache(maxsize=100)
def _names(locale: str) -> dict[str, int]:
    from babel import Locale

    own = Locale.parse(locale.replace("-", "_"))
    names: dict[str, int] = {}
    for part in ("days", "months"):
        for context in ("format", "stand-alone"):
            for width in ("abbreviated", "wide"):
                for number, name in getattr(own, part)[context][width].items():
                    for word in _WORD.findall(name.lower()):
                        names[word] = number if part == "months" else 0
    return names


@lru_cache(maxsize=100)
def _day_first(locale: str) -> bool:
    from babel import Locale

    pattern: str = Locale.parse(locale.replace("-", "_")).date_formats["short"].pattern
    return pattern.index("d") < pattern.index("M")
