"""What a running job looks like: a live panel on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Generator
from contextlib import contextmanager
from typing import Protocol

from shoal.cli.talk import counted, human_bytes, human_seconds, say
from shoal.core.job_status import JobStatus
from shoal.core.reuse import REUSED
from shoal.core.trouble import explain

PLAIN_EVERY_S = 2.0
RATE_WINDOW_S = 5.0
GAP_S = 3.0
"""Statuses come several times a second: after such a gap, something was away."""


class Speed:
    """Pages a second over the last moments, and the time left."""

    def __init__(self) -> None:
        self._marks: deque[tuple[float, int]] = deque(maxlen=200)
        self._paused_at: float | None = None

    def note(self, status: JobStatus) -> None:
        now = status.now_ms / 1000
        if status.troubles or (self._marks and now - self._marks[-1][0] > GAP_S):
            self._paused_at = now
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
        """Only what is known to be left: a crawl that still finds new pages takes longer. None in and after a pause."""
        speed = self.pages_per_second
        if self._paused_at is not None and status.now_ms / 1000 - self._paused_at <= RATE_WINDOW_S:
            return None
        return status.counters.pending / speed if speed > 0 and status.counters.pending else None


class Display(Protocol):
    """Shows a status, and what stands in its way."""

    def show(self, status: JobStatus, note: str = "") -> None: ...


class Silent:
    """Shows nothing."""

    def show(self, status: JobStatus, note: str = "") -> None:
        del status, note


class PlainLines:
    """A line every few seconds, for logs and pipes."""

    def __init__(self) -> None:
        self._speed = Speed()
        self._next = time.monotonic() + PLAIN_EVERY_S

    def show(self, status: JobStatus, note: str = "") -> None:
        self._speed.note(status)
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + PLAIN_EVERY_S
            say(line(status, self._speed, note))


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

ADVICE = {
    "selector_missing": "what the job waits for or requires did not come: is the selector right?",
    "render_timeout": "pages took too long in the browser: raise --timeout, or wait for less",
    "action_failed": "an action found nothing to act on: correct it, or let it be optional",
    "unknown_device": "Playwright does not know the device: correct its name",
    "browser_missing": "install a browser where the workers of browser.* run",
    "memory_short": "pages took too much memory together: raise SHOAL_BROWSER_MEGABYTES, or lower SHOAL_BROWSER_PAGES",
    "page_too_big": "pages took too much memory in the browser: block what they do not need",
}
"""On pages that a browser could not bring home: more than the reason, and all of it the user's to change."""


def line(status: JobStatus, speed: Speed, note: str = "") -> str:
    """One status as one line, with what stands in its way if that is known."""
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
    if why := note or explain(status.troubles):
        parts.append(why)
    elif c.queued and not c.leased and not speed.pages_per_second and status.elapsed.total_seconds() > QUIET_S:
        parts.append(_why_quiet(status))
    if (left := speed.seconds_left(status)) is not None:
        parts.append(f"about {human_seconds(left)} left")
    return ", ".join(parts)


def _why_quiet(status: JobStatus) -> str:
    """Nothing is fetched, although there is work: mostly because a host rests that could not be asked."""
    tried = {name.partition(":")[2]: count for name, count in status.reasons.items() if name.startswith("retry:")}
    if tried:
        return f"to be tried again soon, after {max(tried, key=lambda name: tried[name])} (more: shoal hosts)"
    return "nothing may be asked now (why: shoal hosts)"


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


def read_in_part(status: JobStatus) -> list[tuple[str, int]]:
    """Why pages that were stored may hold more than was found in them, the most frequent first."""
    done = [(name.partition(":")[2], count) for name, count in status.reasons.items() if name.startswith("done:")]
    whole = {"redirect", "duplicate", *REUSED}
    return sorted((pair for pair in done if pair[0] not in whole), key=lambda pair: -pair[1])


def summary(status: JobStatus) -> list[str]:
    """What to say when a job has stopped."""
    c = status.counters
    seconds = status.elapsed.total_seconds()
    speed = f", {c.done / seconds:.1f} pages/s" if seconds else ""
    moved = f" and {counted(status.redirects, 'redirect')}" if status.redirects else ""
    lines = [
        f"{status.state.value}: {counted(c.done - status.redirects, 'page')}{moved}, "
        f"{human_bytes(c.received)} in {human_seconds(seconds)}{speed}",
        f"  found {counted(c.seen + c.duplicates, 'link')}: {c.admitted} taken, {c.duplicates} seen before, "
        f"{c.filtered} left out",
    ]
    if carried := status.carried:
        told = ", ".join(f"{count:,} {reason}" for reason, count in carried.items())
        lines.append(f"  carried over from an earlier job: {told}; {human_bytes(c.saved)} saved")
    if reasons := failures(status):
        told = ", ".join(f"{reason} {count}" for reason, count in reasons[:6])
        lines.append(f"  not fetched: {told}")
        lines += [f"  {reason}: {ADVICE[reason]}" for reason, _ in reasons[:6] if reason in ADVICE]
    if partly := read_in_part(status):
        told = ", ".join(f"{reason} {count}" for reason, count in partly)
        lines.append(f"  stored, but not read in full, so that links or fields of them are missing: {told}")
    if left := status.reasons.get("filtered:redirect_other_host"):
        led = counted(left, "redirect")
        lines.append(f"  {led} to other hosts not followed; name these with --host, those on this machine as URLs")
    for reason, flag in BUDGETS.items():
        if count := status.reasons.get(f"filtered:{reason}"):
            lines.append(f"  stopped by {flag}: {counted(count, 'link')} not fetched")
    if c.retries or c.lost:
        lost = f", {counted(c.lost, 'lease')} lost" if c.lost else ""
        lines.append(f"  retried {counted(c.retries, 'time')}{lost}")
    if c.pending:
        lines.append(f"  still waiting: {c.pending}")
    if paused := explain(status.troubles):
        lines.append(f"  {paused}")
    return lines
