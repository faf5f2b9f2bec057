"""Three beats with housekeepers, killed again and again, on a clock that jumps: every slot once, by its policy."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import islice, pairwise
from pathlib import Path

import psutil
import pytest

from shoal.core.schedule import GRACE, CatchUp, Kind, Overlap
from shoal.core.spec import read_spec
from shoal.frontier.frontier import Frontier
from shoal.schedules.book import read_timing
from shoal.settings import Settings
from shoal.store.job_rows import JobRow
from shoal.store.jobs import JobFilter
from shoal.store.schedule_runs import RunRow, RunState
from shoal.store.schedules import NewSchedule, ScheduleRow
from shoal.wiring import Platform, no_ring, redis_urls
from tests.chaos.fleet import Fleet
from tests.chaos.schedule_keeper import CLOCK, clock_of
from tests.long import LONG
from tests.waiting import wait_until

SEED = 11
KEEPERS = 3
SPEED = 120
EVERY = timedelta(minutes=10)
SLOTS = 30 if LONG else 10
POLICIES = [(catch_up, overlap) for catch_up in CatchUp for overlap in Overlap]
SCHEDULES = 27 if LONG else 20
KILL_EVERY_S = (3.0, 6.0)
JOBS_LIVE_S = (0.5, 6.0)
AHEAD, BACK = timedelta(minutes=35), timedelta(minutes=25)
SOON = timedelta(minutes=3)


@dataclass
class Clock:
    """What schedules take for the time, for all processes."""

    file: Path
    now_ms: Callable[[], int] = field(init=False)

    def __post_init__(self) -> None:
        self.now_ms = clock_of(self.file, _real_ms)
        self._write(_real_ms())

    def jump(self, by: timedelta) -> None:
        self._write(self.now_ms() + by // timedelta(milliseconds=1))

    def _write(self, shown_ms: int) -> None:
        fresh = self.file.with_suffix(".new")
        fresh.write_text(f"{_real_ms()} {shown_ms} {SPEED}", encoding="utf-8")
        fresh.replace(self.file)


def _real_ms() -> int:
    return time.time_ns() // 1_000_000


@dataclass
class Keepers:
    """Processes that beat and keep house, until they are killed."""

    environment: dict[str, str]
    living: list[subprocess.Popen[bytes]] = field(default_factory=list[subprocess.Popen[bytes]])
    kills: int = 0

    def start(self) -> None:
        script = Path(__file__).with_name("schedule_keeper.py")
        arguments = [sys.executable, str(script), "worker", "--queues", "control", "--beat"]
        quiet = subprocess.DEVNULL
        self.living.append(subprocess.Popen(arguments, env=self.environment, stdin=quiet, stdout=quiet, stderr=quiet))

    def kill(self, which: int) -> None:
        """With all its processes, at once."""
        process = self.living.pop(which)
        for one in [*psutil.Process(process.pid).children(recursive=True), psutil.Process(process.pid)]:
            _kill(one)
        process.wait()
        self.kills += 1


def _kill(process: psutil.Process) -> None:
    try:
        process.kill()
    except psutil.NoSuchProcess:
        return


@pytest.fixture
def platform(fleet: Fleet) -> Generator[Platform]:
    settings = Settings(home=fleet.home, redis_url=fleet.url, prefix=fleet.prefix)
    fleet.home.mkdir(exist_ok=True)
    platform = Platform.open(settings, Frontier.at(redis_urls(settings).frontier, settings.prefix), no_ring)
    yield platform
    platform.close()


@pytest.fixture
def keepers(fleet: Fleet, tmp_path: Path) -> Generator[Keepers]:
    path = os.pathsep.join(("src", "."))
    keepers = Keepers(fleet.shoal(PYTHONPATH=path, **{CLOCK: str(tmp_path / "clock")}).environment)
    yield keepers
    while keepers.living:
        keepers.kill(0)


def test_every_slot_is_decided_once_by_its_policy(
    platform: Platform, keepers: Keepers, tmp_path: Path, fleet: Fleet
) -> None:
    clock, chance = Clock(tmp_path / "clock"), random.Random(SEED)
    for _ in range(KEEPERS):
        keepers.start()
    fleet.wait_for_worker(KEEPERS)
    made = [_add(platform, clock, number) for number in range(SCHEDULES)]
    slots = {row.id: list(islice(row.calendar.after(row.cursor_ms), SLOTS + 1)) for row in made}
    assert sum(map(len, slots.values())) == SCHEDULES * SLOTS >= 200
    _live(platform, clock, keepers, chance, max(map(max, slots.values())))
    for row in made:
        _check(platform, row, slots[row.id])
    assert keepers.kills >= 4


def _add(platform: Platform, clock: Clock, number: int) -> ScheduleRow:
    catch_up, overlap = POLICIES[number % len(POLICIES)]
    now = clock.now_ms()
    start = now + (number + 1) * EVERY // timedelta(milliseconds=SCHEDULES)  # not all at once
    timing = read_timing(
        {
            "every": EVERY.total_seconds(),
            "start": _iso(start),
            "end": _iso(start + (SLOTS - 1) * EVERY // timedelta(milliseconds=1)),
            "jitter": 60 if number % 2 else 0,
            "catch_up": catch_up,
            "overlap": overlap,
        }
    )
    job = read_spec({"urls": ["http://shop.example/"], "follow": False})
    return platform.schedules.store.add(NewSchedule("default", f"s{number}", timing, job), now)


def _iso(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000).astimezone().isoformat()


def _live(platform: Platform, clock: Clock, keepers: Keepers, chance: random.Random, last_ms: int) -> None:
    """Processes die and come back, jobs end, the clock jumps ahead and back, until all slots have passed."""
    jumps = {1 / 4: AHEAD, 1 / 2: -BACK, 3 / 4: AHEAD, 7 / 8: -BACK}
    begun, kill_at = clock.now_ms(), time.monotonic() + KILL_EVERY_S[1]
    ends: dict[str, float] = {}

    def over() -> bool:
        nonlocal kill_at
        passed = (clock.now_ms() - begun) / (last_ms - begun)
        for part in [part for part in jumps if passed > part]:
            clock.jump(jumps.pop(part))
        if time.monotonic() > kill_at and passed < 1:
            keepers.kill(chance.randrange(len(keepers.living)))
            keepers.start()
            kill_at = time.monotonic() + chance.uniform(*KILL_EVERY_S)
        _end_jobs(platform, ends, chance)
        return passed > 1 and not jumps and _all_decided(platform)

    wait_until(over, within=SOON * (4 if LONG else 1))


def _end_jobs(platform: Platform, ends: dict[str, float], chance: random.Random) -> None:
    """There is no worker that fetches: jobs live for a while, and are ended."""
    now = time.monotonic()
    for job in platform.jobs.living():
        if now > ends.setdefault(job, now + chance.uniform(*JOBS_LIVE_S)):
            platform.control.cancel(job)


def _all_decided(platform: Platform) -> bool:
    listed = platform.schedules.book.list(None, 100)
    return all(each.row.next_ms is None and not platform.schedules.runs.under_way(each.row.id) for each in listed)


# --- verdict ---------------------------------------------------------------------------------------------------------


def _check(platform: Platform, row: ScheduleRow, slots: Sequence[int]) -> None:
    runs = platform.schedules.runs.newest(row.id, 10 * SLOTS)[::-1]
    assert [run.slot_ms for run in runs] == list(slots), "each slot has one row"
    jobs = platform.jobs.newest(1_000, JobFilter(label=f"schedule:{row.name}"))
    started = [run.job for run in runs if run.job]
    assert Counter(started) == Counter(job.id for job in jobs), (
        "each run that was started has one job, and no job is left"
    )
    assert len(set(started)) == len(started)
    batches: dict[int, list[RunRow]] = defaultdict(list)
    for run in runs:
        assert run.state in (RunState.CANCELLED, RunState.FINISHED, RunState.SKIPPED), run
        assert bool(run.job) == (run.state is not RunState.SKIPPED)
        batches[run.planned_ms].append(run)
    for planned_ms, batch in batches.items():
        _check_catch_up(row, planned_ms, batch)
    for run in runs:
        _check_overlap(row, run)
    _check_one_at_a_time(jobs)


def _check_catch_up(row: ScheduleRow, planned_ms: int, batch: Sequence[RunRow]) -> None:
    """Those that were decided about together: which were missed, and what becomes of these."""
    assert all(run.due_ms <= planned_ms for run in batch), "none before its time"
    on_time = planned_ms - batch[-1].due_ms <= GRACE // timedelta(milliseconds=1)
    missed = list(batch[:-1] if on_time else batch)
    wanted = {CatchUp.SKIP: 0, CatchUp.ONCE: 0 if on_time else 1, CatchUp.ALL: len(missed)}[row.timing.catch_up]
    caught = missed[len(missed) - wanted :]
    assert all(run.reason == "missed" for run in missed[: len(missed) - wanted])
    assert all(run.kind is Kind.CATCH_UP and run.reason != "missed" for run in caught)
    assert not on_time or (batch[-1].kind is Kind.SLOT and batch[-1].reason != "missed")


def _check_overlap(row: ScheduleRow, run: RunRow) -> None:
    if run.state is not RunState.SKIPPED or run.reason == "missed":
        return
    allowed = {Overlap.SKIP: "overlap", Overlap.QUEUE: None, Overlap.CANCEL: "superseded"}[row.timing.overlap]
    assert run.reason == allowed, run
    assert run.kind is Kind.SLOT or row.timing.overlap is Overlap.CANCEL, "what is caught up with waits"


def _check_one_at_a_time(jobs: Sequence[JobRow]) -> None:
    """Whatever the policy: two runs of a schedule never go on at once."""
    for before, after in pairwise(sorted(jobs, key=lambda job: job.created_ms)):
        assert before.status is not None
        assert before.status.ended_ms is not None
        assert before.status.ended_ms <= after.created_ms + 5
