"""robots.txt by RFC 9309: which rule, on which line, decides about a path.

A file is a list of groups: who is meant, and what they may fetch. The groups that name an agent are one, and only when
there is none the groups for `*` count. Of the rules that fit a path the longest wins, and Allow wins a tie. Paths are
compared in one spelling of their percent-escapes. No input makes this slow: the file has caps, plain paths are looked
up, and a pattern is walked through once, without going back.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from shoal.core.url import parse as parse_url
from shoal.errors import BadUrl

AGENT_TOKEN = "Shoal"
"""Who we are in a User-agent line."""
MAX_BYTES = 500 * 1024
MAX_RULES = 100_000
MAX_SITEMAPS = 1_000
SHOWN_CHARS = 200
"""Of a rule, where it is named."""

_AGENT, _ALLOW, _DISALLOW, _DELAY, _SITEMAP = range(5)
_KEYS = {
    **dict.fromkeys(("user-agent", "useragent", "user agent"), _AGENT),
    "allow": _ALLOW,
    **dict.fromkeys(("disallow", "dissallow", "dissalow", "disalow", "diasllow", "disallaw"), _DISALLOW),
    **dict.fromkeys(("crawl-delay", "crawldelay", "crawl delay"), _DELAY),
    **dict.fromkeys(("sitemap", "site-map"), _SITEMAP),
}
_ANYBODY = "*"
_TOKEN = re.compile("[A-Za-z0-9_-]+")
_SECONDS = re.compile(r"[0-9]{1,9}(\.[0-9]{0,9})?|\.[0-9]{1,9}")
_STARS = re.compile(r"\*+")
_NOT_ASCII = re.compile("[^\x00-\x7f]+")
_ESCAPE = re.compile("%[0-9A-Fa-f]{2}")


@dataclass(frozen=True, slots=True)
class RobotsCopy:
    """What an origin's robots.txt was when it was read."""

    origin: str
    status: int
    version: str
    fetched_ms: int
    until_ms: int
    """When it has to be read again."""
    body: bytes = b""
    """Empty when there is no such file."""


def version_of(body: bytes) -> str:
    """A short name for a text; empty for no text."""
    return hashlib.sha256(body).hexdigest()[:16] if body else ""


@dataclass(frozen=True, slots=True)
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


class _Rule(NamedTuple):
    """A line as it is in the file."""

    line: int
    allowed: bool
    path: str


@dataclass(frozen=True, slots=True)
class _Group:
    agents: dict[str, int] = field(default_factory=dict[str, int])
    """Name → its place in the group."""
    rules: list[_Rule] = field(default_factory=list[_Rule])
    delays: list[tuple[int, float]] = field(default_factory=list[tuple[int, float]])
    """(for how many of the names, seconds): a delay is for those that stand before it."""


class Robots:
    """What a robots.txt says to everybody."""

    __slots__ = ("_books", "_groups", "sitemaps")

    def __init__(self, groups: Iterable[_Group] = (), sitemaps: Iterable[str] = ()) -> None:
        self._groups = tuple(groups)
        self._books: dict[str, _Book] = {}
        self.sitemaps = tuple(sitemaps)
        """Absolute URLs, each once, in the order of the file."""

    def judge(self, target: str, agent: str = AGENT_TOKEN) -> Verdict:
        """May this path and query be fetched?"""
        verdict = (self._books.get(agent) or self._open(agent)).judge(target)
        if not verdict.allowed and target.partition("?")[0] == "/robots.txt":
            return FREE
        return verdict

    def crawl_delay(self, agent: str = AGENT_TOKEN) -> float | None:
        """The seconds between requests that it asks for; the longest, if it names several."""
        return (self._books.get(agent) or self._open(agent)).delay

    def _open(self, agent: str) -> _Book:
        name = _token(agent)
        mine = [group for group in self._groups if name in group.agents]
        if not mine:
            name = _ANYBODY
            mine = [group for group in self._groups if name in group.agents]
        delays = [delay for group in mine for count, delay in group.delays if group.agents[name] < count]
        book = _bind([rule for group in mine for rule in group.rules], max(delays, default=None))
        self._books[agent] = book
        return book


EVERYTHING = Robots()
"""What a host without a robots.txt allows."""


@dataclass(frozen=True, slots=True)
class _Pattern:
    rank: int
    """Its length, doubled, and one more for an Allow."""
    pieces: tuple[str, ...]
    """What stands between its wildcards."""
    anchored: bool
    """It ends where the path ends."""
    verdict: Verdict

    @property
    def plain(self) -> bool:
        """It fits whatever starts with it."""
        return len(self.pieces) == 1 and not self.anchored

    def fits(self, target: str) -> bool:
        """Each piece is taken where it first occurs: no other place would leave more room for the rest."""
        first, last = self.pieces[0], self.pieces[-1]
        if not target.startswith(first):
            return False
        at = len(first)
        if len(self.pieces) == 1:
            return not self.anchored or at == len(target)
        for piece in self.pieces[1:-1]:
            found = target.find(piece, at)
            if found < 0:
                return False
            at = found + len(piece)
        if self.anchored:
            return len(target) - len(last) >= at and target.endswith(last)
        return target.find(last, at) >= 0


