"""How often the database is asked: SQL statements of a whole `shoal crawl`, from its start to its end."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks import server
from benchmarks.launch import REPOSITORY, environment
from benchmarks.result import Row

PAGES, PAGES_QUICK = 20_000, 1_000
DEADLINE_S = 180.0
MAX_PER_1000 = 50.0
COUNTING = REPOSITORY / "benchmarks" / "counting"


def measure(quick: bool) -> list[Row]:
    """With archive and without; one worker process."""
    pages = PAGES_QUICK if quick else PAGES
    with server.serve([pages]) as sites:
        with_archive, without = _count(sites[pages]), _count(sites[pages], "--no-archive")
    name, note = "SQL statements for 1,000 pages", f"a crawl of {pages:,} pages, from its start to its end"
    return [
        Row(name, without / pages * 1000, "statements", note, MAX_PER_1000),
        Row(f"{name}, with archive", with_archive / pages * 1000, "statements", note, MAX_PER_1000),
    ]


def _count(url: str, *options: str) -> int:
    command = [sys.executable, "-m", "shoal", "crawl", url, "--rate", "unlimited", "--no-robots", "--quiet"]
    with tempfile.TemporaryDirectory(prefix="shoal-bench-home-") as home:
        counted = Path(home) / "statements"
        plain = environment({"SHOAL_HOME": home, "COUNTED_STATEMENTS": str(counted)})
        env = plain | {"PYTHONPATH": os.pathsep.join([str(COUNTING), plain["PYTHONPATH"]])}
        subprocess.run(
            [*command, "--workers", "1", *options],
            env=env,
            cwd=REPOSITORY,
            timeout=DEADLINE_S,
            check=True,
            capture_output=True,
        )
        return counted.stat().st_size
