"""The rules of a robots.txt for one agent: of those that fit a path the longest wins, and Allow wins a tie.

Paths are compared in one spelling of their percent-escapes. No input makes this slow: plain paths are looked up, a
pattern is walked through once, without going back, and there are bounds: the first rule beyond one ends the file, like
its 500th KiB. Where many patterns meet a long path, the places of its parts are noted first, as the bits of numbers: to
look a piece up then takes the same few steps whatever the piece and the path are.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple, Protocol

from shoal.core.frozen import frozen

MAX_RULES = 10_000
MAX_WILDCARDS = 5_000
"""In all rules together, `$` among them."""
SHOWN_CHARS = 200
"""Of a rule, where it is named."""
MUCH_WORK = 1_000_000
"""Characters of patterns × characters of a path: to compare that many takes a millisecond at worst."""
LONG_PATH = 100
"""Shorter ones are compared as quickly as marked."""

_STARS = re.compile(r"\*+")
_NOT_ASCII = re.compile("[^\x00-\x7f]+")
_ESCAPE = re.compile("%[0-9A-Fa-f]{2}")


@frozen
class Verdict:
    """May a path be fetched, and which rule says so?"""

    allowed: bool
    line: int = 0
    """Counted from 1; 0 when no rule decided."""
    rule: str = ""

    @property
    def named(self) -> str:
        """The rule and its line, for people."""
        return f"line {self.line}: {self.rule}" if self.line else ""


FREE = Verdict(True)


class Rule(NamedTuple):
    """A line as it is in the file."""

    line: int
    allowed: bool
    path: str

    @property
    def wildcards(self) -> int:
        """How many there are in it."""
        return self.path.count("*") + self.path.endswith("$")

    @property
    def verdict(self) -> Verdict:
        """What it says about a path that it fits."""
        shown = f"{'Allow' if self.allowed else 'Disallow'}: {_printable(self.path)}"
        return Verdict(self.allowed, self.line, shown[:SHOWN_CHARS])


class RuleList:
    """Collects rules as they come, up to the first that is too much."""

    __slots__ = ("_full", "_wildcards", "kept")

    def __init__(self) -> None:
        self.kept: list[Rule] = []
        self._wildcards = 0
        self._full = False

    def add(self, rule: Rule) -> None:
        if self._full:
            return
        self._wildcards += rule.wildcards
        self._full = self._wildcards > MAX_WILDCARDS or len(self.kept) >= MAX_RULES
        if not self._full:
            self.kept.append(rule)


class _Text(Protocol):
    """What a pattern asks of a path; a string will do."""

    def startswith(self, piece: str, /) -> bool: ...
    def endswith(self, piece: str, /) -> bool: ...
    def find(self, piece: str, start: int, /) -> int: ...
    def __len__(self) -> int: ...


class _Marked:
    """A path, and where its parts of one, two, four, eight, … characters begin: bit n is for its character n."""

    __slots__ = ("_marks", "_text")

    def __init__(self, text: str) -> None:
        self._text = text
        self._marks: dict[int, dict[str, int]] = {}
        """Length of the parts → part → bits."""

    def __len__(self) -> int:
        return len(self._text)

    def startswith(self, piece: str, /) -> bool:
        return self._text.startswith(piece)

    def endswith(self, piece: str, /) -> bool:
        return self._text.endswith(piece)

    def find(self, piece: str, start: int, /) -> int:
        """A piece is where its beginning and its end are, which together are all of it."""
        if not piece:
            return start
        size = 1 << (len(piece).bit_length() - 1)
        marks = self._marks.get(size) or self._mark(size)
        found = marks.get(piece[:size], 0) >> start
        if found and len(piece) > size:
            found &= marks.get(piece[-size:], 0) >> (start + len(piece) - size)
        return start + (found & -found).bit_length() - 1 if found else -1

    def _mark(self, size: int) -> dict[str, int]:
        marks: dict[str, int] = {}
        for at in range(len(self._text) - size + 1):
            part = self._text[at : at + size]
            marks[part] = marks.get(part, 0) | 1 << at
        self._marks[size] = marks
        return marks


@frozen
class _Pattern:
    rank: int
    """Its length, doubled, and one more for an Allow."""
    pieces: tuple[str, ...]
    """What stands between its wildcards."""
    anchored: bool
    """It ends where the path ends."""
    rule: Rule

    def fits(self, target: _Text) -> bool:
        """Each piece is taken where it first occurs: no other place would leave more room for the rest."""
        first, last = self.pieces[0], self.pieces[-1]
        if not target.startswith(first):
            return False
        at = len(first)
        if len(self.pieces) == 1:
            return at == len(target)
        for piece in self.pieces[1:-1]:
            found = target.find(piece, at)
            if found < 0:
                return False
            at = found + len(piece)
        if self.anchored:
            return len(target) - len(last) >= at and target.endswith(last)
        return target.find(last, at) >= 0


class RuleBook:
    """One agent's rules, ready to be asked."""

    __slots__ = ("_lengths", "_plain", "_wild", "_wild_chars")

    def __init__(self, rules: Iterable[Rule] = ()) -> None:
        self._plain: dict[str, Rule] = {}
        """Those that fit whatever starts with them."""
        wild: list[_Pattern] = []
        for rule in rules:
            if rule.wildcards:
                wild.append(_pattern(rule))
            else:
                path = _normal(rule.path)
                if rule.allowed > self._plain.get(path, _NEVER).allowed or path not in self._plain:
                    self._plain[path] = rule
        wild.sort(key=lambda pattern: pattern.rank, reverse=True)
        self._lengths = sorted({len(path) for path in self._plain}, reverse=True)
        self._wild = tuple(wild)
        """The others, the strongest first."""
        self._wild_chars = sum(len(pattern.rule.path) for pattern in wild)

    def __len__(self) -> int:
        return len(self._plain) + len(self._wild)

    def judge(self, target: str) -> Verdict:
        """May this path and query be fetched?"""
        if not self._lengths and not self._wild:
            return FREE
        if "%" in target or not target.isascii():
            target = _normal(target)
        best, rank = None, -1
        for length in self._lengths:
            start = target[:length]  # all of a path that is shorter
            best = self._plain.get(start)
            if best is not None:
                rank = 2 * len(start) + best.allowed
                break
        if self._wild:
            best = self._stronger(target, rank) or best
        return FREE if best is None else best.verdict

    def _stronger(self, target: str, rank: int) -> Rule | None:
        """The strongest pattern that fits, if it is stronger than this."""
        much = len(target) > LONG_PATH and len(target) * self._wild_chars > MUCH_WORK
        text: _Text = _Marked(target) if much else target
        for pattern in self._wild:
            if pattern.rank <= rank:
                break
            if pattern.fits(text):
                return pattern.rule
        return None


