"""A reader of `latest` sees one whole set at any moment, however often publishers are killed."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.command import REPOSITORY
from tests.long import LONG
from tests.s3 import S3

RUNS = 50 if LONG else 4
ROWS = 400
LIVES_S = 0.5
"""At the most: about as long as it takes a slow machine to publish a set or two."""


def look(read: Callable[[str], bytes]) -> int:
    """Follow the pointer as a reader does; which run was seen, whole, or -1 when there is none yet."""
    try:
        latest = json.loads(read("latest.json"))
    except FileNotFoundError:
        return -1
    rows = [json.loads(line) for part in latest["parts"] for line in read(part["path"]).splitlines()]
    assert len(rows) == latest["rows"] == ROWS
    (run,) = {row["run"] for row in rows}
    assert {row["n"] for row in rows} == set(range(ROWS))
    assert latest["run"] == f"run{run:04d}"
    return run


@dataclass
class Tally:
    """What a reader went through."""

    kills: int = 0
    looks: int = 0
    sets: set[int] = field(default_factory=set[int])
    """Runs that were seen."""


def publish_under_kills(
    database: Path, target: str, read: Callable[[str], bytes], environment: dict[str, str]
) -> Tally:
    """A publisher after the other, each killed at any moment, at the latest when it has published a set, until all runs
    are out."""
    command = [sys.executable, "-m", "tests.publisher", f"sqlite:///{database}", target, str(RUNS), str(ROWS)]
    given = {**os.environ, **environment, "PYTHONPATH": f"{REPOSITORY / 'src'}:{REPOSITORY}"}
    luck, seen, tally = random.Random(7), -1, Tally()
    deadline = time.monotonic() + (900 if LONG else 300)
    while seen < RUNS - 1:
        assert time.monotonic() < deadline
        process = subprocess.Popen(command, env=given, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert process.stdout is not None
        process.stdout.readline()  # it is at work: from here on it is killed at any moment
        begun, end = seen, time.monotonic() + luck.uniform(0.0, LIVES_S)
        while seen == begun and time.monotonic() < end and process.poll() is None:
            now = look(read)
            assert now >= seen
            seen = now
            tally.looks += 1
            tally.sets.add(seen)
        tally.kills += process.poll() is None
        process.kill()
        process.wait()
        process.stdout.close()
        seen = max(seen, look(read))
    return tally


@pytest.mark.parametrize("kind", ["folder", "s3"])
def test_a_reader_never_sees_a_part_of_a_set_or_a_mixture(
    request: pytest.FixtureRequest, tmp_path: Path, kind: str
) -> None:
    if kind == "folder":
        root = tmp_path / "out"
        tally = publish_under_kills(tmp_path / "a.db", f"file://{root}/", lambda name: (root / name).read_bytes(), {})
    else:
        server: S3 = request.getfixturevalue("s3")
        bucket = server.new_bucket()
        tally = publish_under_kills(
            tmp_path / "a.db", f"s3://{bucket}/x/", lambda name: server.get(bucket, f"x/{name}"), server.environment
        )
    print(f"{kind}: {RUNS} sets, {tally.kills} kills, {tally.looks} looks at {len(tally.sets)} sets")
    assert tally.kills >= RUNS // 2
