"""Room for open files is made at once, and nothing stays open."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

STATUS = Path("/proc/self/status")
pytestmark = pytest.mark.skipif(not STATUS.exists(), reason="only Linux tells how large the table is")
TELL = f"""
import os, re, resource
from pathlib import Path
from shoal.open_files import make_room
before = set(os.listdir("/proc/self/fd"))
LIMIT
make_room(3_000)
assert set(os.listdir("/proc/self/fd")) == before
print(re.search(r"FDSize:\\t(\\d+)", Path("{STATUS}").read_text())[1])
"""


def _room(limit: str) -> int:
    said = subprocess.run(
        [sys.executable, "-c", TELL.replace("LIMIT", limit)], capture_output=True, text=True, check=True
    )
    return int(said.stdout)


def test_there_is_room_for_so_many() -> None:
    assert _room("resource.setrlimit(resource.RLIMIT_NOFILE, (3_000, 3_000))") >= 3_000


def test_there_is_room_for_as_many_as_the_process_may_have() -> None:
    assert 1_000 <= _room("resource.setrlimit(resource.RLIMIT_NOFILE, (1_000, 1_000))") < 3_000


def test_a_process_that_may_open_no_more_goes_on() -> None:
    source = """
import os, resource
from shoal.open_files import make_room
_, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
last = os.open("/", os.O_RDONLY)
resource.setrlimit(resource.RLIMIT_NOFILE, (last + 1, hard))
make_room(300)
"""
    subprocess.run([sys.executable, "-c", source], check=True)
