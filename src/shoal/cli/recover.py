"""The command that rebuilds jobs which the frontier has lost."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shoal.cli import options as opt
from shoal.cli.talk import print_json, say
from shoal.errors import InputError
from shoal.settings import read_settings

if TYPE_CHECKING:
    from shoal.recovery.way_back import Rebuilt
    from shoal.wiring import Platform

TELL_EVERY_S = 2.0
NAMED = 5
"""Jobs for which the next step is spelt out."""
INTERRUPTED = 130

WhichJob = Annotated[
    str | None, typer.Argument(help="A job's id, or its first letters; without it, all that need it.",
                               show_default=False, metavar="[JOB]"),
]  # fmt: skip
Force = Annotated[
    bool,
    typer.Option("--force",
                 help="Also when Redis knows the job: what it knows is dropped, what is under way is fetched again."),
]  # fmt: skip


def recover(job: WhichJob = None, force: Force = False, json: opt.Json = False) -> None:
    """Rebuild jobs that Redis has lost, from the database and the archive. No stored page is fetched again.

    shoal recover

    shoal recover k3x9 --force
    """
    from shoal.cli.patience import patience
    from shoal.observe import set_up_logs
    from shoal.wiring import open_platform

    set_up_logs("error")  # what people must know is said
    if force and job is None:
        raise InputError("--force is for one job: shoal recover JOB --force")
    with open_platform(read_settings()) as platform, patience(platform.engine):
        platform.recovery.look()
        jobs = platform.recovery.under_way() if job is None else _begin(platform, job, force=force)
        done = [_rebuild(platform, each) for each in jobs]
    if json:
        print_json([_told(each) for each in done])
    elif done:
        _print_table(done)
        for each in done[:NAMED]:
            say(f"if no worker runs, go on with: shoal resume {each.job}")
    elif job is None:
        say("nothing to rebuild: Redis knows every job that has not ended")


def _begin(platform: Platform, start: str, *, force: bool) -> list[str]:
    """The job, if there is something to rebuild."""
    job = platform.control.find(start)
    state = platform.control.job(job).state
    if state.ended:
        raise InputError(f"job {job} is {state.value}: there is nothing to rebuild; `shoal results {job}` shows it")
    if job in platform.recovery.under_way() or platform.recovery.way.begin(job, force=force):
        return [job]
    say(f"Redis knows job {job}: there is nothing to rebuild. To do so nevertheless: shoal recover {job} --force")
    return []


def _rebuild(platform: Platform, job: str) -> Rebuilt:
    try:
        say(f"rebuilding {job} …")
        return platform.recovery.way.run(job, Progress())
    except KeyboardInterrupt:
        say(f"rebuild interrupted; go on with: shoal recover {job}")
        raise typer.Exit(INTERRUPTED) from None


class Progress:
    """A line now and then."""

    def __init__(self) -> None:
        self._next = time.monotonic() + TELL_EVERY_S

    def __call__(self, done: Rebuilt) -> None:
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + TELL_EVERY_S
            numbers = {name: value for name, value in _told(done).items() if name in COUNTED}
            say(f"rebuilding {done.job}: " + ", ".join(f"{name.replace('_', ' ')} {n}" for name, n in numbers.items()))


COUNTED = ("rows_stored", "admitted_again", "pages_read_again", "bodies_missing")
"""What is counted, in the words of all who tell it. The rows are pages and dead letters."""


def _told(done: Rebuilt) -> dict[str, Any]:
    numbers = (done.recalled, done.admitted, done.walked, done.missing)
    return {"job": done.job, **dict(zip(COUNTED, numbers, strict=True)), "seconds": round(done.seconds, 1)}


def _print_table(done: list[Rebuilt]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD)
    for column in _told(done[0]):
        table.add_column(column.replace("_", " "), justify="left" if column == "job" else "right")
    for each in done:
        table.add_row(*map(str, _told(each).values()))
    Console().print(table)