@dataclass(frozen=True, slots=True)
class _Book:
    """One agent's rules, ready to be asked."""

    plain: dict[str, _Pattern]
    lengths: tuple[int, ...]
    """Of the plain ones, the longest first."""
    wild: tuple[_Pattern, ...]
    """The others, the strongest first."""
    delay: float | None

    def judge(self, target: str) -> Verdict:
        if not self.lengths and not self.wild:
            return FREE
        if "%" in target or not target.isascii():
            target = _normal(target)
        best: _Pattern | None = None
        for length in self.lengths:
            best = self.plain.get(target[:length])
            if best is not None:
                break
        for pattern in self.wild:
            if best is not None and pattern.rank <= best.rank:
                break
            if pattern.fits(target):
                best = pattern
                break
        return FREE if best is None else best.verdict


def _bind(rules: Iterable[_Rule], delay: float | None) -> _Book:
    patterns = sorted(map(_pattern, rules), key=lambda pattern: pattern.rank, reverse=True)
    plain: dict[str, _Pattern] = {}
    for pattern in patterns:
        if pattern.plain:
            plain.setdefault(pattern.pieces[0], pattern)
    lengths = sorted({len(path) for path in plain}, reverse=True)
    return _Book(plain, tuple(lengths), tuple(pattern for pattern in patterns if not pattern.plain), delay)


def _pattern(rule: _Rule) -> _Pattern:
    anchored = rule.path.endswith("$")
    path = rule.path.removesuffix("$")
    pieces = tuple(_pieces(path))
    length = sum(map(len, pieces)) + path.count("*") + anchored
    shown = f"{'Allow' if rule.allowed else 'Disallow'}: {_printable(rule.path)}"[:SHOWN_CHARS]
    return _Pattern(2 * length + rule.allowed, pieces, anchored, Verdict(rule.allowed, rule.line, shown))


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


def parse(body: bytes) -> Robots:
    """Read a file, or whatever a server gives out as one."""
    groups: list[_Group] = []
    sitemaps: dict[str, None] = {}
    rules, closed = 0, True
    for number, key, value in _records(body):
        if key == _SITEMAP:
            if len(sitemaps) < MAX_SITEMAPS:
                sitemaps[value] = None
        elif key == _AGENT:
            if closed:
                groups.append(_Group())
                closed = False
            agents = groups[-1].agents
            agents.setdefault(_token(value), len(agents))
        elif not groups:
            continue
        elif key == _DELAY:
            if _SECONDS.fullmatch(value):
                groups[-1].delays.append((len(groups[-1].agents), float(value)))
        else:
            closed = True  # only a rule ends the list of those whom a group is for
            if value.startswith(("/", "*")) and rules < MAX_RULES:
                rules += 1
                groups[-1].rules.append(_Rule(number, key == _ALLOW, value))
    return Robots(groups, _absolute(sitemaps))


def _records(body: bytes) -> Iterator[tuple[int, int, str]]:
    """(line, key, value) of the lines that mean something here."""
    for number, line in enumerate(_lines(body), 1):
        if not line:
            continue
        text = line.partition("#")[0]
        name, colon, value = text.partition(":")
        if not colon:
            words = text.split()
            if len(words) != 2:
                continue
            name, value = words
        key = _KEYS.get(name.strip().lower())
        if key is not None:
            yield number, key, value.strip()


def _lines(body: bytes) -> list[str]:
    if len(body) > MAX_BYTES:
        body = body[:MAX_BYTES]
        end = max(body.rfind(b"\n"), body.rfind(b"\r"))
        body = body[: end + 1]  # the beginning of a line may say something else than the line
    body = body.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    try:
        return body.decode("utf-8-sig").split("\n")
    except UnicodeDecodeError:
        return [_decoded(line) for line in body.split(b"\n")]


def _decoded(line: bytes) -> str:
    try:
        return line.decode("utf-8-sig")
    except UnicodeDecodeError:
        return line.decode("latin-1")


def _token(agent: str) -> str:
    """The product's name without its version; empty when there is none."""
    match = _TOKEN.match(agent)
    if match:
        return match[0].lower()
    return _ANYBODY if agent.split(maxsplit=1)[:1] == [_ANYBODY] else ""


def _absolute(values: Iterable[str]) -> Iterator[str]:
    seen: set[str] = set()
    for value in values:
        try:
            url = str(parse_url(value))
        except BadUrl:
            continue
        if url not in seen:
            seen.add(url)
            yield url
