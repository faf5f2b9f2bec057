"""What `shoal diff` does: two versions of a job's items side by side, for people and for programs."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any

from shoal.changes.comparison import Change, Summary, by_field, by_page, compare
from shoal.cli.show import opened_platform
from shoal.cli.talk import cells, counted, print_json, say, show
from shoal.core.json_line import json_line
from shoal.wiring import Platform

VALUE_CHARS = 60
"""Of a value, for people."""
_SIGNS = {"added": "+", "removed": "-", "changed": "~"}


def show_diff(job: str, before: str, after: str, key: str | None, rows: int, *, json: bool) -> bool:
    """Print what differs; True when anything does."""
    summary = Summary()
    with opened_platform() as platform:
        row = platform.control.job(platform.control.find(job))
        for version in (before, after):
            platform.extractions.choose(row.id, row.spec, version)  # one that there is not is named
        with _changes(platform, row.id, before, after, key, summary) as changes:
            for number, change in enumerate(changes):
                if json:
                    print_json(change.as_json(key))
                elif number < rows:
                    show("\n".join(_lines(change)))
    if json:
        print_json({"summary": summary.as_json})
    else:
        _print_summary(summary, before, after, rows)
    return summary.differs


@contextmanager
def _changes(
    platform: Platform, job: str, before: str, after: str, key: str | None, summary: Summary
) -> Generator[Iterator[Change]]:
    old, new = (platform.pages.items_by_page(job, version) for version in (before, after))
    if key is None:
        yield compare(by_page(old), by_page(new), summary)
        return
    with by_field(old, new, key) as (left, right):
        yield compare(left, right, summary)


def _lines(change: Change) -> list[str]:
    item = change.item
    head = f"{_SIGNS[change.kind]} {item.url}" + (f" #{item.number}" if item.number else "")
    if change.kind != "changed":
        return [f"{head}  {short_value(dict(item.data), 2 * VALUE_CHARS)}"]
    return [
        head,
        *(f"    {name}: {short_value(old)} → {short_value(new)}" for name, (old, new) in change.fields.items()),
    ]


def short_value(value: Any, most: int = VALUE_CHARS) -> str:
    """A value in one line, for people."""
    text = json_line(value)[:-1]
    return text if len(text) <= most else text[: most - 1] + "…"


def _print_summary(summary: Summary, before: str, after: str, rows: int) -> None:
    total = summary.added + summary.removed + summary.changed
    if total > rows:
        say(f"… and {counted(total - rows, 'row')} more: --rows {total} shows them, --json has all")
    show(
        f"{before} → {after}: {summary.added} added, {summary.removed} removed, {summary.changed} changed, "
        f"{summary.same} the same"
    )
    if not summary.fields:
        return
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD)
    for column in ("field", "changed", "filled", "emptied"):
        table.add_column(column, justify="left" if column == "field" else "right")
    for name, sums in summary.fields.items():
        table.add_row(*cells((name, str(sums.changed), str(sums.filled), str(sums.emptied))))
    Console().print(table)
