"""URLs with ranges and lists in them: `https://shop.example/list?page={1..50}` stands for fifty.

    {1..50}      1, 2, … 50          {50..1}      the other way round
    {001..120}   001, 002, … 120     {0..100..10} 0, 10, … 100
    {de,fr,it}   de, fr, it

Several in one URL stand for all their combinations, the last changing first. Braces that hold anything else are left as
they are; those of a range or list that is meant literally are written %7B and %7D.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from math import prod

from shoal.core.frozen import frozen
from shoal.errors import BadUrl

MAX_EXPANDED = 1_000_000
"""URLs that the templates of one submission may stand for, and one line of a stream."""
MAX_GROUPS = 10
"""Ranges and lists in one URL."""

_GROUP = re.compile(r"\{([^{}]*)\}")
_RANGE = re.compile(r"(-?[0-9]{1,12})\.\.(-?[0-9]{1,12})(?:\.\.(-?[0-9]{1,12}))?")
_LIST = re.compile(r"[A-Za-z0-9._~%+-]*(?:,[A-Za-z0-9._~%+-]*)+")
_ATTEMPT = re.compile(r"[A-Za-z0-9.-]*\.\.[A-Za-z0-9.-]*")
_FORMS = "write {1..50}, {001..120}, {0..100..10} or {a,b,c}; braces that are meant literally are %7B and %7D"


@frozen
class _Numbers:
    """A range, not written out."""

    span: range
    width: int

    def __len__(self) -> int:
        return len(self.span)

    def __iter__(self) -> Iterator[str]:
        return (f"{number:0{self.width}d}" for number in self.span)


_Values = _Numbers | tuple[str, ...]


def expand(text: str) -> Iterator[str]:
    """All URLs that a text stands for, one by one; itself, when there is nothing to expand. Raises BadUrl."""
    if "{" not in text:
        return iter((text,))
    literals, groups = _read(text)
    return _joined(literals, groups)


def count(text: str) -> int:
    """How many URLs it stands for; raises BadUrl."""
    return prod(map(len, _read(text)[1])) if "{" in text else 1


def count_all(texts: Iterable[str]) -> int:
    """How many URLs these stand for together; what is no template counts once."""
    total = 0
    for text in texts:
        try:
            total += count(text) if "{" in text else 1
        except BadUrl:
            total += 1
    return total


def _joined(literals: tuple[str, ...], groups: tuple[_Values, ...]) -> Iterator[str]:
    if not groups:
        yield literals[0]
        return
    for value in groups[0]:
        for rest in _joined(literals[1:], groups[1:]):
            yield literals[0] + value + rest


@lru_cache(maxsize=100)
def _read(text: str) -> tuple[tuple[str, ...], tuple[_Values, ...]]:
    """(what stands around the groups, the groups); checked as a whole."""
    literals, groups, last = [""], list[_Values](), 0
    for match in _GROUP.finditer(text):
        values = _values(match[1])
        literals[-1] += text[last : match.start()]
        last = match.end()
        if values is None:
            literals[-1] += match[0]
        else:
            groups.append(values)
            literals.append("")
    literals[-1] += text[last:]
    if len(groups) > MAX_GROUPS:
        raise BadUrl(f"{len(groups)} ranges and lists in one URL; at most {MAX_GROUPS} are allowed")
    total = prod(map(len, groups))
    if total > MAX_EXPANDED:
        raise BadUrl(f"it stands for {total} URLs; at most {MAX_EXPANDED} are allowed: {text[:200]!r}")
    return tuple(literals), tuple(groups)


def _values(inner: str) -> _Values | None:
    """What a pair of braces stands for; None when it is meant literally."""
    if found := _RANGE.fullmatch(inner):
        return _numbers(inner, *found.groups())
    if _LIST.fullmatch(inner):
        return tuple(inner.split(","))
    if _ATTEMPT.fullmatch(inner):
        raise BadUrl(f"{{{inner[:100]}}} is no range of numbers: {_FORMS}")
    return None


def _numbers(inner: str, first: str, last: str, step: str | None) -> _Numbers:
    start, end, by = int(first), int(last), abs(int(step or 1))
    if not by:
        raise BadUrl(f"{{{inner}}} has steps of 0: {_FORMS}")
    padded = any(text.lstrip("-").startswith("0") and len(text.lstrip("-")) > 1 for text in (first, last))
    span = range(start, end + 1, by) if start <= end else range(start, end - 1, -by)
    return _Numbers(span, max(len(first), len(last)) if padded else 1)
