"""What `shoal changes` does: the sums of what has changed, some of it for people, all of it for programs and files."""

from __future__ import annotations

import time
from collections.abc import Iterator
from difflib import get_close_matches
from itertools import islice

from shoal.changes.items import ItemChange, ItemComparison
from shoal.changes.kinds import Kind, Sums
from shoal.changes.pages import PageChange, PageComparison
from shoal.changes.rows import item_row, page_row, source_of_changes
from shoal.cli.compare import short_value
from shoal.cli.output import open_writer
from shoal.cli.progress import PLAIN_EVERY_S
from shoal.cli.show import opened_platform
from shoal.cli.talk import cells, counted, print_json, say, show
from shoal.core.frozen import frozen
from shoal.errors import InputError, NotFound
from shoal.output.sending import STDOUT, check_target, is_whole, send_file
from shoal.store.export import Record
from shoal.store.job_rows import JobRow
from shoal.wiring import Platform

SHOWN_HOSTS = 10
SHOWN_FIELDS = 10
_SIGNS = {Kind.NEW: "+", Kind.GONE: "-", Kind.CHANGED: "~", Kind.UNCHANGED: "=", Kind.UNKNOWN: "?"}
_BY_DEFAULT = frozenset(Kind) - {Kind.UNCHANGED}


@frozen
class Asked:
    """What the command line says."""

    job: str
    since: str | None
    items: bool
    kinds: frozenset[Kind]
    diff: bool
    key: str | None
    rows: int
    output: str | None
    format: str | None
    json: bool