_NEVER = Rule(0, False, "")


def _pattern(rule: Rule) -> _Pattern:
    anchored = rule.path.endswith("$")
    path = rule.path.removesuffix("$")
    pieces = tuple(_pieces(path))
    length = sum(map(len, pieces)) + path.count("*") + anchored
    return _Pattern(2 * length + rule.allowed, pieces, anchored, rule)


def _pieces(path: str) -> Iterator[str]:
    query = False
    for piece in _STARS.split(path):
        yield _normal(piece, query=query)
        query = query or "?" in piece


def _normal(text: str, *, query: bool = False) -> str:
    """One spelling: ASCII as it is, but for what would mean another path (`%25`, `%2F`, `%3F`); the rest escaped."""
    if not text.isascii():
        text = _NOT_ASCII.sub(_escaped, text)
    if "%" not in text:
        return text
    path, mark, rest = ("", "", text) if query else text.partition("?")
    path = _ESCAPE.sub(lambda match: _OF_PATHS[match[0]], path)
    return path + mark + _ESCAPE.sub(lambda match: _OF_QUERIES[match[0]], rest)


def _escaped(match: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in match[0].encode("utf-8", "replace"))


def _spelling(escape: str, kept: Iterable[str]) -> str:
    code = int(escape[1:], 16)
    return escape.upper() if code >= 0x80 or escape.upper() in kept else chr(code)


_HEX = "0123456789ABCDEFabcdef"
_ESCAPES = [f"%{high}{low}" for high in _HEX for low in _HEX]
_OF_PATHS = {escape: _spelling(escape, ("%25", "%2F", "%3F")) for escape in _ESCAPES}
_OF_QUERIES = {escape: _spelling(escape, ("%25",)) for escape in _ESCAPES}


def _printable(text: str) -> str:
    return text if text.isprintable() else "".join(filter(str.isprintable, text))
