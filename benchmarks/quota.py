"""A share of the processors: what a contender with all its processes may take, whatever else the machine has free.

On two cores, two workers, a web server and Redis have to share: nobody can see there whether two workers are twice as
fast as one. With half a core for each worker he can. The kernel's control groups keep the share; they are for root.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from functools import cache
from itertools import count
from pathlib import Path

PERIOD_US = 20_000
"""In which the share is given out: so long at most, a process that has had all of it waits for more."""
GROUPS = Path("/sys/fs/cgroup")
CLASSIC = GROUPS / "cpu"
"""Where the groups of version 1 are."""
TRIES, PAUSE_SECONDS = 50, 0.02
_numbers = count()
"""Each crawl has a group of its own: who is left of one must not take the next one's share."""


@cache
def can_limit() -> bool:
    """Whether shares can be kept here: one is tried."""
    with suppress(OSError, subprocess.SubprocessError), limited(1.0) as join:
        return subprocess.run([sys.executable, "-c", ""], preexec_fn=join, check=False).returncode == 0
    return False


@contextmanager
def limited(cores: float | None) -> Generator[Callable[[], None]]:
    """A group with this share; what is given has the process that calls it join, with all that it will start."""
    if cores is None:
        yield lambda: None
        return
    folder = (CLASSIC if CLASSIC.is_dir() else GROUPS) / f"shoal-bench-{os.getpid()}-{next(_numbers)}"
    members = folder / "cgroup.procs"
    folder.mkdir()
    try:
        quota = round(cores * PERIOD_US)
        if CLASSIC.is_dir():
            (folder / "cpu.cfs_period_us").write_text(str(PERIOD_US))
            (folder / "cpu.cfs_quota_us").write_text(str(quota))
        else:
            (folder / "cpu.max").write_text(f"{quota} {PERIOD_US}")
        yield lambda: _join(members)
    finally:
        _remove(folder)


def _remove(folder: Path) -> None:
    """Whoever is still in it is about to end."""
    for _ in range(TRIES):
        try:
            folder.rmdir()
        except OSError:
            time.sleep(PAUSE_SECONDS)
        else:
            return
    print(f"{folder} is left: somebody is still in it", file=sys.stderr, flush=True)


def _join(members: Path) -> None:
    members.write_text(str(os.getpid()))
