"""What the commands about jobs do: list, look, read results, pause, cancel."""

from __future__ import annotations

import sys
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime

from shoal.cli.deliver import described
from shoal.cli.follow import POLL_S
from shoal.cli.jobfile import Written, placed, read_url_list
from shoal.cli.outage import Outage, ask_until_answered, slow_is_said
from shoal.cli.output import open_writer
from shoal.cli.progress import live_display, summary
from shoal.cli.talk import cells, counted, print_json, say, show, status_json
from shoal.cli.versions import describe
from shoal.control import lost_job
from shoal.core.job_status import JobStatus
from shoal.core.model import JobState
from shoal.errors import BadUrls, InputError, NotFound
from shoal.intake.reach import read_urls
from shoal.output.formats import look
from shoal.output.sending import STDOUT, check_target, is_whole, send_file
from shoal.output.source import Source, What, source_of
from shoal.settings import read_settings
from shoal.store.dead import Selection
from shoal.store.job_rows import JobRow
from shoal.store.row_filter import RowFilter
from shoal.waits import nobody_works, waits_of
from shoal.wiring import Platform, open_platform

NOBODY = "shoal resume {job}, or shoal worker"
MOST_HINTS = 5
WAITED_FOR = "Redis and the database"


@contextmanager
def opened_platform() -> Generator[Platform]:
    """The platform as a command needs it; it is said when that takes long."""
    with ExitStack() as stack:
        with slow_is_said(WAITED_FOR):
            platform = stack.enter_context(open_platform(read_settings()))
        yield platform


def list_jobs(limit: int, *, json: bool) -> None:
    """List jobs, newest first."""
    with opened_platform() as platform, slow_is_said(WAITED_FOR):
        rows = platform.control.jobs(limit)
        lost = _lost(platform, rows)
        idle = [row.id for row in rows if row.id not in lost and row.status and nobody_works(platform, row.status)]
    if json:
        print_json([{**_row_json(row), "lost": row.id in lost} for row in rows])
    elif rows:
        _print_table(rows, lost)
    else:
        say("no jobs yet; start one with: shoal crawl https://books.example/")
    for job in lost[:MOST_HINTS]:
        say(str(lost_job(job)))
    if idle:
        say(f"no worker is alive, and {counted(len(idle), 'job')} of these should run: {NOBODY.format(job=idle[0])}")


def show_status(job: str, *, watch: bool, json: bool) -> None:
    """Show a job's state and sums."""
    with opened_platform() as platform:
        with slow_is_said(WAITED_FOR):
            found = platform.control.find(job)
            now = _living_status(platform, found)
        if watch:
            outage = Outage(quiet=json)
            with live_display(found, quiet=json) as display:
                while now.state is JobState.RUNNING:
                    display.show(now, outage.answered(now))
                    time.sleep(POLL_S)
                    now = ask_until_answered(lambda: platform.control.status(found), outage)
        with slow_is_said(WAITED_FOR):
            idle = nobody_works(platform, now)
            waits = waits_of(platform, now)
        versions = platform.again.versions(found)
        if json:
            told = waits or ("a worker: none is alive" if idle else None)
            print_json({**status_json(now), "waiting_for": told, "versions": [version.record for version in versions]})
            return
        lines = [f"job {found}", *summary(now), f"  {now.totals}"]
        if idle:
            lines.append(f"  running, but no worker is alive: {NOBODY.format(job=found)}")
        if waits and not now.troubles:  # which the summary has
            lines.append(f"  waiting for {waits}")
        if versions:
            lines.append(f"  versions of its items: v1, and {counted(len(versions), 'further one')}")
            lines += [f"    {line}" for version in versions for line in describe(version)]
        lines += [f"  {described(each)}" for each in platform.deliveries.of_job(found)]
        row = platform.control.job(found)
        show("\n".join([*lines, *_hosts(now), *_quality(platform, row)]))


