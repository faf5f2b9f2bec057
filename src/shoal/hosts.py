"""What operators say about hosts, and what they can see of them. The command line and the API call the same functions.

An operator's word stands in the table, or in a file; the table is stronger, for each host and field. The frontier works
by its own copy, which is made to agree: at once when a word is given, and by `sync` when it was lost or the file has
changed. A pause holds when either of the two says so. A hold passes by itself, and is the frontier's alone.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from math import isclose

import structlog

from shoal.core.frozen import frozen
from shoal.core.host_name import host_name
from shoal.core.host_status import Breaker, HostStatus
from shoal.errors import InputError, NotFound, RedisUnavailable
from shoal.frontier.frontier import Frontier
from shoal.frontier.host_change import KEEP, HostChange, Keep
from shoal.frontier.watch import Watch
from shoal.host_file import MAX_NOTE_CHARS, HostFile, Words
from shoal.store.host_limits import HostLimit, HostLimits, Mark

log = structlog.get_logger()

CHECK_EVERY_S = 30.0
CHECK_AT_ONCE = 500
"""A frontier that was emptied has lost all of them: so many show it."""
STRAYS_AT_ONCE = 500
LOOK_AT_MOST = 10_000
"""Hosts that one call looks at for those in a certain state."""

WAITS_SHOWN = 3

Before = tuple[int, str]
"""Where a reader of the list stands: (ms, host) of the last one seen."""


@frozen
class HostReport:
    """A host as the frontier treats it, and what operators have said about it."""

    status: HostStatus
    said: HostLimit | None = None
    """By `shoal hosts set` or the API."""
    filed: HostLimit | None = None
    """In the file."""

    @property
    def note(self) -> str:
        """The stronger one's."""
        return next((word.note for word in (self.said, self.filed) if word and word.note), "")

    @property
    def rate_source(self) -> str:
        """Whose word the rate is, as far as it is not each job's own: `operator`, `file`, `robots` or empty."""
        if self.status.rate is not None:
            return "file" if _only_filed(self.said, self.filed, "rate") else "operator"
        return "robots" if self.status.crawl_delay else ""

    @property
    def parallel_source(self) -> str:
        """Likewise of the parallel requests."""
        if self.status.parallel is None:
            return ""
        return "file" if _only_filed(self.said, self.filed, "parallel") else "operator"


@frozen
class HostListing:
    """Some hosts, the last used first."""

    reports: list[HostReport]
    place: Before | None
    """Go on from here; None when nothing was looked at."""
    more: bool


@frozen
class HostWait:
    """A host, or the bucket that it shares, of which nothing may be asked at this moment."""

    host: str
    reason: str
    """For people."""


