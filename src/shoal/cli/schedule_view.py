"""What the commands about schedules do."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import typer

from shoal.cli.jobfile import SCHEDULE, make_spec, places_in, read_job_file
from shoal.cli.run import Places, make_ready, spec_of
from shoal.cli.show import opened_platform
from shoal.cli.talk import cells, counted, human_seconds, print_json, say, show
from shoal.core.redact import visible
from shoal.core.schedule import NAME
from shoal.core.spec import JobSpec
from shoal.errors import BadSpec, InputError
from shoal.schedules.book import Listed, read_timing
from shoal.schedules.record import local, run_record, schedule_record, slot_record
from shoal.store.schedule_runs import RunRow, RunState
from shoal.store.schedules import NewSchedule, ScheduleRow
from shoal.waits import nobody_keeps_house
from shoal.wiring import Platform

AT_ONCE = 500
PREVIEWED = 3


# --- changing --------------------------------------------------------------------------------------------------------


def add(
    tenant: str,
    name: str,
    given: Mapping[str, Any],
    timing: Mapping[str, Any],
    *,
    paused: bool,
    replace: bool,
    json: bool,
) -> None:
    """Add a schedule, or change the one of this name."""
    _check_name(name)
    spec, where = spec_of(given)
    spec = _ready(spec, where)
    when = read_timing(_merged(_block(given["job"]), timing), f"schedule {name}")
    new = NewSchedule(tenant, name, when, spec, enabled=not paused)
    with opened_platform() as platform:
        row = platform.schedules.book.add(new, replaces=replace)
        _tell(platform, row, json=json)


def edit(tenant: str, name: str, job: Path | None, timing: Mapping[str, Any], *, json: bool) -> None:
    """Change a schedule."""
    changes = _merged(_block(job), timing)
    if not changes and job is None:
        raise InputError("nothing to change; for example: shoal schedule edit nightly --cron '30 4 * * *'")
    spec = None if job is None else _ready(make_spec(job, {}, (), ()), lambda: places_in(job))
    with opened_platform() as platform:
        book = platform.schedules.book
        row = book.edit(book.find(tenant, name), changes, spec, "")
        _tell(platform, row, json=json)


def _ready(spec: JobSpec, where: Places) -> JobSpec:
    ready, _ = make_ready(spec, where, workers=0)
    return ready


def _check_name(name: str) -> None:
    if not re.fullmatch(NAME, name):
        raise InputError(f"{name[:60]!r} is no name of a schedule: letters, digits and _.-, at most 50")


def _block(job: Path | None) -> dict[str, Any]:
    """When a job file says that its job is to run."""
    block = read_job_file(job).get(SCHEDULE) if job else None
    if block is None:
        return {}
    if not isinstance(block, dict):
        raise BadSpec(f"{job}: {SCHEDULE}: a mapping is needed, such as {SCHEDULE}: {{cron: '0 3 * * *'}}")
    return cast(dict[str, Any], block)


def _merged(block: Mapping[str, Any], timing: Mapping[str, Any]) -> dict[str, Any]:
    """Flags win over the file, also --every over its cron, and the other way round."""
    out = {other for one, other in (("cron", "every"), ("every", "cron")) if timing.get(one)}
    return {**{name: value for name, value in block.items() if name not in out}, **timing}


def pause(tenant: str, name: str, *, json: bool) -> None:
    _change(tenant, name, lambda platform, row: platform.schedules.book.pause(row), json=json)


def resume(tenant: str, name: str, *, json: bool) -> None:
    _change(tenant, name, lambda platform, row: platform.schedules.book.resume(row), json=json)


def _change(tenant: str, name: str, change: Callable[[Platform, ScheduleRow], ScheduleRow], *, json: bool) -> None:
    with opened_platform() as platform:
        row = change(platform, platform.schedules.book.find(tenant, name))
        _tell(platform, row, json=json)


def remove(tenant: str, name: str, *, yes: bool, json: bool) -> None:
    """Remove a schedule."""
    with opened_platform() as platform:
        book = platform.schedules.book
        row = book.find(tenant, name)
        if not yes and sys.stdin.isatty() and not typer.confirm(f"remove schedule {name} with its history?", err=True):
            raise typer.Exit(1)
        book.remove(row)
    if json:
        print_json({"name": name, "removed": True})
    else:
        say(f"schedule {name} is removed; jobs that it has made stay")


def run(tenant: str, name: str, *, force: bool, json: bool) -> None:
    """Run it now."""
    with opened_platform() as platform:
        made = platform.schedules.starter.run_now(platform.schedules.book.find(tenant, name), force=force)
    if json:
        print_json(run_record(made))
    elif made.state is RunState.RUNNING:
        print(made.job)
        say(f"started; watch it with: shoal status {made.job} --watch")
    else:
        say(_outcome(made))
    raise typer.Exit(0 if made.state in (RunState.RUNNING, RunState.WAITING, RunState.STARTING) else 1)


# --- looking ---------------------------------------------------------------------------------------------------------


def list_all(tenant: str | None, limit: int, *, json: bool) -> None:
    """List schedules."""
    with opened_platform() as platform:
        found = _find(platform, tenant, limit)
        trouble = nobody_keeps_house(platform)
    if json:
        print_json([{**schedule_record(each), "waiting_for": trouble} for each in found])
    elif found:
        _print_table(found)
    else:
        say("no schedules yet; make one with: shoal schedule add nightly -j shop.yaml --cron '0 3 * * *'")
    if trouble and not json and any(each.row.state == "active" for each in found):
        say(trouble)


def _find(platform: Platform, tenant: str | None, limit: int) -> list[Listed]:
    found: list[Listed] = []
    place = ("", "")
    while more := platform.schedules.book.list(tenant, min(AT_ONCE, limit - len(found)), place):
        found += more
        place = (more[-1].row.tenant, more[-1].row.name)
        if len(found) >= limit:
            break
    return found


def show_one(tenant: str, name: str, *, json: bool) -> None:
    """Show a schedule with its job."""
    from shoal.api.present import spec as shown_spec

    with opened_platform() as platform:
        book = platform.schedules.book
        row = book.find(tenant, name)
        listed, job = book.show(row), platform.schedules.store.job(row)
        trouble = nobody_keeps_house(platform)
    record = {**schedule_record(listed), "waiting_for": trouble, "urls": list(job.urls), "job": shown_spec(job)}
    if json:
        print_json(record)
        return
    show("\n".join(_lines(listed)))
    show(f"  urls        {counted(len(job.urls), 'URL')}: {', '.join(job.urls[:3])}{' …' if len(job.urls) > 3 else ''}")
    if trouble and row.state == "active":
        say(trouble)


def _lines(listed: Listed) -> list[str]:
    row, timing = listed.row, listed.row.timing
    bounds = "".join(f", {word} {at}" for word, at in (("from", timing.start), ("until", timing.end)) if at)
    jitter = f", up to {human_seconds(timing.jitter)} later" if timing.jitter else ""
    return [
        f"{row.name}: {row.state}",
        f"  when        {timing.words}{jitter}{bounds}",
        f"  next        {_next(row)}",
        f"  last        {_outcome(listed.last) if listed.last else 'none so far'}",
        f"  catch up    {timing.catch_up.value}",
        f"  overlap     {timing.overlap.value}",
    ]


def show_next(tenant: str, name: str, count: int, *, json: bool) -> None:
    """Show the slots to come."""
    with opened_platform() as platform:
        book = platform.schedules.book
        row = book.find(tenant, name)
        found = book.preview(row.timing, count, row)
    if json:
        print_json([slot_record(slot, due, row.timing) for slot, due in found])
        return
    say(f"{row.timing.words}{' (paused)' if not row.enabled else ''}")
    for slot, due in found:
        late = f"  begins {(due - slot) / 1000:.0f} s later" if due and due > slot else ""
        show(f"{datetime.fromtimestamp(slot / 1000, row.timing.zone):%a} {local(slot, row.timing)}{late}")
    if not found:
        say("no slot will come: its end has passed")


def show_history(tenant: str, name: str, limit: int, *, json: bool) -> None:
    """List what became of its slots."""
    with opened_platform() as platform:
        book = platform.schedules.book
        row = book.find(tenant, name)
        runs = book.history(row, limit)
    if json:
        print_json([run_record(run) for run in runs])
    elif runs:
        _print_runs(row, runs)
    else:
        say(f"schedule {name} has had no slot so far; the next: {_next(row)}")


# --- for people ------------------------------------------------------------------------------------------------------


def _tell(platform: Platform, row: ScheduleRow, *, json: bool) -> None:
    trouble = nobody_keeps_house(platform)
    if json:
        print_json({**schedule_record(platform.schedules.book.show(row)), "waiting_for": trouble})
        return
    say(f"schedule {row.name} is {row.state}: {row.timing.words}")
    if row.state == "active":
        for slot, _ in platform.schedules.book.preview(row.timing, PREVIEWED, row):
            say(f"  {local(slot, row.timing)}")
        if trouble:
            say(trouble)


def _next(row: ScheduleRow) -> str:
    if row.next_ms is None:
        return "paused" if not row.enabled else "never again: its end has passed"
    away = row.next_ms / 1000 - datetime.now(UTC).timestamp()
    words = f"in {human_seconds(away, whole=True)}" if away > 0 else "now"
    return f"{local(row.next_ms, row.timing)} ({words})"


def _outcome(run: RunRow) -> str:
    """`finished: 120 pages, 3 failed, 118 items in 2 min 10 s`"""
    if run.sums:
        sums = f"{counted(run.sums.pages, 'page')}, {run.sums.failed:,} failed, {counted(run.sums.items, 'item')}"
        return f"{run.state.value}: {sums} in {human_seconds(run.sums.seconds)}"
    many = f" {run.slots} slots" if run.slots > 1 else ""
    waits = f"for job {run.other}" if run.state is RunState.WAITING and run.other else ""
    why = f": {run.detail or run.reason or waits}" if run.detail or run.reason or waits else ""
    return f"{run.state.value}{many}{why}"


def _print_table(found: Sequence[Listed]) -> None:
    tenants = {each.row.tenant for each in found} != {"default"}
    names = ("name", *(("tenant",) if tenants else ()), "state", "when", "next", "last")
    _print(names, [_cells(each, tenants=tenants) for each in found])


def _cells(each: Listed, *, tenants: bool) -> tuple[str, ...]:
    row = each.row
    last = _outcome(each.last) if each.last else "–"
    return (row.name, *((row.tenant,) if tenants else ()), row.state, row.timing.words, _next(row), last)


def _print_runs(row: ScheduleRow, runs: Sequence[RunRow]) -> None:
    rows = [(local(run.slot_ms, row.timing), run.kind.value, run.job or "–", _outcome(run)) for run in runs]
    _print(("slot", "kind", "job", "outcome"), rows)


def _print(names: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD)
    for name in names:
        table.add_column(name, overflow="fold", no_wrap=name in ("name", "job"))
    for row in rows:
        table.add_row(*cells(visible(text) for text in row))
    Console().print(table)
