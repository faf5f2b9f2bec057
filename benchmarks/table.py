"""Shows and saves results: tables on the terminal, the same as Markdown, and everything as JSON."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.table import Table

from benchmarks.bars import BASE, Verdict, judge, ratio
from benchmarks.launch import Contender
from benchmarks.lineup import CONTENDERS
from benchmarks.machine import Machine
from benchmarks.result import Reading, Results, Row

WIDTH = 140
START_TWICE = 1
"""Scrapy fetches its start page twice."""
FOLDER = Path(__file__).resolve().parent / "results"


@dataclass(frozen=True, slots=True)
class Grid:
    """A table as plain text: its head and its lines."""

    title: str
    head: tuple[str, ...]
    lines: tuple[tuple[str, ...], ...]
    note: str = ""


def show(results: Results) -> None:
    """Print the tables."""
    console = _console()
    for grid in _grids(results):
        console.print(_rich(grid))
        if grid.note:
            console.print(grid.note, markup=False)
    for failure in results.failures:
        console.print(f"{failure.contender}, round {failure.round}: {failure.reason}", style="red", markup=False)


def save(results: Results, machine: Machine, *, name: str) -> None:
    """Write the results as `{name}.json` and `{name}.md`."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    verdicts = [asdict(verdict) for verdict in judge(results)]
    content = {"machine": asdict(machine), **asdict(results), "verdicts": verdicts}
    text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
    (FOLDER / f"{name}.json").write_text(text, encoding="utf-8")
    (FOLDER / f"{name}.md").write_text(_markdown(results, machine), encoding="utf-8")


def _console() -> Console:
    # Without a terminal the width is a guess of 80 columns, and figures would be cut off.
    console = Console()
    return console if console.is_terminal else Console(width=WIDTH)


def _grids(results: Results) -> Iterator[Grid]:
    if results.readings:
        yield _contenders(results)
    if results.sized:
        yield _sizes(results)
    if results.rows:
        yield _rows("Other figures", results.rows)
    if results.api_rows:
        yield _rows("The control plane", results.api_rows)
    if results.polite_rows:
        yield _rows("Politeness", results.polite_rows)
    if results.hostile_rows:
        yield _rows("A hostile web", results.hostile_rows)
    if results.browser_rows:
        yield _rows("Rendered pages", results.browser_rows)
    if results.data_rows:
        yield _rows("From pages to data", results.data_rows)
    if results.time_rows:
        yield _rows("Over time", results.time_rows)
    yield _bars(judge(results))


def _contenders(results: Results) -> Grid:
    head = (
        *("contender", "pages", "pages/s", "spread", f"{BASE} is", "CPU s/1k", "peak MB", "first fetch s"),
        *("Redis calls/page", "Redis bytes/page"),
    )
    lines = tuple(
        _line(contender, readings, results) for contender in CONTENDERS if (readings := results.of(contender.name))
    )
    return Grid(f"Pages of {results.readings[0].kb} KB, medians over the rounds", head, lines, _smaller(results))


def _smaller(results: Results) -> str:
    """Who has less to remember than Shoal, and so needs less memory than on the same site."""
    pages = {contender.name: found[0].pages for contender in CONTENDERS if (found := results.of(contender.name))}
    most = max(pages.values())
    names = ", ".join(f"{name} ({count:,})" for name, count in pages.items() if count < most - START_TWICE)
    return f"On a smaller site, with fewer URLs to keep in memory: {names}." if names else ""


def _sizes(results: Results) -> Grid:
    """A line for each contender and size."""
    readings = (*results.readings, *results.sized)
    lines = tuple(
        _size_line(name, [one for one in readings if (one.contender, one.kb) == (name, kb)])
        for name in dict.fromkeys(one.contender for one in results.sized)
        for kb in sorted({one.kb for one in readings if one.contender == name})
    )
    return Grid("Sizes of pages", ("contender", "KB", "pages", "pages/s", "MB/s", "CPU s/1k", "peak MB"), lines)


def _size_line(name: str, readings: Sequence[Reading]) -> tuple[str, ...]:
    rate, kb = median(reading.pages_per_second for reading in readings), readings[0].kb
    return (
        name,
        str(kb),
        f"{readings[0].pages:,}",
        f"{rate:,.0f}",
        f"{rate * kb / 1000:,.1f}",
        f"{median(reading.cpu_seconds_per_1000 for reading in readings):.2f}",
        f"{median(reading.peak_bytes for reading in readings) / 1e6:,.0f}",
    )


def _line(contender: Contender, readings: Sequence[Reading], results: Results) -> tuple[str, ...]:
    rates = [reading.pages_per_second for reading in readings]
    times = ratio(results, BASE, contender.name)
    return (
        contender.name,
        f"{readings[0].pages:,}",
        f"{median(rates):,.0f}",
        f"{min(rates):,.0f}–{max(rates):,.0f}",
        "–" if times is None else f"{times:.2f} ×",
        f"{median(reading.cpu_seconds_per_1000 for reading in readings):.2f}",
        f"{median(reading.peak_bytes for reading in readings) / 1e6:,.0f}",
        _middle([reading.first_fetch_seconds for reading in readings], ".2f"),
        _middle([reading.round_trips_a_page for reading in readings], ",.2f"),
        _middle([reading.redis_bytes_a_page for reading in readings], ",.0f"),
    )


def _middle(values: Sequence[float | None], shape: str) -> str:
    known = [value for value in values if value is not None]
    return format(median(known), shape) if known else "–"


def _rows(title: str, rows: Sequence[Row]) -> Grid:
    lines = tuple((row.name, f"{row.value:,.1f} {row.unit}", row.note) for row in rows)
    return Grid(title, ("what", "value", "note"), lines)


def _bars(verdicts: Sequence[Verdict]) -> Grid:
    lines = tuple((v.name, v.wanted, "–" if v.measured is None else f"{v.measured:.2f}", v.word) for v in verdicts)
    return Grid("Bars", ("bar", "wanted", "measured", "verdict"), lines)


def _rich(grid: Grid) -> Table:
    table = Table(title=grid.title, title_justify="left")
    for number, name in enumerate(grid.head):
        table.add_column(name, justify="right" if number else "left")
    for line in grid.lines:
        table.add_row(*line)
    return table


def _markdown(results: Results, machine: Machine) -> str:
    versions = ", ".join(f"{name} {found}" for name, found in machine.versions.items())
    where = f"{machine.cpu}, {machine.cores} cores, {machine.memory_gb:g} GB, {machine.kernel}"
    return (
        "\n\n".join(
            [
                f"{machine.date}; {where}.",
                f"{versions}.",
                *(_markdown_grid(grid) for grid in _grids(results)),
                *(f"{f.contender}, round {f.round}: failed." for f in results.failures),
            ]
        ).rstrip()
        + "\n"
    )


def _markdown_grid(grid: Grid) -> str:
    rule = ("---", *("---:" for _ in grid.head[1:]))
    lines = "\n".join(f"| {' | '.join(line)} |" for line in (grid.head, rule, *grid.lines))
    return "\n\n".join(part for part in (f"**{grid.title}**", lines, grid.note) if part)
