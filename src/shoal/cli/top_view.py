"""What `shoal top` draws: a look at the fleet, and what the user has chosen, as tables that fit the terminal."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from shoal.cli.talk import cells, human_bytes, human_seconds
from shoal.cli.top_look import MOST_JOBS, FleetLook
from shoal.core.fleet import WorkerBeat
from shoal.core.frozen import frozen
from shoal.core.host_status import HostStatus
from shoal.core.redact import visible
from shoal.core.trouble import explain
from shoal.store.job_rows import JobRow

BELOW = ("queues", "hosts", "workers")
"""What can be shown below the jobs, one at a time."""
NAME_CHARS = 32
"""Of a name: who gives a long one must not push the numbers off the screen."""
FRAME_LINES = 14
"""Of a screen, for everything but rows."""
KEYS = "↑↓ choose   s sort   r reverse   p pause or resume   c cancel   tab queues/hosts/workers   q quit"


@frozen
class Column:
    """Of the jobs."""

    name: str
    shown: Callable[[JobRow], str]
    order: Callable[[JobRow], Any]
    right: bool = True


def _errors(row: JobRow) -> int:
    return row.status.counters.dead if row.status else 0


def _pages(row: JobRow) -> int:
    return row.status.counters.done - row.status.redirects if row.status else 0


def _pending(row: JobRow) -> int:
    return row.status.counters.pending if row.status else 0


def _rate(row: JobRow) -> float:
    return row.status.rate if row.status else 0.0


def _left(row: JobRow) -> float:
    eta = row.status.eta if row.status else None
    return eta.total_seconds() if eta else float("inf")


COLUMNS = (
    Column("job", lambda row: row.id, lambda row: row.id, right=False),
    Column("name", lambda row: row.name, lambda row: row.name, right=False),
    Column("state", lambda row: row.state.value, lambda row: row.state.value, right=False),
    Column("pages", lambda row: f"{_pages(row):,}", _pages),
    Column("pages/s", lambda row: f"{_rate(row):.1f}", _rate),
    Column("waiting", lambda row: f"{_pending(row):,}", _pending),
    Column("errors", lambda row: f"{_errors(row):,}", _errors),
    Column("left", lambda row: "" if _left(row) == float("inf") else human_seconds(_left(row), whole=True), _left),
)


@frozen
class Choice:
    """What the user has chosen."""

    sort: int = 4
    down: bool = True
    job: str = ""
    below: int = 0
    asked: str = ""
    """A job that is to be cancelled, if the user says yes."""
    note: str = ""

    def ordered(self, jobs: Sequence[JobRow]) -> list[JobRow]:
        """By the column that was chosen; those that are alike by their ids."""
        by_id = sorted(jobs, key=lambda row: row.id)
        return sorted(by_id, key=COLUMNS[self.sort].order, reverse=self.down)

    def moved(self, jobs: Sequence[JobRow], steps: int) -> Choice:
        """Another job, so many lines further down."""
        ids = [row.id for row in self.ordered(jobs)]
        if not ids:
            return replace(self, job="")
        place = ids.index(self.job) if self.job in ids else -1 if steps > 0 else 0
        return replace(self, job=ids[max(0, min(len(ids) - 1, place + steps))])


def draw(look: FleetLook, before: FleetLook | None, choice: Choice, height: int) -> RenderableType:
    """The whole screen."""
    room = max(4, height - FRAME_LINES)
    jobs = choice.ordered(look.jobs)
    upper = max(2, min(len(jobs), room // 2)) if jobs else 1
    lines = [
        _sums(look, before),
        _line(KEYS, "dim"),
        *([_line(explain(look.troubles) or "", "red")] if look.troubles else []),
        *([_line(choice.note, "yellow")] if choice.note else []),
        _jobs(jobs, choice, upper),
    ]
    return Group(*lines, _below(look, BELOW[choice.below], room - upper) if room - upper > 1 else Text(""))


def _line(text: str, style: str) -> Text:
    """One line, whatever the terminal's width: what comes below is where it was counted."""
    return Text(visible(text), style=style, no_wrap=True, overflow="ellipsis")


