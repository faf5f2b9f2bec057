"""What the commands about the quality of items do."""

from __future__ import annotations

from shoal.cli.show import opened_platform
from shoal.cli.talk import cells, counted, print_json, say
from shoal.core.tally import KEPT, KEPT_OF_HOST, FieldTally, Group, describe
from shoal.field_stats import Counted
from shoal.store.job_rows import JobRow
from shoal.wiring import Platform

SHOWN_HOSTS = 20


def show_fields(job: str, wanted: str | None, *, hosts: bool, json: bool) -> None:
    """Show what the fields of a job's items look like."""
    with opened_platform() as platform:
        row = platform.control.job(platform.control.find(job))
        version = platform.extractions.choose(row.id, row.spec, wanted).name
        counted_fields = _count(platform, row.id, version, quiet=json)
        broken = platform.pages.count_quarantine(row.id, version)
    tally = counted_fields.tally
    if json:
        print_json(_as_json(row, counted_fields, broken, hosts=hosts))
        return
    if not tally.whole.items:
        say(f"job {row.id} has no items" + ("" if row.spec.takes_items else "; it takes no fields: see --field"))
        return
    _print_group(f"{counted(tally.whole.items, 'item')} of job {row.id}", tally.whole, KEPT)
    groups = sorted(tally.hosts.items(), key=lambda pair: -pair[1].items)
    for host, group in groups[:SHOWN_HOSTS] if hosts else ():
        _print_group(f"{host}: {counted(group.items, 'item')}", group, KEPT_OF_HOST)
    if broken:
        say(f"{counted(broken, 'item')} more in quarantine: shoal quarantine {row.id}")
    for drift in row.drift or ():
        say(f"drift: {drift.told}")


def _count(platform: Platform, job: str, version: str, *, quiet: bool) -> Counted:
    """All of its items, however many; it is said when that takes longer."""
    found = platform.field_stats.count(job, version)
    while not found.complete:
        if not quiet:
            say(f"{found.tally.whole.items:,} items counted …")
        found = platform.field_stats.count(job, version, most=200_000)
    return found


def _print_group(title: str, group: Group, kept: int) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left")
    for column in ("field", "filled", "type", "different", "range"):
        table.add_column(column, justify="right" if column in ("filled", "different") else "left")
    for name, field in group.fields.items():
        exact = "" if len(field.hashes) < kept else "about "
        different = f"{exact}{field.distinct(kept):,}"
        table.add_row(*cells((name, f"{group.fill_rate(name):.1%}", _types(field), different, _range(field))))
    Console().print(table)


def _types(field: FieldTally) -> str:
    return ", ".join(sorted(field.types, key=lambda kind: -field.types[kind]))


def _range(field: FieldTally) -> str:
    if field.low is None or field.high is None:
        return ""
    unit = {"text": " characters", "list": " entries", "object": " entries"}.get(field.main_type, "")
    low, high = (f"{edge:g}" if isinstance(edge, float) else str(edge) for edge in (field.low, field.high))
    return f"{low}{unit}" if low == high else f"{low} to {high}{unit}"


def _as_json(row: JobRow, counted_fields: Counted, broken: int, *, hosts: bool) -> dict[str, object]:
    tally = counted_fields.tally
    groups = tally.hosts.items() if hosts else ()
    return {
        "job": row.id,
        **describe(tally.whole, KEPT),
        "quarantined": broken,
        "drift": [each.as_json for each in row.drift or ()],
        "hosts": {host: describe(group, KEPT_OF_HOST) for host, group in groups},
    }