def read_kinds(text: str | None) -> frozenset[Kind]:
    """`new,changed` as kinds."""
    if text is None:
        return _BY_DEFAULT
    names = [name.strip().lower() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in set(Kind):
            near = get_close_matches(name[:50], list(Kind), n=1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(Kind)}"
            raise InputError(f"--kind {name[:50]!r}: {hint}")
    if not names:
        raise InputError(f"--kind: name some of {', '.join(Kind)}")
    return frozenset(map(Kind, names))


def show_page(asked: Asked, url: str) -> bool:
    """Say what became of one page, with the difference of its text; True when anything did."""
    with opened_platform() as platform:
        run, earlier = _runs(platform, asked)
        change, compared = platform.changes.page(run, earlier, url)
        diff = compared.diff(change) if change.kind is Kind.CHANGED else None
    if asked.json:
        print_json({**change.as_json, "diff": diff.as_json if diff else None})
    else:
        show("\n".join([_page_line(change), *(diff.text.splitlines() if diff else ())]))
    return change.kind in (Kind.NEW, Kind.CHANGED, Kind.GONE)


def show_all(asked: Asked) -> bool:
    """Say what has changed, or write it to a file; True when anything has."""
    if asked.diff and asked.items:
        raise InputError("--diff is about the texts of pages; items are told field by field")
    if asked.key and not asked.items:
        raise InputError("--key is about items: add --items")
    if asked.output or asked.format:
        check_target(asked.output or STDOUT, asked.format)
    with opened_platform() as platform:
        run, earlier = _runs(platform, asked)
        told = _Items(platform, asked, run, earlier) if asked.items else _Pages(platform, asked, run, earlier)
        if asked.output or asked.format:
            _write(told, asked)
            say(_headline(told.sums, run, earlier, told.noun))
        elif asked.json:
            for record in told.records():
                print_json(record)
            print_json({"summary": told.sums.as_json, "job": run.id, "since": earlier.id})
        else:
            _print(told, asked, run, earlier)
    return told.sums.differs


def _runs(platform: Platform, asked: Asked) -> tuple[JobRow, JobRow]:
    run = platform.control.job(_found(platform, asked.job))
    since = platform.control.find(asked.since) if asked.since else platform.changes.earlier(run)
    return run, platform.control.job(since)


def _found(platform: Platform, job: str) -> str:
    """By its id, the beginning of that, or its name."""
    try:
        return platform.control.find(job)
    except NotFound:
        named = platform.jobs.newest_named(job) if job else None
        if named is None:
            raise NotFound(f"there is no job {job!r}, nor one of that name; `shoal jobs` lists them") from None
        return named


class _Ticker:
    """Says how far it has come, when that takes longer than a moment."""

    def __init__(self, noun: str) -> None:
        self._noun = noun
        self._next = time.monotonic() + 1.0
        self._count = 0

    def tick(self, count: int = 1) -> None:
        self._count += count
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + PLAIN_EVERY_S
            say(f"{counted(self._count, self._noun)} compared …")


class _Pages:
    """Changes of pages, on their way out."""

    noun = "page"

    def __init__(self, platform: Platform, asked: Asked, run: JobRow, earlier: JobRow) -> None:
        self._compared: PageComparison = platform.changes.compare_pages(run, earlier)
        self._asked = asked
        self.sums = Sums()

    def _changes(self) -> Iterator[PageChange]:
        self.sums = Sums()
        ticker = _Ticker(self.noun)
        for change in self._compared.stream(ticker.tick):
            self.sums.note(change.kind, change.page.host, change.why)
            if change.kind in self._asked.kinds:
                yield change

    def records(self) -> Iterator[Record]:
        for change in self._changes():
            yield {**change.as_json, **({"diff": self._diff(change)} if self._asked.diff else {})}

    def rows(self) -> Iterator[Record]:
        """For a file."""
        for change in self._changes():
            yield page_row(change, self._diff(change) if self._asked.diff else None)

    def lines(self) -> Iterator[str]:
        for change in self._changes():
            diff = self._diff(change) if self._asked.diff else ""
            yield "\n".join([_page_line(change), *(f"    {line}" for line in diff.splitlines())])

    def _diff(self, change: PageChange) -> str:
        return self._compared.diff(change).text if change.kind is Kind.CHANGED else ""


class _Items:
    """Changes of items, on their way out."""

    noun = "item"

    def __init__(self, platform: Platform, asked: Asked, run: JobRow, earlier: JobRow) -> None:
        self._compared: ItemComparison = platform.changes.compare_items(run, earlier, asked.key)
        self._asked = asked
        self.sums = Sums()

    def _changes(self) -> Iterator[ItemChange]:
        self.sums = Sums()
        ticker = _Ticker(self.noun)
        for change in self._compared.stream():
            ticker.tick()
            self.sums.note(change.kind, change.host, change.why)
            self.sums.fields.update(change.change.fields.keys())
            if change.kind in self._asked.kinds:
                yield change

    def records(self) -> Iterator[Record]:
        return (change.as_json(self._compared.key) for change in self._changes())

    def rows(self) -> Iterator[Record]:
        """For a file."""
        return (item_row(change, self._compared.key) for change in self._changes())

    def lines(self) -> Iterator[str]:
        return ("\n".join(_item_lines(change, self._compared.key)) for change in self._changes())


def _write(told: _Pages | _Items, asked: Asked) -> None:
    target = asked.output or STDOUT
    kind = check_target(target, asked.format)
    source = source_of_changes(told.rows, items=asked.items, diff=asked.diff)
    if is_whole(target, kind):
        send_file(source, kind, target)
        return
    with open_writer(target, kind, source.names) as writer:
        for batch in source.batches():
            writer.write(record for _, record in batch)


def _print(told: _Pages | _Items, asked: Asked, run: JobRow, earlier: JobRow) -> None:
    """The sums first: for them everything is looked at, and the first changes are kept meanwhile."""
    lines = told.lines()
    first = list(islice(lines, asked.rows))
    more = sum(1 for _ in lines)
    show(_headline(told.sums, run, earlier, told.noun))
    _print_sums(told.sums)
    for line in first:
        show(line)
    if more:
        say(f"… and {counted(more, 'change')} more: --rows {len(first) + more} shows them, --json and -o have all")


def _headline(sums: Sums, run: JobRow, earlier: JobRow, noun: str) -> str:
    told = ", ".join(f"{sums.kinds[kind.value]:,} {kind.value}" for kind in Kind)
    return f"{earlier.id} → {run.id}: {counted(sums.total, noun)}: {told}"


def _print_sums(sums: Sums) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    whys = [f"{kind}: {count:,} {why}" for kind, counts in sums.whys.items() for why, count in counts.most_common(5)]
    if whys:
        show("  " + "; ".join(whys))
    if len(sums.hosts) > 1:
        table = Table(box=box.SIMPLE_HEAD)
        for name in ("host", *Kind):
            table.add_column(name, justify="left" if name == "host" else "right")
        most = sorted(sums.hosts.items(), key=lambda host: host[1][Kind.UNCHANGED] - host[1].total())
        for host, kinds in most[:SHOWN_HOSTS]:
            table.add_row(*cells((host, *(f"{kinds[kind.value]:,}" for kind in Kind))))
        Console().print(table)
    if sums.fields:
        told = (f"{name} {count:,}" for name, count in sums.fields.most_common(SHOWN_FIELDS))
        show(f"  fields that changed: {', '.join(told)}")


def _page_line(change: PageChange) -> str:
    why = " ".join(part for part in (change.why, f"({change.detail})" if change.detail else "") if part)
    return f"{_SIGNS[change.kind]} {change.kind.value:9} {change.page.url}" + (f"  {why}" if why else "")


def _item_lines(change: ItemChange, key: str | None) -> list[str]:
    item = change.change.item
    name = f" {short_value(item.data.get(key))}" if key else f" #{item.number}" if item.number else ""
    why = f"  {change.why}" if change.why else ""
    head = f"{_SIGNS[change.kind]} {change.kind.value:9} {item.url}{name}{why}"
    fields = change.change.fields.items()
    return [head, *(f"    {name}: {short_value(old)} → {short_value(new)}" for name, (old, new) in fields)]
