"""How far memory rises while a million rows are written to a file, and how long that takes."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.result import Row
from tests.postgres import running_postgres

ROWS, QUICK_ROWS = 1_000_000, 20_000
POSTGRES_ROWS, QUICK_POSTGRES_ROWS = 200_000, 2_000
"""Fewer, because they are slow to make."""
MOST_MB = 128.0
LEAST_ROWS = 50_000.0
"""A second, as lines of JSON."""


@dataclass(frozen=True, slots=True)
class Case:
    """What is written, and as what."""

    what: str
    kind: str


CASES = (Case("items", "parquet"), Case("items", "csv"), Case("items", "jsonl"), Case("pages", "jsonl"))


def measure(quick: bool) -> list[Row]:
    """Write all rows of a job, in a process of its own for each format; lines of JSON on PostgreSQL as well."""
    with tempfile.TemporaryDirectory(prefix="shoal-bench-") as name:
        folder = Path(name)
        return [*_on_sqlite(folder, quick), *_on_postgres(folder, quick)]


def _on_sqlite(folder: Path, quick: bool) -> Iterator[Row]:
    count, url = QUICK_ROWS if quick else ROWS, f"sqlite:///{folder / 'shoal.db'}"
    for case in CASES:
        yield from _rows(case, _run(url, folder, case, count), count)


def _on_postgres(folder: Path, quick: bool) -> Iterator[Row]:
    count = QUICK_POSTGRES_ROWS if quick else POSTGRES_ROWS
    with running_postgres() as server:
        url = server.new_database()
        for case in CASES:
            if case.kind == "jsonl":
                yield from _rows(case, _run(url, folder, case, count), count, " on PostgreSQL")


def _run(url: str, folder: Path, case: Case, count: int) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.data.write_rows", url, str(folder), case.what, case.kind, str(count)]
    ended = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(ended.stdout)


def _rows(case: Case, found: dict[str, float], count: int, where: str = "") -> list[Row]:
    if found["rows"] != count:
        raise RuntimeError(f"{found['rows']} of {count} {case.what} were written as {case.kind}")
    named = f"{count:,} {case.what} to {case.kind}{where}"
    note = f"{found['bytes'] / 1e6:,.0f} MB in {found['seconds']:.1f} s"
    rate, bar = count / found["seconds"], LEAST_ROWS if case.kind == "jsonl" else None
    worked = f"{count / found['cpu']:,.0f} a second of processor time"
    return [
        Row(f"{named}: rise of memory", found["rise"] / 1e6, "MB", note, at_most=MOST_MB),
        Row(named, rate, f"{case.what}/s", worked, at_least=bar),
    ]