class Hosts:
    """Operators' words on hosts, and the sight of them."""

    def __init__(self, frontier: Frontier, watch: Watch, limits: HostLimits, file: HostFile) -> None:
        self._frontier = frontier
        self._watch = watch
        self._limits = limits
        self._file = file
        self._known: _Known | None = None
        self._checked_s = float("-inf")
        self._strays = _Walk()

    # --- looking -------------------------------------------------------------------------------------------------

    def show(self, host: str) -> HostReport:
        """One host; who has a word is known even when the frontier has lost it."""
        name = host_name(host)
        said, filed = self._limits.get(name), self._filed().get(name)
        status = self._watch.host(name)
        if status is None and said is None and filed is None:
            raise NotFound(f"nobody has asked for {name} lately, and nothing is set for it")
        return HostReport(status or _unseen(_joined(name, said, filed)), said, filed)

    def waits(self, hosts: Iterable[str], at_most: int = WAITS_SHOWN) -> Sequence[HostWait]:
        """The first of these hosts of which nothing may be asked for a reason of their own, or of their domain's."""
        found: dict[str, HostWait] = {}
        for host in hosts:
            status = self._watch.host(host)
            bucket = self._watch.host(status.group) if status and status.group else None
            for each in filter(None, (bucket, status)):
                if reason := _why_not(each):
                    found[each.host] = HostWait(each.host, reason)
                    break
            if len(found) == at_most:
                break
        return tuple(found.values())

    def list(self, limit: int, before: Before | None = None, state: str | None = None) -> HostListing:
        """Hosts, the last used first; those in one state are looked for among so many at most."""
        found: list[HostStatus] = []
        looked_at, place = 0, before
        while True:
            statuses = self._watch.hosts(limit + 1, place)
            for status in statuses[:limit]:
                place = (status.seen_ms, status.host)
                looked_at += 1
                if state in (None, status.state):
                    found.append(status)
                if len(found) == limit:
                    return HostListing(self._reports(found), place, more=status is not statuses[-1])
            if len(statuses) <= limit or looked_at >= LOOK_AT_MOST:
                return HostListing(self._reports(found), place, more=len(statuses) > limit)

    def _reports(self, statuses: Sequence[HostStatus]) -> list[HostReport]:
        said, filed = self._limits.some([status.host for status in statuses]), self._filed()
        return [HostReport(status, said.get(status.host), filed.get(status.host)) for status in statuses]

    # --- saying --------------------------------------------------------------------------------------------------

    def set(self, host: str, change: HostChange, note: str | None = None) -> HostReport:
        """An operator's word on a host: into the table first, then to the frontier."""
        name = host_name(host)
        given = _given(change, _checked(note))
        if given:
            self._limits.change(name, given, _now_ms())
        self._tell(name, change.hold)
        return self.show(name)

    def clear(self, host: str) -> HostReport:
        """Take the operator's word back, and a hold with it; what the file says holds again."""
        name = self.show(host).status.host
        self._limits.remove(name)
        self._tell(name, timedelta())
        return self.show(name)

    def _tell(self, host: str, hold: timedelta | Keep) -> None:
        """Let the frontier have what now holds for one host."""
        word = _joined(host, self._limits.get(host), self._filed().get(host))
        self._frontier.configure_host(host, HostChange(word.rate, word.parallel, word.paused, hold))

    def _filed(self) -> Words:
        return self._file.words() or {}

    # --- keeping -------------------------------------------------------------------------------------------------

    def sync(self) -> int:
        """Make the frontier agree with table and file; how many hosts had to be told. Cheap when nothing changed."""
        due = time.monotonic() - self._checked_s >= CHECK_EVERY_S
        told = self._tell_changes(in_any_case=due)
        if due:
            told += self._tell_lost()
            self._checked_s = time.monotonic()
        told += self._take_back_strays()
        if told:
            log.info("hosts_synced", hosts=told)
        return told

    def _tell_changes(self, *, in_any_case: bool) -> int:
        """Words that are others than at the last look."""
        mark, filed = self._limits.mark(), self._file.words()
        if not in_any_case and self._known and self._known.mark == mark and self._known.filed is filed:
            return 0
        said = {limit.host: limit for limit in self._limits.all()}
        names = said.keys() | (filed or {}).keys()
        words = {name: _joined(name, said.get(name), (filed or {}).get(name)) for name in names}
        told = 0
        if self._known:  # else all of them are looked at below
            before = self._known.words
            gone = [HostLimit(name) for name in before.keys() - words.keys()]
            changed = [word for name, word in words.items() if not _same(word, before.get(name))]
            told = self._tell_all(self._unknown([*gone, *changed]))
        self._known = _Known(mark, filed, words)
        return told

    def _tell_lost(self) -> int:
        """Words that the frontier has not, or has differently."""
        words = list(self._known.words.values()) if self._known else []
        sample = words if len(words) <= CHECK_AT_ONCE else random.sample(words, CHECK_AT_ONCE)
        lost = self._unknown(sample)
        if lost and len(sample) < len(words):
            lost = self._unknown(words)
        return self._tell_all(lost)

    def _unknown(self, words: Iterable[HostLimit]) -> list[HostLimit]:
        return [word for word in words if self._lacks(word)]

    def _lacks(self, word: HostLimit) -> bool:
        """A host whose shard is away is told when that is back."""
        try:
            return not _agrees(self._watch.host(word.host), word)
        except RedisUnavailable:
            if self._watch.reaches(word.host):
                raise
            return False

    def _tell_all(self, words: Iterable[HostLimit]) -> int:
        told = 0
        for word in words:
            try:
                self._frontier.configure_host(word.host, HostChange(word.rate, word.parallel, word.paused))
            except RedisUnavailable:
                if self._watch.reaches(word.host):
                    raise
                continue
            told += 1
        return told

    def _take_back_strays(self) -> int:
        """Words in the frontier that stand nowhere else, left by what ended in between: one look at each host."""
        if self._strays.ended or self._known is None or self._file.words() is None:
            return 0
        statuses = self._watch.hosts(STRAYS_AT_ONCE, self._strays.place)
        self._strays.go_on(statuses)
        suspects = [each.host for each in statuses if _is_word(each) and each.host not in self._known.words]
        said = self._limits.some(suspects)  # read after the frontier: a word is in the table first
        return self._tell_all(HostLimit(host) for host in suspects if host not in said)