def _quality(platform: Platform, row: JobRow) -> list[str]:
    """What is wrong with its items, if anything is."""
    lines = [f"  drift: {each.told}" for each in row.drift or ()]
    if row.spec.contract and (broken := platform.pages.count_quarantine(row.id)):
        why = row.spec.contract.is_kept(platform.pages.count_items(row.id), broken)
        told = f"contract broken: {why}" if why else f"{counted(broken, 'item')} in quarantine"
        lines.append(f"  {told}: shoal quarantine {row.id}")
    return lines


def _living_status(platform: Platform, job: str) -> JobStatus:
    """A job's status; sums that the database has kept of a job that Redis has lost are not it."""
    status = platform.control.status(job)
    if _lost(platform, [platform.control.job(job)]):
        raise lost_job(job)
    return status


def _lost(platform: Platform, rows: list[JobRow]) -> list[str]:
    """Those that have not ended and that Redis does not know."""
    living = [row.id for row in rows if not row.state.ended]
    if not living:
        return []
    known = platform.frontier.statuses(living)
    lost = [job for job, status in zip(living, known, strict=True) if status is None]
    return [job for job in lost if not platform.control.job(job).state.ended]  # some ended a moment ago


def write_results(
    job: str,
    kind: str | None,
    output: str | None,
    *,
    what: What | None = None,
    version: str | None = None,
    lineage: bool = False,
) -> None:
    """Write a job's items, or its pages when it has no fields, in any format to anywhere."""
    check_target(output or STDOUT, kind)
    with opened_platform() as platform:
        row = platform.control.job(platform.control.find(job))
        chosen = platform.extractions.choose(row.id, row.spec, version)
        source = source_of(platform.pages, row.id, chosen.spec, what, RowFilter(version=chosen.name), lineage=lineage)
        if (version or lineage) and source.what not in ("items", "quarantine"):
            raise InputError(f"--version and --lineage are about items, and these are {source.what}")
        _write_rows(source, kind, output)


def write_dead(job: str, kind: str | None, output: str | None, reason: str | None, host: str | None) -> None:
    """Print the requests that a job gave up on, with their reasons."""
    check_target(output or STDOUT, kind)
    with opened_platform() as platform:
        row = platform.control.job(platform.control.find(job))
        _write_rows(
            source_of(platform.pages, row.id, row.spec, "errors", RowFilter(reason=reason, host=host)), kind, output
        )


def _write_rows(source: Source, chosen: str | None, output: str | None) -> None:
    target = output or STDOUT
    kind = check_target(target, chosen)
    if is_whole(target, kind):
        written = send_file(source, kind, target)
        say(f"{counted(written.rows, 'row')} in {'standard output' if target == STDOUT else target}")
        return
    columns = [column.name for column in look(source, kind).columns()]
    with open_writer(target, kind, columns) as writer:
        for batch in source.batches():
            writer.write(record for _, record in batch)


def replay_dead(job: str, reason: str | None, host: str | None, *, json: bool) -> None:
    """Try dead letters once more."""
    with opened_platform() as platform:
        row = platform.control.job(platform.control.find(job))
        count = platform.intake.replay(row, Selection(reason=reason, host=host))
    if json:
        print_json({"job": row.id, "replayed": count})
    elif count:
        say(
            f"{counted(count, 'request')} of job {row.id} will be tried again; if no worker runs: shoal resume {row.id}"
        )
    else:
        say(f"job {row.id} has no such dead letters; `shoal dead {row.id}` lists those it has")


