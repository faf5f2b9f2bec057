"""What a running job looks like: a live panel on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Protocol, TypeVar

from shoal.cli.talk import human_bytes, human_seconds, say
from shoal.core.model import JobStatus
from shoal.core.trouble import explain, gist
from shoal.errors import Unavailable

PLAIN_EVERY_S = 2.0
RATE_WINDOW_S = 5.0
ASK_AGAIN_S = 1.0
ABSENT_EVERY_S = 5.0

T = TypeVar("T")


class Speed:
    """Pages a second over the last moments, and the time left."""

    def __init__(self) -> None:
        self._marks: deque[tuple[float, int]] = deque(maxlen=200)

    def note(self, status: JobStatus) -> None:
        now = status.now_ms / 1000
        self._marks.append((now, status.counters.done))
        while len(self._marks) > 2 and now - self._marks[0][0] > RATE_WINDOW_S:
            self._marks.popleft()

    @property
    def pages_per_second(self) -> float:
        if len(self._marks) < 2:
            return 0.0
        (then, before), (now, after) = self._marks[0], self._marks[-1]
        return (after - before) / (now - then) if now > then else 0.0

    def seconds_left(self, status: JobStatus) -> float | None:
        """Only what is known to be left: a crawl that still finds new pages takes longer."""
        speed = self.pages_per_second
        return status.counters.pending / speed if speed > 0 and status.counters.pending else None


class Display(Protocol):
    """Shows a status."""

    def show(self, status: JobStatus) -> None: ...


class Silent:
    """Shows nothing."""

    def show(self, status: JobStatus) -> None:
        del status


class PlainLines:
    """A line every few seconds, for logs and pipes."""

    def __init__(self) -> None:
        self._speed = Speed()
        self._next = time.monotonic() + PLAIN_EVERY_S

    def show(self, status: JobStatus) -> None:
        self._speed.note(status)
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + PLAIN_EVERY_S
            say(line(status, self._speed))


class Absence:
    """Redis or the database does not answer the command itself: said at first and now and then, until it is over."""

    def __init__(self) -> None:
        self._since: float | None = None
        self._again = 0.0

    def met(self, error: Unavailable, asked_at: float) -> None:
        """The question asked at this time (`time.monotonic`) was not answered."""
        now = time.monotonic()
        self._since = asked_at if self._since is None else self._since
        if now >= self._again:
            self._again = now + ABSENT_EVERY_S
            say(f"paused for {human_seconds(now - self._since)}: {gist(error)}; waiting for it")

    def over(self) -> None:
        """It answers."""
        if self._since is not None:
            say(f"going on after {human_seconds(time.monotonic() - self._since)}")
        self._since, self._again = None, 0.0


def ask_until_answered(ask: Callable[[], T], absence: Absence, stopped: Callable[[], bool] = lambda: False) -> T:
    """Ask again until Redis and the database answer; raises Unavailable when told to stop before."""
    while True:
        asked_at = time.monotonic()
        try:
            answer = ask()
        except Unavailable as exc:
            absence.met(exc, asked_at)
            if stopped():
                raise
            time.sleep(ASK_AGAIN_S)
        else:
            absence.over()
            return answer


QUIET_S = 3.0
"""A job that waits for longer than this should say why."""
BUDGETS = {
    "over_budget": "--pages",
    "over_bytes": "--bytes",
    "over_seconds": "--seconds",
    "over_host_budget": "--host-pages",
    "over_host_bytes": "--host-bytes",
    "over_host_seconds": "--host-seconds",
}


def line(status: JobStatus, speed: Speed) -> str:
    """One status as one line."""
    c = status.counters
    parts = [
        f"{status.state.value}: {c.done} done",
        f"{speed.pages_per_second:.1f} pages/s",
        f"{c.queued} queued",
        f"{c.leased} in flight",
    ]
    if c.delayed:
        parts.append(f"{c.delayed} to retry")
    if c.dead:
        parts.append(f"{c.dead} failed")
    if paused := explain(status.troubles):
        parts.append(paused)
    elif c.queued and not c.leased and not speed.pages_per_second and status.elapsed.total_seconds() > QUIET_S:
        parts.append("nothing may be asked now (why: shoal hosts)")
    if (left := speed.seconds_left(status)) is not None:
        parts.append(f"about {human_seconds(left)} left")
    return ", ".join(parts)


@contextmanager
def live_display(title: str, *, quiet: bool, results_on_screen: bool = False) -> Generator[Display]:
    """The display that fits where standard error goes; a panel would overwrite results on the same screen."""
    if quiet:
        yield Silent()
    elif sys.stderr.isatty() and not results_on_screen:
        from shoal.cli.panel import LivePanel

        with LivePanel(title) as panel:
            yield panel
    else:
        yield PlainLines()


def failures(status: JobStatus) -> list[tuple[str, int]]:
    """Reasons of what was given up, the most frequent first."""
    found = [
        (name.partition(":")[2], count)
        for name, count in status.reasons.items()
        if name.startswith(("dead:", "robots:"))
    ]
    return sorted(found, key=lambda pair: -pair[1])


def summary(status: JobStatus) -> list[str]:
    """What to say when a job has stopped."""
    c = status.counters
    seconds = status.elapsed.total_seconds()
    speed = f", {c.done / seconds:.1f} pages/s" if seconds else ""
    moved = f" and {status.redirects} redirects" if status.redirects else ""
    lines = [
        f"{status.state.value}: {c.done - status.redirects} pages{moved}, "
        f"{human_bytes(c.received)} in {human_seconds(seconds)}{speed}",
        f"  found {c.seen + c.duplicates} links: {c.admitted} taken, {c.duplicates} seen before, {c.filtered} left out",
    ]
    if reasons := failures(status):
        told = ", ".join(f"{reason} {count}" for reason, count in reasons[:6])
        lines.append(f"  not fetched: {told}")
    if left := status.reasons.get("filtered:redirect_other_host"):
        lines.append(f"  {left} redirects led to other hosts and were not followed; name these with --host")
    for reason, flag in BUDGETS.items():
        if count := status.reasons.get(f"filtered:{reason}"):
            lines.append(f"  stopped by {flag}: {count} links were not fetched")
    if c.retries or c.lost:
        lines.append(f"  retried {c.retries} times" + (f", {c.lost} leases lost" if c.lost else ""))
    if c.pending:
        lines.append(f"  still waiting: {c.pending}")
    if paused := explain(status.troubles):
        lines.append(f"  {paused}")
    return lines
