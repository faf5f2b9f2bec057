"""One line of a log: read, held against what somebody wants to see, and shown.

Fields come from pages and servers: nothing of a line reaches a terminal that the terminal would obey.
"""

from __future__ import annotations

import json
import re
from typing import Any, cast

from shoal.core.frozen import frozen
from shoal.core.redact import visible
from shoal.errors import InputError
from shoal.settings import LOG_LEVELS

_FIRST = ("job", "host", "url", "of", "count", "reason", "outcome", "error")
_LAST = ("request_id", "slice", "worker")
_SHOWN_APART = ("event", "level", "timestamp", "task_id", "exception", "stack")
_PLAIN = re.compile(r"[^\s\"'={}\[\],]+")
_TIME = re.compile(rb'"timestamp": "([0-9T:.-]{10,32})Z?"')
_COLOURS = {"debug": "2", "info": "32", "warning": "33", "error": "31", "critical": "31"}
_WIDEST_LEVEL = 7


@frozen
class LogLine:
    """A line that is one."""

    at: str
    """When, in a form that sorts: ISO 8601 in UTC, without the Z."""
    fields: dict[str, Any]

    @property
    def event(self) -> str:
        return str(self.fields["event"])

    @property
    def level(self) -> str:
        return str(self.fields.get("level", ""))


def read_line(raw: bytes) -> LogLine | None:
    """None for what is no line of ours: a traceback, half a line, whatever else a process prints."""
    try:
        found: object = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict):
        return None
    fields = cast("dict[str, Any]", found)
    at = fields.get("timestamp")
    return LogLine(at.removesuffix("Z"), fields) if isinstance(at, str) and "event" in fields else None


def looks_whole(raw: bytes) -> bool:
    """Is it worth reading? A cheap test, for lines that nobody asked for."""
    return raw[:1] == b"{" and raw[-1:] == b"}"


def time_of(raw: bytes) -> str | None:
    """When a line was written, without reading all of it."""
    found = _TIME.search(raw, max(0, len(raw) - 200)) or _TIME.search(raw)
    return found[1].decode() if found else None


@frozen
class Wanted:
    """Which lines somebody wants to see; all that is said must hold."""

    job: str | None = None
    """Its id, or the first letters of it."""
    request_id: str | None = None
    event: str | None = None
    """With the counts of those that were left out."""
    host: str | None = None
    """With its port or without."""
    level: str = "debug"
    """And above."""
    since: str = ""
    slice: str | None = None
    """Its task id, or the first letters of it."""
    worker: str | None = None
    """Its name, or the first letters of it."""

    def __post_init__(self) -> None:
        if self.level not in LOG_LEVELS:
            raise InputError(f"--level {self.level!r}: there are {', '.join(LOG_LEVELS)}")

    @property
    def needles(self) -> tuple[bytes, ...]:
        """Bytes that are in every line that is wanted; what JSON may write in another way is not looked for."""
        texts = (self.job, self.request_id, self.event, self.host, self.slice, self.worker)
        return tuple(text.encode() for text in texts if text and re.fullmatch(r"[\w.:-]+", text, re.ASCII))

    def wants(self, line: LogLine) -> bool:
        fields = line.fields
        return (
            line.at >= self.since
            and _rank(line.level) >= _rank(self.level)
            and _begins(fields, "job", self.job)
            and _begins(fields, "worker", self.worker)
            and (_begins(fields, "slice", self.slice) or _begins(fields, "task_id", self.slice))
            and (not self.request_id or fields.get("request_id") == self.request_id)
            and (not self.event or self.event in (line.event, fields.get("of")))
            and (not self.host or self._is_of_host(str(fields.get("host") or "")))
        )

    def _is_of_host(self, host: str) -> bool:
        return self.host in (host, host.rpartition(":")[0])


def _begins(fields: dict[str, Any], name: str, wanted: str | None) -> bool:
    return not wanted or str(fields.get(name) or "").startswith(wanted)


def for_programs(line: LogLine) -> str:
    """One JSON document, in ASCII: what a terminal would obey is escaped."""
    return json.dumps(line.fields)


def for_people(line: LogLine, *, colours: bool = False) -> str:
    """Time, level, event, what it is about, and the rest; a traceback below."""
    level = visible(line.level)[:20]
    at = visible(line.at).replace("T", " ")[:23]
    event = visible(line.event)
    if colours:
        level = f"\x1b[{_COLOURS.get(level, '0')}m{level:{_WIDEST_LEVEL}}\x1b[0m"
        at, event = f"\x1b[2m{at}\x1b[0m", f"\x1b[1m{event}\x1b[0m"
    else:
        level = f"{level:{_WIDEST_LEVEL}}"
    told = " ".join(f"{visible(name)}={_value(line.fields[name])}" for name in _order(line.fields))
    head = f"{at} {level} {event} {told}".rstrip()
    texts = [str(line.fields[name]) for name in ("exception", "stack") if line.fields.get(name)]
    below = [f"    {each}" for text in texts for each in visible(text, lines=True).split("\n")]
    return "\n".join([head, *below])


def _order(fields: dict[str, Any]) -> list[str]:
    rest = [name for name in fields if name not in (*_FIRST, *_LAST, *_SHOWN_APART)]
    names = (*_FIRST, *rest, *_LAST)
    return [name for name in names if fields.get(name) not in (None, "")]


def _value(value: Any) -> str:
    """As it is, where nobody can take it for something else."""
    if isinstance(value, str):
        plain = visible(value)
        return plain if _PLAIN.fullmatch(plain) else json.dumps(plain, ensure_ascii=False)
    return visible(json.dumps(value, ensure_ascii=False))


def _rank(level: str) -> int:
    """What has no level, or one that nobody knows, is shown."""
    return LOG_LEVELS.index(level) if level in LOG_LEVELS else len(LOG_LEVELS)
