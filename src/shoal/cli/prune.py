"""`shoal prune`: jobs that ended long ago go, with rows and archive, in the foreground."""

from __future__ import annotations

import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shoal.cli import options as opt
from shoal.cli.talk import counted, human_bytes, print_json, say
from shoal.core.model import JobState
from shoal.core.values import read_duration
from shoal.errors import InputError
from shoal.home import is_full, spend_reserve
from shoal.settings import read_settings

if TYPE_CHECKING:
    from shoal.retention import Retention, Weight
    from shoal.store.ended import EndedJob
    from shoal.store.vacuum import Reclaimed
    from shoal.wiring import Platform

LOOK_AT = 1_000
HELD = " (a worker holds pages of it, or its end is not written down yet)"
SHOWN = 20
"""Jobs that are named before the question."""
PAUSE_S = 0.01
"""Between two batches, so that whoever else writes to SQLite gets his turn."""
STUCK_S = 5.0
"""A job that a worker still holds is left to the housekeeping after this."""
TOLD_EVERY_S = 2.0
_ENDED = tuple(state.value for state in JobState if state.ended)

OlderThan = Annotated[
    str | None,
    typer.Option(envvar="SHOAL_OLDER_THAN", help="Jobs that ended longer ago than this: 30d, 12h, 90m.",
                 show_default=False),
]  # fmt: skip
State = Annotated[
    str,
    typer.Option(envvar="SHOAL_STATE", help="Only jobs that ended so, comma-separated: finished, cancelled."),
]
OfLabel = Annotated[
    str | None, typer.Option("--label", envvar="SHOAL_LABEL", help="Only jobs with this label.", show_default=False)
]
# These two have no variable: one that was exported long ago must not remove anything, nor keep it from being removed.
DryRun = Annotated[bool, typer.Option("--dry-run", "-n", help="Print what would go, and change nothing.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
Vacuum = Annotated[
    bool,
    typer.Option("--vacuum", envvar="SHOAL_VACUUM",
                 help="Afterwards let SQLite's file shrink; writers wait meanwhile, and the disk needs room for a "
                      "second copy."),
]  # fmt: skip


def prune(
    older_than: OlderThan = None,
    state: State = ",".join(_ENDED),
    label: OfLabel = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    vacuum: Vacuum = False,
    json: opt.Json = False,
) -> None:
    """Remove jobs that ended long ago: rows, dead letters, submitted URLs and archive. Shows them first, and asks.

    shoal prune --older-than 30d --dry-run

    shoal prune --older-than 12h --state cancelled --yes --vacuum
    """
    if older_than is None and not vacuum:
        raise InputError("say how old: shoal prune --older-than 30d")
    age = None if older_than is None else _age(older_than)
    states = _states(state)
    from shoal.observe import set_up_logs
    from shoal.wiring import open_platform

    set_up_logs("warning")  # else what is removed is told on standard output, among the data
    with open_platform(read_settings(), rings=False) as platform:
        report: dict[str, Any] = {"dry_run": dry_run}
        tell = print if dry_run and not json else say  # what a dry run shows is what it was asked for
        if age is not None:
            found = _find(platform.retention, age, states, label)
            _show(platform, found, tell)
            report = _prune(platform, found, dry_run=dry_run, yes=yes)
        if vacuum:
            report["vacuum"] = _vacuum(platform, tell, dry_run=dry_run)
    if json:
        print_json(report)


def _age(text: str) -> float:
    seconds = read_duration(text)
    if not isinstance(seconds, float) or not re.search(r"[a-z]", text):
        raise InputError(f"--older-than {text!r}: write a number and a unit, such as 30d, 12h or 90m")
    return seconds


def _states(text: str) -> tuple[JobState, ...]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    wrong = [name for name in names if name not in _ENDED]
    if wrong or not names:
        shown = ", ".join(wrong) or "(none given)"
        raise InputError(f"--state {shown}: only jobs that have ended can go: {', '.join(_ENDED)}")
    return tuple(JobState(name) for name in names)


def _find(retention: Retention, age_s: float, states: tuple[JobState, ...], label: str | None) -> list[Weight]:
    from shoal.store.ended import Outdated

    before_ms = time.time_ns() // 1_000_000 - int(age_s * 1000)
    return retention.weigh(retention.outdated(Outdated(before_ms, states, label)))


def _prune(platform: Platform, found: Sequence[Weight], *, dry_run: bool, yes: bool) -> dict[str, Any]:
    retention = platform.retention
    unfinished = retention.given_up()
    report = _report(found, dry_run)
    if dry_run or not (found or unfinished):
        return report
    if found and not yes:
        _ask(found)
    _make_room(platform, found)
    removal = Removal(retention)
    for job in unfinished:
        removal.remove(job)
    for weight in found:
        removal.begin(weight.job)
    say(
        f"removed {counted(removal.removed, 'job')}"
        + (f"; {removal.left} left to the housekeeping" if removal.left else "")
    )
    return {**report, "removed": removal.removed, "left": removal.left}


def _make_room(platform: Platform, found: Sequence[Weight]) -> None:
    """On a full disk no row can be deleted: what needs no room to go goes first."""
    home = platform.settings.home
    if not is_full(home):
        return
    say(f"the disk of {home} is full: the archive goes first, then the rows")
    spend_reserve(home)
    for weight in found:
        platform.archive.remove(weight.job.id)


class Removal:
    """Removes job after job, and says how far it is."""

    def __init__(self, retention: Retention) -> None:
        self._retention = retention
        self._told_at = time.monotonic()
        self.removed = 0
        self.left = 0
        """Jobs that a worker still holds: they are gone for people, and the housekeeping removes the rest."""

    def begin(self, job: EndedJob) -> None:
        """Remove a job, unless it has come back to life since it was found."""
        if self._retention.give_up(job):
            self.remove(job.id)
        else:
            say(f"{job.id} goes on meanwhile, and stays")

    def remove(self, job: str) -> None:
        """Batch by batch, to its end."""
        deadline = time.monotonic() + STUCK_S
        while not self._retention.remove(job, 1):
            if time.monotonic() > deadline and self._retention.is_held(job):
                self.left += 1
                return
            self._tell(job)
            time.sleep(PAUSE_S)
        self.removed += 1
        self._tell(job)

    def _tell(self, job: str) -> None:
        if time.monotonic() - self._told_at >= TOLD_EVERY_S:
            self._told_at = time.monotonic()
            say(f"{counted(self.removed, 'job')} removed so far; at {job}")


def _show(platform: Platform, found: Sequence[Weight], tell: Callable[[str], None]) -> None:
    for weight in found[:SHOWN]:
        job = weight.job
        ended = datetime.fromtimestamp(job.ended_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M")
        size = f"{counted(weight.pages, 'page')}, {human_bytes(weight.bytes)}"
        tell(f"{job.id}  {job.state.value:9}  ended {ended} UTC  {size}  {job.name}".rstrip())
    if len(found) > SHOWN:
        tell(f"… and {len(found) - SHOWN} more")
    if unfinished := platform.retention.given_up():
        tell(f"{counted(len(unfinished), 'job')} deleted before and not removed yet")
    tell(_sum(found) if found else "no job that fits has ended longer ago than that" + _not_ended(platform))


def _not_ended(platform: Platform) -> str:
    """Jobs that nobody can remove yet, and why."""
    rows = [row for row in platform.control.jobs(LOOK_AT) if row.status is None or row.status.ended_ms is None]
    counts = Counter(row.state for row in rows)
    told = [f"{count} {state.value}" + (HELD if state.ended else "") for state, count in counts.items()]
    return f"; {counted(len(rows), 'job')} not ended yet: {', '.join(told)}" if rows else ""


def _sum(found: Sequence[Weight]) -> str:
    pages, size = sum(weight.pages for weight in found), sum(weight.bytes for weight in found)
    return f"{counted(len(found), 'job')} in all: {counted(pages, 'page')}, {human_bytes(size)} of archive"


def _ask(found: Sequence[Weight]) -> None:
    if not sys.stdin.isatty():
        raise InputError("nobody is here to ask: say --yes to remove them, --dry-run to see what would go")
    say(f"Remove {counted(len(found), 'job')} for good? [y/N] ")
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        say("nothing was removed")
        raise typer.Exit(1)


def _report(found: Sequence[Weight], dry_run: bool) -> dict[str, Any]:
    return {
        "dry_run": dry_run,
        "jobs": [
            {
                "job": weight.job.id,
                "name": weight.job.name,
                "state": weight.job.state.value,
                "ended_at": datetime.fromtimestamp(weight.job.ended_ms / 1000, UTC).isoformat(timespec="milliseconds"),
                "pages": weight.pages,
                "bytes": weight.bytes,
            }
            for weight in found
        ],
        "pages": sum(weight.pages for weight in found),
        "bytes": sum(weight.bytes for weight in found),
        "removed": 0,
        "left": 0,
    }


def _vacuum(platform: Platform, tell: Callable[[str], None], *, dry_run: bool) -> dict[str, int] | None:
    from shoal.store.vacuum import file_size
    from shoal.store.vacuum import vacuum as shrink

    before = file_size(platform.engine)
    if before is None:
        tell("PostgreSQL uses the room of deleted rows again by itself; there is nothing to do")
        return None
    if dry_run:
        tell(f"the database file has {human_bytes(before)}, and would be written anew without its holes")
        return {"before": before}
    return _told(shrink(platform.engine))


def _told(reclaimed: Reclaimed | None) -> dict[str, int] | None:
    if reclaimed is None:
        return None
    say(f"the database file had {human_bytes(reclaimed.before)}, and has {human_bytes(reclaimed.after)} now")
    return {"before": reclaimed.before, "after": reclaimed.after}