@frozen
class _Known:
    """What held at the last look."""

    mark: Mark
    filed: Words | None
    words: Mapping[str, HostLimit]


@dataclass(slots=True)
class _Walk:
    """Where a look at all hosts has come to."""

    place: Before | None = None
    ended: bool = False

    def go_on(self, statuses: Sequence[HostStatus]) -> None:
        self.ended = len(statuses) < STRAYS_AT_ONCE
        if statuses:
            self.place = (statuses[-1].seen_ms, statuses[-1].host)


def _why_not(status: HostStatus) -> str:
    """Why nothing may be asked of a host; empty when something may, if not at this very moment."""
    if status.paused:
        return "paused by an operator"
    if status.breaker is Breaker.DOWN:
        return "down: it could not be reached, also not by probes"
    if status.breaker is Breaker.TRIPPED:
        return f"it could not be reached; the next probe is sent at {_moment(status.probe_in)}"
    return f"held until {_moment(status.hold)}" if status.hold else ""


def _moment(ahead: timedelta) -> str:
    return datetime.fromtimestamp(time.time() + ahead.total_seconds(), UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _given(change: HostChange, note: str | None) -> dict[str, object]:
    """The columns that a change is about."""
    given = {name: value for name in ("rate", "parallel", "paused") if (value := getattr(change, name)) is not KEEP}
    return given if note is None else {**given, "note": note}


def _checked(note: str | None) -> str | None:
    if note is not None and (len(note) > MAX_NOTE_CHARS or "\0" in note):
        raise InputError(f"a note has at most {MAX_NOTE_CHARS} characters, and no NUL", field="note")
    return note


def _joined(host: str, said: HostLimit | None, filed: HostLimit | None) -> HostLimit:
    """What holds for a host when two have spoken."""
    strong, weak = said or HostLimit(host), filed or HostLimit(host)
    rate = weak.rate if strong.rate is None else strong.rate
    parallel = weak.parallel if strong.parallel is None else strong.parallel
    return HostLimit(host, rate, parallel, strong.paused or weak.paused, strong.note or weak.note)


def _same(word: HostLimit, other: HostLimit | None) -> bool:
    return other is not None and (word.rate, word.parallel, word.paused) == (other.rate, other.parallel, other.paused)


def _agrees(status: HostStatus | None, word: HostLimit) -> bool:
    """Does the frontier do as the word says?"""
    if status is None:
        return _same(word, HostLimit(word.host))
    if (status.parallel, status.paused) != (word.parallel, word.paused):
        return False
    if status.rate is None or word.rate is None:
        return status.rate is word.rate
    return isclose(status.rate, word.rate, rel_tol=1e-6)


def _is_word(status: HostStatus) -> bool:
    return status.rate is not None or status.parallel is not None or status.paused


def _only_filed(said: HostLimit | None, filed: HostLimit | None, field: str) -> bool:
    return filed is not None and getattr(filed, field) is not None and (said is None or getattr(said, field) is None)


def _unseen(word: HostLimit) -> HostStatus:
    """A host of which the frontier knows nothing at this moment."""
    nothing = timedelta()
    return HostStatus(word.host, word.rate, word.parallel, word.paused, nothing, nothing, 0, None, 0, 0)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
