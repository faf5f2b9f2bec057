"""The command that rebuilds jobs which the frontier has lost."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli import options as opt
from shoal.cli.talk import print_json, say
from shoal.errors import InputError
from shoal.settings import read_settings

if TYPE_CHECKING:
    from shoal.recovery.way_back import Rebuilt
    from shoal.wiring import Platform

TELL_EVERY = 5_000

WhichJob = Annotated[
    str | None, typer.Argument(help="A job's id, or its first letters; without it, all that need it.",
                               show_default=False, metavar="[JOB]"),
]  # fmt: skip
Force = Annotated[
    bool,
    typer.Option("--force", envvar="SHOAL_FORCE",
                 help="Also when Redis knows the job: what it knows is dropped, what is under way is fetched again."),
]  # fmt: skip


def recover(job: WhichJob = None, force: Force = False, json: opt.Json = False) -> None:
    """Rebuild jobs that Redis has lost, from the database and the archive. No stored page is fetched again.

    shoal recover

    shoal recover k3x9 --force
    """
    from shoal.observe import set_up_logs
    from shoal.wiring import open_platform

    set_up_logs("warning")
    if force and job is None:
        raise InputError("--force is for one job: shoal recover JOB --force")
    with open_platform(read_settings()) as platform:
        platform.recovery.look()
        jobs = platform.recovery.under_way() if job is None else _begin(platform, job, force=force)
        done = [platform.recovery.way.run(each, Progress()) for each in jobs]
    if json:
        print_json([asdict(each) for each in done])
    elif done:
        _print_table(done)
        say("if no worker runs, go on with: shoal resume JOB")
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


class Progress:
    """A line now and then."""

    def __init__(self) -> None:
        self._next = TELL_EVERY

    def __call__(self, done: Rebuilt) -> None:
        rows = done.recalled + done.walked
        if rows >= self._next:
            say(f"  {done.job}: {done.recalled} stored, {done.walked} read again, {done.admitted} URLs wait")
            self._next = rows + TELL_EVERY


def _print_table(done: list[Rebuilt]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD)
    for column in ("job", "stored", "admitted again", "pages read again", "bodies missing", "seconds"):
        table.add_column(column, justify="left" if column == "job" else "right")
    for each in done:
        numbers = (each.recalled, each.admitted, each.walked, each.missing)
        table.add_row(each.job, *map(str, numbers), f"{each.seconds:.1f}")
    Console().print(table)
