"""Shows and saves results: tables on the terminal, the same as Markdown, and everything as JSON."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.table import Table

from benchmarks.bars import BASE, Verdict, judge, ratio
from benchmarks.lineup import CONTENDERS, Contender
from benchmarks.machine import Machine
from benchmarks.result import Reading, Results, Row

WIDTH = 130
FOLDER = Path(__file__).resolve().parent / "results"


@dataclass(frozen=True, slots=True)
class Grid:
    """A table as plain text: its head and its lines."""

    title: str
    head: tuple[str, ...]
    lines: tuple[tuple[str, ...], ...]


def show(results: Results) -> None:
    """Print the tables."""
    console = _console()
    for grid in _grids(results):
        console.print(_rich(grid))
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
        *("contender", "pages", "pages/s", "spread", f"{BASE} is", "CPU s/1k"),
        *("Redis trips/1k", "Redis cmds/1k", "peak MB"),
    )
    lines = tuple(
        _line(contender, readings, results) for contender in CONTENDERS if (readings := results.of(contender.name))
    )
    return Grid("Medians over the rounds", head, lines)


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
        _middle([reading.round_trips_per_1000 for reading in readings]),
        _middle([reading.commands_per_1000 for reading in readings]),
        f"{median(reading.peak_bytes for reading in readings) / 1e6:,.0f}",
    )


def _middle(values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    return f"{median(known):,.0f}" if known else "–"


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
    return f"**{grid.title}**\n\n{lines}"
