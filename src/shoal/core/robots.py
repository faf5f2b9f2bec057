"""robots.txt by RFC 9309: which rule, on which line, decides about a path.

A file is a list of groups: who is meant, and what they may fetch. The groups that name an agent are one, and only when
there is none the groups for `*` count. Of the others nothing is kept.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator

from shoal.core.frozen import frozen
from shoal.core.rulebook import FREE, Rule, RuleBook, RuleList, Verdict
from shoal.core.url import parse as parse_url
from shoal.errors import BadUrl

AGENT_TOKEN = "Shoal"
"""Who we are in a User-agent line."""
MAX_BYTES = 500 * 1024
MAX_SITEMAPS = 1_000

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


@frozen
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


class Robots:
    """What a robots.txt says to one agent, and its sitemaps."""

    __slots__ = ("_book", "_delay", "group", "sitemaps")

    def __init__(
        self,
        rules: Iterable[Rule] = (),
        delay: float | None = None,
        sitemaps: Iterable[str] = (),
        group: str = "",
    ) -> None:
        self._book = RuleBook(rules)
        self._delay = delay
        self.group = group
        """Whom the rules are for: the agent, or `*`; empty when no group is for it."""
        self.sitemaps = tuple(sitemaps)
        """Absolute URLs, each once, in the order of the file."""

    def judge(self, target: str) -> Verdict:
        """May this path and query be fetched?"""
        verdict = self._book.judge(target)
        if not verdict.allowed and target.partition("?")[0] == "/robots.txt":
            return FREE
        return verdict

    def crawl_delay(self) -> float | None:
        """The seconds between requests that it asks for; the longest, if it names several."""
        return self._delay

    @property
    def rules(self) -> int:
        """How many are kept."""
        return len(self._book)


EVERYTHING = Robots()
"""What a host without a robots.txt allows."""


class _Section:
    """What all groups that name one agent say."""

    __slots__ = ("delay", "named", "rules")

    def __init__(self) -> None:
        self.named = False
        self.rules = RuleList()
        self.delay: float | None = None


class _Groups:
    """The groups of a file as they come, for the sake of one agent."""

    def __init__(self, agent: str) -> None:
        self._mine, self._anybodys = _Section(), _Section()
        self._sections = {_ANYBODY: self._anybodys, _token(agent): self._mine}
        self._meant: list[_Section] = []
        """Whom the group is for, as far as it has told."""
        self._closed = True
        """Only a rule ends the list of those whom a group is for."""

    @property
    def chosen(self) -> _Section:
        return self._mine if self._mine.named else self._anybodys

    @property
    def names_agent(self) -> bool:
        """Is there a group for it alone?"""
        return self._mine.named

    def name(self, agent: str) -> None:
        if self._closed:
            self._meant, self._closed = [], False
        section = self._sections.get(_token(agent))
        if section is not None and section not in self._meant:
            section.named = True
            self._meant.append(section)

    def slow_down(self, value: str) -> None:
        """A delay is for those that stand before it."""
        if _SECONDS.fullmatch(value):
            for section in self._meant:
                section.delay = max(section.delay or 0.0, float(value))

    def rule(self, number: int, path: str, *, allowed: bool) -> None:
        self._closed = True
        if path.startswith(("/", "*")):
            for section in self._meant:
                section.rules.add(Rule(number, allowed, path))


def parse(body: bytes, agent: str = AGENT_TOKEN) -> Robots:
    """Read a file, or whatever a server gives out as one, for the sake of one agent."""
    groups = _Groups(agent)
    sitemaps: dict[str, None] = {}
    for number, key, value in _records(body):
        if key == _SITEMAP:
            if len(sitemaps) < MAX_SITEMAPS:
                sitemaps[value] = None
        elif key == _AGENT:
            groups.name(value)
        elif key == _DELAY:
            groups.slow_down(value)
        else:
            groups.rule(number, value, allowed=key == _ALLOW)
    chosen = groups.chosen
    whom = (agent if groups.names_agent else _ANYBODY) if chosen.named else ""
    return Robots(chosen.rules.kept, chosen.delay, _absolute(sitemaps), whom)


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
