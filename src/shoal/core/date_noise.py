"""Dates and times in a text, put aside: a page that says another time at each visit has not changed for that.

Each becomes `[date]`, however it is written, so that `3 minutes ago` and `12 March 2026, 14:30` are the same. What is
no date beyond doubt stays: a year alone, a month alone, `12 may apply`. RE2 finds them all in one pass, in time that
grows with the text and not faster.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from typing import Any, cast

import re2 as untyped

from shoal.core.month_names import DAYS, MONTHS, SHORT_MONTHS

MARK = "[date]"
"""In place of each."""

_re2 = cast(Any, untyped)
_AMBIGUOUS = ("may", "march", "mart")
"""Other words as well: without a day and a year, they are names where they begin with a capital letter."""
_WORDS = ("out", "set")
"""Other words mostly, `5 Out of 10`, `Set 12`: names only beside a day and a year."""
_ZONE = r"(?: ?(?:Z|UTC|GMT|[CEMPW]E?[SD]?T))?(?: ?[+−-]\d\d:?\d\d)?"
_DAY, _MONTH, _YEAR = r"(?:[12]\d|3[01]|0?[1-9])", r"(?:1[0-2]|0?[1-9])", r"(?:19|20)\d\d"
_HOUR, _SIXTY = r"(?:2[0-4]|[01]?\d)", r"[0-5]\d"
_CLOCK = "|".join(
    (
        rf"{_HOUR}:{_SIXTY}(?::{_SIXTY}(?:[.,]\d{{1,9}})?)?(?: ?[ap]\.?m\.?| Uhr|h)?{_ZONE}",
        rf"(?:1[0-2]|0?\d)(?:\.{_SIXTY})? ?[ap]\.?m\.?",
        rf"{_HOUR}(?:\.{_SIXTY})? Uhr|{_HOUR}h{_SIXTY}",
    )
)
_NUMBERS = "|".join(
    (
        rf"{_YEAR}-[01]\d-[0-3]\d(?:[T ]{_HOUR}:{_SIXTY}(?::{_SIXTY}(?:[.,]\d{{1,9}})?)?{_ZONE})?",
        rf"{_YEAR}\.[01]\d\.[0-3]\d|{_YEAR}/{_MONTH}/{_DAY}",
        *(rf"{_DAY}{mark} ?{_MONTH}{mark} ?{_YEAR}" for mark in (r"\.", "/", "-")),
        *(rf"{_MONTH}{mark}{_DAY}{mark}{_YEAR}" for mark in ("/", "-")),
        r"[0-3]\d\.[01]\d\.\d\d|[0-3]\d/[0-3]\d/\d\d",
        r"\d{4} ?[年년] ?\d{1,2} ?[月월] ?\d{1,2} ?[日일]",
    )
)
_UNIT = (
    r"(?:sec(?:ond)?s?|sek(?:und(?:en?|er|y)?)?|min(?:ut(?:en?|es?|er|os?|i|y|a)?|s)?|hours?|hrs?|days?|weeks?|months?|years?"
    r"|stunden?|tage?n?|wochen?|monate?n?|jahre?n?|heures?|jours?|semaines?|mois|ans?"
    r"|segundos?|horas?|d[íi]as?|semanas?|mes(?:es)?|mês|a[ñn]os?"
    r"|second[oi]|or[ae]|giorn[oi]|settiman[ae]|mes[ei]|ann[oi]|uur|uren|dagen|dag|weken|week|maand(?:en)?|jaar"
    r"|tim(?:me|mar|er?)|dag(?:ar|er?)|veck(?:a|or)|uger?|uker?|m[åa]n[ae]d(?:er)?|år"
    r"|секунд[уы]?|минут[уы]?|час(?:а|ов)?|день|дня|дней|недел[юьи]|месяц(?:а|ев)?|года?|лет"
    r"|godzin[aęy]?|dni|dzień|tydzień|tygodni[ae]?|miesi(?:ąc|ące|ęcy)|lata?|rok|saniye|dakika|saat|gün|hafta|ay|yıl)"
)
_ONE = r"(?:\d{1,4}|an?|one|ein(?:e[mrn]?)?|une?|una|uma?|een|en|ett|et)"
_AGO = "|".join(
    (
        rf"{_ONE} {_UNIT} (?:ago|fa|geleden|sedan|siden|назад|temu|önce|atrás)|un['’]ora fa|just now",
        rf"(?:vor|il y a|hace|há|före?|před) {_ONE} {_UNIT}|a (?:moment|few seconds|few minutes) ago",
        r"\d{1,4} ?(?:秒|分钟|分鐘|分|小时|小時|時間|天|日|周|週間|个月|個月|か月|年)前",
        r"\d{1,4} ?(?:초|분|시간|일|주|개월|년) ?전",
    )
)
_RELATIVE_DAY = (
    r"(?:today|yesterday|tomorrow|heute|gestern|morgen|aujourd['’]hui|hier|hoy|ayer|oggi|ieri|hoje|ontem|vandaag"
    r"|gisteren|idag|igår|i dag|i går|сегодня|вчера|dziś|wczoraj|bugün|dün)"
)
_BEHIND = (".", ":", "/")
"""Of a number that goes on, and so was none of a date."""
_BEFORE = (*_BEHIND, ",", "-")
_VERSION = re.compile(rb"(?:\bv|version|build|\bver|\brev|firmware)[.:#]? ?\Z", re.IGNORECASE)
"""Before a number with dots that is one of software."""
_WHOLE = ("日", "일", "前", "전")
"""Behind these, no space ends a word."""
_LINK = r"(?: ?[,;·|–—/-] ?| ?(?:at|um|à|a las|às|alle|ore|om|kl\.?|klo|в|о|o) | )"
_RUN = re.compile(rf"{re.escape(MARK)}(?:{_LINK}{{0,2}}{re.escape(MARK)})+", re.IGNORECASE)


def without_dates(text: str) -> str:
    """A text whose white space is in order: single spaces, ends of lines."""
    raw, parts, done = text.encode("utf-8", "replace"), list[bytes](), 0
    for match in _moments().finditer(raw):
        start, end = match.span()
        if _stands_alone(raw, start, end):
            parts += (raw[done:start], MARK.encode())
            done = end
    if not parts:
        return text
    return _RUN.sub(MARK, b"".join((*parts, raw[done:])).decode("utf-8", "replace"))


@cache
def _moments() -> Any:
    """Everything that is a moment, in one pattern."""
    month, capital = rf"(?:{_any((*MONTHS, *SHORT_MONTHS))})\.?", _any(name.capitalize() for name in _AMBIGUOUS)
    bare = rf"(?:(?:{_any(_clear(MONTHS))})|(?-i:{capital}))"
    alone = rf"(?:(?:{_any(_clear(MONTHS | SHORT_MONTHS))})|(?-i:{capital}))\.?"
    ordinal, year = r"(?:st|nd|rd|th|er|ter|º|:e)?", rf"{_YEAR}(?: ?[гр]\.?)?"
    behind_day = rf"{ordinal}\.?[ -](?:of |de |d['’])?"
    with_year = rf"(?:,? (?:de |del )?|-){year}"
    worded = "|".join(
        (
            rf"(?:{_DAY}\.? ?[–-] ?)?{_DAY}{behind_day}{month}{with_year}",
            rf"{month} {_DAY}{ordinal}(?: ?[–-] ?{_DAY}{ordinal})?,? {year}",
            rf"{alone},? (?:de )?{year}",
            rf"{_DAY}{behind_day}{bare}",
            rf"{bare} {_DAY}{ordinal}",
        )
    )
    day_name = rf"(?:(?:{_any(DAYS)})\.?,? (?:(?:den|the|le|el|dnia) )?)?"
    relative = rf"{_RELATIVE_DAY}{_LINK}{{1,2}}(?:{_CLOCK})"
    options = _re2.Options()
    options.log_errors, options.max_mem = False, 64 << 20
    return _re2.compile(rf"(?i)(?:{day_name}(?:{worded}|{_NUMBERS})|{relative}|{_AGO}|{_CLOCK})", options)


def _clear(names: Iterable[str]) -> list[str]:
    return [name for name in names if name not in _AMBIGUOUS and name not in _WORDS]


def _any(names: Iterable[str]) -> str:
    """The longest first: a name may begin with another."""
    return "|".join(sorted(map(re.escape, names), key=lambda name: (-len(name), name)))


def _stands_alone(raw: bytes, start: int, end: int) -> bool:
    """Is it no part of a longer word or number, no version, and not `3 am Lager`, which is no hour in German?"""
    before = raw[max(0, start - 4) : start].decode("utf-8", "ignore")[-1:]
    if before.isalnum() or (before in _BEFORE and raw[max(0, start - 2) : start - 1].isdigit()):
        return False
    if b"." in raw[start:end] and _VERSION.search(raw, max(0, start - 16), start):
        return False
    if raw[start:end].endswith(b" am") and raw[end : end + 1] == b" " and b":" not in raw[start:end]:
        return False
    behind = raw[end : end + 4].decode("utf-8", "ignore")[:1]
    if behind in _BEHIND:
        return not raw[end + 1 : end + 2].isdigit()
    return not behind.isalnum() or raw[max(0, end - 3) : end].decode("utf-8", "ignore")[-1:] in _WHOLE
