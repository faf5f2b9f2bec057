"""Commands about jobs: list, look, read results, pause, cancel."""

from __future__ import annotations

import sys
import time
from datetime import UTC, datetime
from typing import Annotated

import typer

from shoal.cli import options as opt
from shoal.cli.follow import POLL_S, result_columns
from shoal.cli.output import (
    DEAD_COLUMNS,
    PAGE_COLUMNS,
    dead_record,
    format_of,
    item_record,
    open_writer,
    page_record,
)
from shoal.cli.progress import failures, live_display, summary
from shoal.cli.talk import print_json, say, status_json
from shoal.core.model import JobState, JobStatus
from shoal.errors import NotFound
from shoal.settings import read_settings
from shoal.store.jobs import JobRow
from shoal.wiring import Platform, open_platform

Limit = Annotated[int, typer.Option(envvar="SHOAL_LIMIT", min=1, help="How many jobs to list.")]
Watch = Annotated[bool, typer.Option("--watch", "-w", envvar="SHOAL_WATCH", help="Stay until the job ends.")]
OnlyPages = Annotated[bool, typer.Option("--pages", envvar="SHOAL_ONLY_PAGES", help="Rows about pages, not items.")]
PageUrl = Annotated[str, typer.Argument(help="A URL of the job.", show_default=False)]
WithHeaders = Annotated[bool, typer.Option("--headers", envvar="SHOAL_HEADERS", help="Status line and headers too.")]


def jobs(limit: Limit = 20, json: opt.Json = False) -> None:
    """List jobs, newest first.

    shoal jobs --limit 5
    """
    with open_platform(read_settings()) as platform:
        rows = platform.control.jobs(limit)
    if json:
        print_json([_row_json(row) for row in rows])
    elif rows:
        _print_table(rows)
    else:
        say("no jobs yet; start one with: shoal crawl https://books.example/")


def status(job: opt.Job, watch: Watch = False, json: opt.Json = False) -> None:
    """Show a job's state and sums.

    shoal status k3x9 --watch
    """
    with open_platform(read_settings()) as platform:
        found = platform.control.find(job)
        now = platform.control.status(found)
        if watch:
            with live_display(found, quiet=json) as display:
                while now.state is JobState.RUNNING:
                    display.show(now)
                    time.sleep(POLL_S)
                    now = platform.control.status(found)
        if json:
            print_json(status_json(now))
        else:
            print("\n".join([f"job {found}", *summary(now), *_hosts(now)]))


def results(
    job: opt.Job,
    format: opt.Format = None,  # noqa: A002 - the flag's name
    output: opt.Output = None,
    pages: OnlyPages = False,
) -> None:
    """Print a job's items, or its pages when it has no fields, as JSON Lines or CSV.

    shoal results k3x9 --format csv > books.csv
    """
    target = output or "-"
    with open_platform(read_settings()) as platform:
        row = platform.control.job(platform.control.find(job))
        kind = format_of(target, format)
        columns = PAGE_COLUMNS if pages else result_columns(row.spec)
        with open_writer(target, kind, columns) as writer:
            if pages or not row.spec.fields:
                writer.write(map(page_record, platform.pages.pages(row.id)))
            else:
                writer.write(map(item_record, platform.pages.items(row.id)))


def dead(job: opt.Job, format: opt.Format = None, output: opt.Output = None) -> None:  # noqa: A002
    """Print the requests that a job gave up on, with their reasons.

    shoal dead k3x9 --format csv
    """
    target = output or "-"
    with open_platform(read_settings()) as platform:
        found = platform.control.find(job)
        with open_writer(target, format_of(target, format), DEAD_COLUMNS) as writer:
            writer.write(map(dead_record, platform.pages.dead_letters(found)))


def page(job: opt.Job, url: PageUrl, headers: WithHeaders = False) -> None:
    """Print the stored body of a page, straight from the archive.

    shoal page k3x9 https://books.example/book/1 > book.html
    """
    with open_platform(read_settings()) as platform:
        found = platform.control.find(job)
        row = platform.control.page(found, url)
        if row.archive is None:
            raise NotFound(f"the body of {row.url} was not kept (the job ran without the archive)")
        exchange = platform.archive.read(row.archive)
    out = sys.stdout.buffer
    if headers:
        out.write(f"HTTP/1.1 {exchange.status} {exchange.http_reason}\r\n".encode("latin-1"))
        out.writelines(b"%b: %b\r\n" % header for header in exchange.headers)
        out.write(b"\r\n")
    out.write(exchange.unpacked())
    out.flush()


def pause(job: opt.Job, json: opt.Json = False) -> None:
    """Stop handing out a job's requests; what is under way is finished.

    shoal pause k3x9
    """
    with open_platform(read_settings()) as platform:
        found = platform.control.find(job)
        _tell(platform, found, platform.control.pause(found), json)


def cancel(job: opt.Job, json: opt.Json = False) -> None:
    """Give a job up: drop all that waits, keep what is stored.

    shoal cancel k3x9
    """
    with open_platform(read_settings()) as platform:
        found = platform.control.find(job)
        _tell(platform, found, platform.control.cancel(found), json)


def _tell(platform: Platform, job: str, state: JobState, json: bool) -> None:
    if json:
        print_json(status_json(platform.control.status(job)))
    else:
        hint = f"; go on with: shoal resume {job}" if state is JobState.PAUSED else ""
        say(f"job {job} is {state.value}{hint}")


def _print_table(rows: list[JobRow]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD)
    for column in ("job", "state", "pages", "failed", "waiting", "started", "name"):
        table.add_column(column, justify="right" if column in ("pages", "failed", "waiting") else "left")
    for row in rows:
        c = row.status.counters if row.status else None
        sums = (str(c.done), str(c.dead), str(c.pending)) if c else ("", "", "")
        table.add_row(row.id, row.state.value, *sums, _when(row.created_ms), row.name)
    Console().print(table)


def _when(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).astimezone().strftime("%Y-%m-%d %H:%M")


def _hosts(status: JobStatus) -> list[str]:
    lines = [f"  {reason}: {count}" for reason, count in failures(status)]
    if status.slowest:
        lines.append("  slowest hosts: " + ", ".join(f"{h.host} {h.latency_ms} ms" for h in status.slowest))
    return lines


def _row_json(row: JobRow) -> dict[str, object]:
    sums = status_json(row.status) if row.status else {"job": row.id, "state": row.state.value}
    return {**sums, "name": row.name, "created_ms": row.created_ms}