def write_page(job: str, url: str, *, headers: bool, kind: str | None = None) -> None:
    """Print the stored body of a page, or what else was kept of it, straight from the archive."""
    with opened_platform() as platform:
        found = platform.control.find(job)
        row = platform.control.page(found, url)
        capture = row.capture(kind or "document") if kind != "response" and not headers else None
        if capture is not None:
            _write(platform.archive.read_attachment(capture.archive))
            return
        if kind not in (None, "response"):
            has = ", ".join(each.kind for each in row.captures) or "nothing but its response"
            raise NotFound(f"no {kind} of {row.url} was kept; there is {has}")
        if row.archive is None:
            raise NotFound(f"the body of {row.url} was not kept (the job ran without the archive)")
        exchange = platform.archive.read(row.archive)
    head = [f"HTTP/1.1 {exchange.status} {exchange.http_reason}\r\n".encode("latin-1")]
    head += [b"%b: %b\r\n" % header for header in exchange.headers]
    _write(b"".join([*head, b"\r\n"] if headers else []) + exchange.unpacked())


def _write(whole: bytes) -> None:
    if sys.stdout.isatty():  # strangers wrote it: a terminal must not obey it
        show(whole.decode(errors="replace").replace("\r\n", "\n"))
        return
    sys.stdout.buffer.write(whole)
    sys.stdout.buffer.flush()


def pause(job: str, *, json: bool) -> None:
    """Stop handing out a job's requests; what is under way is finished."""
    with opened_platform() as platform:
        found = platform.control.find(job)
        _tell(platform, found, platform.control.pause(found), json)


def close(job: str, *, json: bool) -> None:
    """Take no more URLs for an open job."""
    with opened_platform() as platform:
        found = platform.control.find(job)
        _tell(platform, found, platform.control.close(found), json)


def add(job: str, urls: list[str], file: str | None, *, json: bool) -> None:
    """Send more URLs to an open job."""
    listed = [*map(Written, urls), *(read_url_list(file) if file else ())]
    if not listed:
        raise InputError("no URLs given; for example: shoal add JOB https://books.example/book/7")
    with opened_platform() as platform:
        row = platform.control.job(platform.control.find(job))
        spec = row.spec.model_copy(update={"urls": tuple(written.url for written in listed)})
        try:
            read_urls(spec, platform.settings.egress)
        except BadUrls as exc:
            raise placed(exc, [written.place for written in listed], len(listed)) from None
        added = platform.intake.add(row, ((number, url, "") for number, url in enumerate(spec.urls, 1)), spec.local)
    if json:
        print_json({"job": row.id, **added.sums})
    else:
        say(f"job {row.id}: {added.accepted} accepted, {added.seen} seen before, {added.filtered} filtered")


def cancel(job: str, *, json: bool) -> None:
    """Give a job up: drop all that waits, keep what is stored."""
    with opened_platform() as platform:
        found = platform.control.find(job)
        _tell(platform, found, platform.control.cancel(found), json)


def _tell(platform: Platform, job: str, state: JobState, json: bool) -> None:
    if json:
        print_json(status_json(platform.control.status(job)))
    else:
        hint = f"; go on with: shoal resume {job}" if state is JobState.PAUSED else ""
        say(f"job {job} is {state.value}{hint}")


def _print_table(rows: list[JobRow], lost: list[str]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD)
    for column in ("job", "state", "pages", "failed", "waiting", "started", "name"):
        table.add_column(column, justify="right" if column in ("pages", "failed", "waiting") else "left")
    for row in rows:
        c = row.status.counters if row.status else None
        sums = (str(c.done - row.status.redirects), str(c.dead), str(c.pending)) if row.status and c else ("", "", "")
        state = "lost" if row.id in lost else row.state.value
        table.add_row(*cells((row.id, state, *sums, _when(row.created_ms), row.name)))
    Console().print(table)


def _when(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).astimezone().strftime("%Y-%m-%d %H:%M")


def _hosts(status: JobStatus) -> list[str]:
    if not status.slowest:
        return []
    return ["  slowest hosts: " + ", ".join(f"{h.host} {h.latency_ms} ms" for h in status.slowest)]


def _row_json(row: JobRow) -> dict[str, object]:
    sums = status_json(row.status) if row.status else {"job": row.id, "state": row.state.value}
    return {**sums, "name": row.name, "created_ms": row.created_ms}
