"""Regular expressions from users, which are searched in URLs from strangers.

Python tries all ways in which a pattern can match. A repeat within a repeat, or a repeated choice between things that
may begin alike, has so many of these that one URL can take for ever: such patterns are refused when they are submitted.
Several repeats in a row multiply: `.*a.*b` takes seconds for a URL of two thousand a. How much it can be at the most is
seen in the URL, and one that would take too long is left out.
"""

from __future__ import annotations

import re
import re._constants as code  # pyright: ignore
import re._parser as parser  # pyright: ignore
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast

MAX_PATTERN_CHARS = 1_000
"""Of one `allow` or `deny`."""
MAX_STEPS = 20_000_000
"""Of one pattern in one URL: a tenth of a second."""
MAX_TURNS = 10
"""Of something that repeats itself, within a group that is repeated a given number of times."""

_Node = tuple[Any, Any]
_code, _parser = cast(Any, code), cast(Any, parser)
_REPEATS = frozenset({_code.MAX_REPEAT, _code.MIN_REPEAT, _code.POSSESSIVE_REPEAT})
_LOOKS = frozenset({_code.ASSERT, _code.ASSERT_NOT})


class EndlessPattern(ValueError):
    """It can take for ever."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """A compiled pattern that knows how long it may take."""

    regex: re.Pattern[str]
    stops: tuple[str, ...]
    """Where a match can begin and where each repeat in it can end: at this character, or anywhere."""

    def bears(self, text: str) -> bool:
        """Is the text one that can be searched in a short time?"""
        if len(self.stops) <= 2:  # at most the square of a URL's length
            return True
        steps = len(text)  # of the last repeat, each time that it comes to its turn
        for stop in self.stops[:-1]:
            steps *= (text.count(stop) + 1) if stop else len(text)
        return steps <= MAX_STEPS

    def finds(self, text: str) -> bool:
        """Does it match anywhere?"""
        return self.regex.search(text) is not None


@lru_cache(maxsize=1000)
def compile_pattern(text: str) -> Pattern:
    """Raises re.error, OverflowError, RecursionError or EndlessPattern."""
    if len(text) > MAX_PATTERN_CHARS:
        raise EndlessPattern(f"longer than {MAX_PATTERN_CHARS} characters")
    regex = re.compile(text)
    tree = list(_parser.parse(text))
    caseless = bool(regex.flags & re.IGNORECASE) or "(?i" in text
    stops = (_first(tree, ""), *_stops(tree, ""))
    return Pattern(regex, tuple("" if caseless else stop for stop in stops))


def _stops(nodes: Iterable[_Node], after: str) -> Iterator[str]:
    """What ends each repeat of this sequence, which is followed by a certain character, or by anything."""
    listed = list(nodes)
    for number, (op, value) in enumerate(listed):
        follows = _first(listed[number + 1 :], after)
        if op in _REPEATS:
            least, most, inner = value
            yield from _stops_of_repeat(least, most, inner, follows)
        elif op is _code.BRANCH:
            yield from max(([*_stops(branch, follows)] for branch in value[1]), key=len)
        elif op is _code.GROUPREF:
            yield ""
        else:
            for inner in _inner(op, value):
                yield from _stops(inner, follows)


def _stops_of_repeat(least: int, most: int, inner: Iterable[_Node], follows: str) -> Iterator[str]:
    listed = list(inner)
    within = list(_stops(listed, ""))
    if most > 1 and (within or _wavers(listed)):
        if most > MAX_TURNS:
            raise EndlessPattern("a repeat within a repeat, or a repeated choice between things that may begin alike")
        for _ in range(most):
            yield from within or [""]
    elif within:
        yield from within
    if most - least > 1:
        yield follows


def _wavers(nodes: Iterable[_Node]) -> bool:
    """Is there a part that may be there or not, or a choice that one character does not decide?"""
    for op, value in nodes:
        if op in _REPEATS:
            if value[0] != value[1] or _wavers(value[2]):
                return True
        elif op is _code.BRANCH:
            starts = [_first(list(branch), "") for branch in value[1]]
            if "" in starts or len(set(starts)) < len(starts) or any(_wavers(branch) for branch in value[1]):
                return True
        elif op is _code.GROUPREF or any(_wavers(inner) for inner in _inner(op, value)):
            return True
    return False


def _inner(op: Any, value: Any) -> Iterator[list[_Node]]:
    if op is _code.SUBPATTERN:
        yield list(value[3])
    elif op in _LOOKS:
        yield list(value[1])
    elif op is _code.ATOMIC_GROUP:
        yield list(value)
    elif op is _code.GROUPREF_EXISTS:
        yield from (list(each) for each in value[1:] if each)


def _first(nodes: list[_Node], after: str) -> str:
    """The character with which this begins; none when there are several, or it is not certain."""
    for op, value in nodes:
        if op is _code.LITERAL:
            return chr(value)
        if op is _code.SUBPATTERN:
            return _first(list(value[3]), "") if value[3] else ""
        if op is not _code.AT:
            return ""
    return after
