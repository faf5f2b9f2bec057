"""The command that puts the promises to the test: `shoal drill`."""

from __future__ import annotations

import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli import talk
from shoal.cli.talk import counted, print_json, say

if TYPE_CHECKING:
    from shoal.drill.plan import Plan
    from shoal.drill.report import Run
    from shoal.drill.run import Moment, Show

PLAIN_EVERY_S = 5.0
INTERRUPTED = 130

Urls = Annotated[int, typer.Option(min=1, help="Pages of the site.")]
Hosts = Annotated[int, typer.Option(min=1, max=200, help="Hosts that they are on.")]
Workers = Annotated[int, typer.Option(min=1, max=64, help="Worker processes.")]
Faults = Annotated[int, typer.Option(min=0, help="Faults in each run.")]
Seed = Annotated[int, typer.Option(help="Of the schedule: the same seed has the same faults.")]
Runs = Annotated[int, typer.Option(min=1, help="Runs, with one seed after the other.")]
Minutes = Annotated[float | None, typer.Option(min=0.0, help="Go on with the next seed until this time has passed.")]
Lease = Annotated[float, typer.Option(min=1.0, help="Seconds after which a silent worker loses its requests.")]
Rate = Annotated[float, typer.Option(min=0.1, help="Requests a second to each host.")]
Only = Annotated[list[str] | None, typer.Option(help="Only faults with this in their names, as Redis; repeatable.")]
Flush = Annotated[
    bool | None, typer.Option("--flush/--no-flush", help="Redis loses data in each run; default unless --only is used.")
]
Json = Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")]
Keep = Annotated[bool, typer.Option("--keep", help="Leave the scratch folder: logs, database, archive.")]


def drill(
    urls: Urls = 2_000,
    hosts: Hosts = 20,
    workers: Workers = 4,
    faults: Faults = 6,
    seed: Seed = 1,
    runs: Runs = 1,
    minutes: Minutes = None,
    lease: Lease = 5.0,
    rate: Rate = 4.0,
    only: Only = None,
    flush: Flush = None,
    json: Json = False,
    keep: Keep = False,
) -> None:
    """Crawl a local site while workers, Redis and the database are killed, frozen and locked; then count the pages.

    shoal drill --seed 7

    shoal drill --urls 300 --hosts 5 --workers 2 --faults 3 --only Redis

    Everything happens on this machine, in a scratch folder. The exit code is 0 only when every promise was kept.
    """
    from shoal.drill.kind import kinds_for
    from shoal.drill.plan import Plan
    from shoal.drill.report import run_json, summary_table

    kinds = kinds_for(only or (), losses=flush is not False)
    first = Plan(urls, hosts, workers, faults, seed, lease, rate, kinds, not only if flush is None else flush)
    done: list[Run] = []
    stopped = False
    with _termination_as_interrupt():
        try:
            for plan in _plans(first, runs, minutes):
                done.append(_one(plan, keep=keep, quiet=json))  # noqa: PERF401 - an interrupt leaves those before
        except KeyboardInterrupt:
            stopped = True
    holds = all(run.verdict.holds for run in done) and not stopped
    if json:
        print_json({"holds": holds, "runs": [run_json(run) for run in done]})
    elif len(done) > 1:
        talk.show(f"\n{summary_table(done)}\n{sum(run.verdict.holds for run in done)} of {len(done)} runs hold")
    if stopped:
        say(f"stopped in the middle of seed {first.seed + len(done)}, which proves nothing; {_ended(done)} before it")
    raise typer.Exit(INTERRUPTED if stopped else 0 if holds else 1)


def _ended(done: Sequence[Run]) -> str:
    return counted(len(done), "run") if done else "no run was complete"


def _plans(first: Plan, runs: int, minutes: float | None) -> Iterator[Plan]:
    until = time.monotonic() + (minutes or 0) * 60
    number = 0
    while number < runs or time.monotonic() < until:
        yield replace(first, seed=first.seed + number)
        number += 1


def _one(plan: Plan, *, keep: bool, quiet: bool) -> Run:
    from shoal.drill.report import Run, fault_table, verdict_table
    from shoal.drill.run import run_drill
    from shoal.drill.verdict import judge

    with _scratch(keep=keep) as scratch:
        say(f"seed {plan.seed}: {_extent(plan)}; Ctrl-C stops, and leaves nothing behind")
        with _progress() as show:
            evidence = run_drill(plan, scratch.folder, show)
        run = Run(evidence, judge(evidence))
        scratch.keep |= not run.verdict.holds
    if not quiet:
        talk.show(f"\n{fault_table(run)}\n\n{verdict_table(run)}\n\n{verdict_lines(run)}")
    return run


def verdict_lines(run: Run) -> str:
    """What came of a run in a word, and every promise that was broken."""
    if run.verdict.holds:
        return "every promise was kept"
    return "\n".join(["promises were broken:", *(f"  ✗ {problem}" for problem in run.verdict.problems)])


def _extent(plan: Plan) -> str:
    where = f"{counted(plan.urls, 'URL')} on {counted(plan.hosts, 'host')}"
    return f"{where}, {counted(plan.workers, 'worker')}, {counted(plan.faults, 'fault')}"


class _Scratch:
    """A folder, and whether it is to stay."""

    def __init__(self, folder: Path, *, keep: bool) -> None:
        self.folder = folder
        self.keep = keep


@contextmanager
def _scratch(*, keep: bool) -> Generator[_Scratch]:
    """A failure leaves the folder, so that it can be looked into; a Ctrl-C does not."""
    scratch = _Scratch(Path(tempfile.mkdtemp(prefix="shoal-drill-")), keep=keep)
    try:
        yield scratch
    except Exception:
        scratch.keep = True
        raise
    finally:
        if scratch.keep:
            say(f"logs, database and archive are in {scratch.folder}")
        else:
            shutil.rmtree(scratch.folder, ignore_errors=True)


class _Line:
    """How it stands, on one line of a terminal, or now and then a line elsewhere."""

    def __init__(self) -> None:
        self._live = sys.stderr.isatty()
        self._next = 0.0

    def show(self, moment: Moment) -> None:
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + (0.2 if self._live else PLAIN_EVERY_S)
        faults = f"fault {moment.injected} of {moment.faults}"
        what = f": {', '.join(moment.under_way)}" if moment.under_way else ""
        text = f"{moment.seconds:5.1f} s  {moment.stored} of {counted(moment.urls, 'page')}  {faults}{what}"
        if self._live:
            sys.stderr.write(f"\r\x1b[K{text}")
            sys.stderr.flush()
        else:
            say(text)

    def end(self) -> None:
        if self._live:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


@contextmanager
def _progress() -> Generator[Show]:
    line = _Line()
    try:
        yield line.show
    finally:
        line.end()


@contextmanager
def _termination_as_interrupt() -> Generator[None]:
    """Whoever ends the drill, what it has started ends as well."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