def _sums(look: FleetLook, before: FleetLook | None) -> Text:
    rate = look.rate_since(before)
    active = sum(beat.active for beat in look.workers)
    throttled = sum(status.state not in ("open", "at_cap") for status in look.hosts)
    facts = (
        f"pages/s {'…' if rate is None else f'{rate:.1f}'}",
        f"in flight {sum(depth.leased for depth in look.queues):,}",
        f"queued {sum(depth.queued for depth in look.queues):,}",
        f"delayed {sum(depth.delayed for depth in look.queues):,}",
        f"workers {len(look.workers)} ({active} at work)",
        f"hosts throttled {throttled}",
        f"Redis {human_bytes(look.load.memory)}",
    )
    return _line("   ".join(facts), "bold")


def _jobs(jobs: Sequence[JobRow], choice: Choice, room: int) -> RenderableType:
    if not jobs:
        return Text("no job runs", style="dim")
    place = next((index for index, row in enumerate(jobs) if row.id == choice.job), 0)
    first = max(0, min(place - room // 2, len(jobs) - room))
    table = Table(
        box=box.SIMPLE_HEAD,
        expand=True,
        title=f"jobs ({len(jobs)}{', the newest' if len(jobs) >= MOST_JOBS else ''})",
        title_justify="left",
    )
    for index, column in enumerate(COLUMNS):
        mark = (" ↓" if choice.down else " ↑") if index == choice.sort else ""
        most = NAME_CHARS if column.name == "name" else None
        table.add_column(column.name + mark, justify="right" if column.right else "left", no_wrap=True, max_width=most)
    for row in jobs[first : first + room]:
        chosen = "reverse" if row.id == choice.job else "yellow" if row.state.value == "paused" else ""
        table.add_row(*cells(column.shown(row) for column in COLUMNS), style=chosen)
    return table


def _below(look: FleetLook, what: str, room: int) -> RenderableType:
    if what == "hosts":
        return _table(
            what, ("host", "state", "in flight", "latency", "jobs wait", "why"), map(_host, _worst(look.hosts)), room
        )
    if what == "workers":
        names = ("worker", "queues", "processes", "at work", "pages", "last progress", "memory", "browsers")
        return _table(what, names, map(_worker, look.workers), room)
    rows = ((d.queue, f"{d.queued:,}", f"{d.delayed:,}", f"{d.leased:,}", str(d.jobs_due)) for d in look.queues)
    return _table(what, ("queue", "queued", "delayed", "in flight", "jobs"), rows, room)


def _table(title: str, names: Sequence[str], rows: Any, room: int) -> Table:
    table = Table(box=box.SIMPLE_HEAD, expand=True, title=title, title_justify="left")
    for name in names:
        table.add_column(name, no_wrap=True)
    for row in list(rows)[: max(1, room)]:
        table.add_row(*cells(row))
    return table


def _worst(hosts: Sequence[HostStatus]) -> list[HostStatus]:
    return sorted(hosts, key=lambda status: (status.state in ("open", "at_cap"), -status.in_flight, status.host))


def _host(status: HostStatus) -> tuple[str, ...]:
    latency = "" if status.latency_ms is None else f"{status.latency_ms} ms"
    return status.host, status.state, str(status.in_flight), latency, str(status.waiting_jobs), status.reason


def _worker(beat: WorkerBeat) -> tuple[str, ...]:
    browsers = f"{beat.browsers} ({beat.rendering} pages)" if beat.browsers else ""
    return (
        *(beat.name, ",".join(beat.queues), str(beat.processes), str(beat.active), f"{beat.pages:,}"),
        *(_ago(beat.progress_ms), f"{beat.memory_mb} MB", browsers),
    )


def _ago(at_ms: int) -> str:
    return f"{human_seconds(max(0.0, time.time() - at_ms / 1000), whole=True)} ago" if at_ms else ""
