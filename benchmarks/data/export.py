"""How far memory rises while a million items are written to a file, and how long that takes."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.result import Row

ITEMS, QUICK_ITEMS = 1_000_000, 20_000
FORMATS = ("parquet", "csv")
MOST_MB = 128.0


def measure(quick: bool) -> list[Row]:
    """Write all items of a job on SQLite, in a process of its own for each format."""
    count = QUICK_ITEMS if quick else ITEMS
    with tempfile.TemporaryDirectory(prefix="shoal-bench-") as folder:
        return [row for kind in FORMATS for row in _rows(_run(Path(folder), kind, count), kind, count)]


def _run(folder: Path, kind: str, count: int) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.data.write_items", str(folder), kind, str(count)]
    ended = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(ended.stdout)


def _rows(found: dict[str, float], kind: str, count: int) -> list[Row]:
    if found["rows"] != count:
        raise RuntimeError(f"{found['rows']} of {count} items were written as {kind}")
    note = f"{found['bytes'] / 1e6:,.0f} MB in {found['seconds']:.1f} s"
    return [
        Row(f"{count:,} items to {kind}: rise of memory", found["rise"] / 1e6, "MB", note, at_most=MOST_MB),
        Row(f"{count:,} items to {kind}", count / found["seconds"], "items/s"),
    ]
