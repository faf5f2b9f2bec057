"""Workers whose clocks are wrong: times are those of Redis, so nothing changes."""

from __future__ import annotations

import os
from collections import Counter
from contextlib import ExitStack
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.fleet import Fleet
from tests.command import REPOSITORY
from tests.site.generated import SlowSite
from tests.site.server import serve

PAGES = 300
RATE = 60
HOUR = timedelta(hours=1)
OFF_BY_S = (-3_600, 0, 3_600)
BURST = 6 + 5
"""What the frontier allows at once, and what may be late on its way."""

_WRONG_CLOCK = '''
"""Read by every Python that has this folder on its path: its clock is wrong by so many seconds."""
import datetime, os, time

_OFF = int(os.environ["WRONG_BY_S"])
_time, _time_ns, _datetime = time.time, time.time_ns, datetime.datetime


class WrongDatetime(_datetime):
    @classmethod
    def now(cls, tz=None):
        return cls.fromtimestamp(time.time(), tz)

    @classmethod
    def utcnow(cls):
        return cls.now(datetime.timezone.utc).replace(tzinfo=None)


time.time = lambda: _time() + _OFF
time.time_ns = lambda: _time_ns() + _OFF * 10**9
datetime.datetime = WrongDatetime
'''


@pytest.fixture
def clocks(tmp_path: Path) -> Path:
    """A folder that makes a Python's clock wrong."""
    folder = tmp_path / "clocks"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(_WRONG_CLOCK, encoding="utf-8")
    return folder


def test_workers_an_hour_ahead_and_an_hour_behind_change_nothing(fleet: Fleet, clocks: Path) -> None:
    path = os.pathsep.join((str(clocks), str(REPOSITORY / "src"), str(REPOSITORY)))
    with ExitStack() as stack:
        site = stack.enter_context(serve(SlowSite(delay=0.1, pages=PAGES)))
        for off in OFF_BY_S:
            shoal = fleet.shoal(PYTHONPATH=path, WRONG_BY_S=str(off), SHOAL_SOCKETS="3")
            stack.enter_context(shoal.running("worker", "--concurrency", "1"))
        fleet.wait_for_worker(3)
        pace = ("--rate", str(RATE), "--parallel", "9", "--no-robots")
        done = fleet.shoal().run("crawl", site.url, *pace, "--workers", "0", "--json")
        assert done.code == 0, done.err
        job = done.json
        assert (job["state"], job["pages"], job["reconciles"]) == ("finished", PAGES, True)
        asked = Counter(hit.target for hit in site.hits)
        assert set(asked.values()) == {1}
        assert len(asked) == PAGES
        assert _most_in_a_second([hit.at_monotonic for hit in site.hits]) <= RATE + BURST
        moments = [datetime.fromisoformat(row["fetched_at"]) for row in _rows(fleet, job["job"])]
        assert len({round((moment - min(moments)) / HOUR) for moment in moments}) == len(OFF_BY_S)  # all took part


def _rows(fleet: Fleet, job: str) -> list[dict[str, Any]]:
    return fleet.shoal().run("results", job, "--pages").records


def _most_in_a_second(moments: list[float]) -> int:
    moments = sorted(moments)
    return max(sum(1 for other in moments[first:] if other < moment + 1) for first, moment in enumerate(moments))
