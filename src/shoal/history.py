"""How jobs and the fleet have been doing: samples taken by the housekeeping, and charts of the last week.

Whoever keeps house takes the samples, one process at a time; nobody who fetches does anything for it. The frontier's
sums are counters, so samples that were missed cost detail and no truth. A job that is being rebuilt is not looked at
until its sums are right again.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta

from shoal.chores import Chore
from shoal.chores import Window as Turns
from shoal.core.fleet import QueueDepth, WorkerBeat
from shoal.core.frozen import frozen
from shoal.core.history import (
    COARSEST,
    FINEST,
    Point,
    Sample,
    Tier,
    Window,
    chart,
    frequent,
    is_outcome,
    job_sample,
    sum_of,
    tier_of,
)
from shoal.core.host_status import HostStatus
from shoal.core.job_status import JobStatus
from shoal.errors import RedisUnavailable
from shoal.frontier.frontier import Frontier
from shoal.frontier.rebuild import Rebuild
from shoal.frontier.watch import Watch
from shoal.store.history import FLEET, HistoryStore, ItemCount, Taken
from shoal.store.job_rows import JobRow

SAMPLE_EVERY = timedelta(milliseconds=FINEST.step_ms)
TRIM_EVERY = timedelta(minutes=1)
TRIM_BATCHES = 10
MAX_FINE_JOBS = 200
"""Jobs sampled every few seconds; of more, each in its turn, and all once a minute."""
MAX_JOBS = 10_000
"""Jobs sampled once a minute; of more, each in its turn."""
STATUSES_AT_ONCE = 500
HOSTS_LOOKED_AT = 500
"""The last used."""
COUNTED_NOW = 20_000
"""New items that a chart counts while somebody waits for it; the next sample counts all."""


@frozen
class Chart:
    """A window and its points."""

    window: Window
    points: list[Point]


class Sampler:
    """Writes down how everything stands."""

    def __init__(self, frontier: Frontier, watch: Watch, rebuild: Rebuild, store: HistoryStore, keep_rows: int) -> None:
        self._frontier = frontier
        self._watch = watch
        self._rebuild = rebuild
        self._store = store
        self._keep_rows = keep_rows
        self._counted: dict[str, tuple[int, ItemCount]] = {}
        """Job → (pages when its items were counted, those); whoever has no such memory reads it from the samples."""
        self._turns = {FINEST: Turns(MAX_FINE_JOBS), COARSEST: Turns(MAX_JOBS)}

    def chores(self) -> tuple[Chore, ...]:
        return Chore("history", self.sample, SAMPLE_EVERY), Chore("history_trim", self.trim, TRIM_EVERY)

    def sample(self) -> None:
        """One sample of the fleet, and one of each job whose turn it is."""
        now = self._frontier.audit.now_ms()
        tier = tier_of(self._store.newest_ms(), now)
        known = self._frontier.known_jobs()
        living = set(known)
        self._counted = {job: counted for job, counted in self._counted.items() if job in living}
        chosen = self._turns[FINEST if tier is FINEST else COARSEST].next(known)
        self._store.write([self._fleet(now, tier, len(known)), *self._jobs(chosen, tier)])

    def trim(self) -> None:
        """Remove samples that are too old or too many."""
        for _ in range(TRIM_BATCHES):
            if not self._store.trim(self._frontier.audit.now_ms(), self._keep_rows):
                return

    def _jobs(self, jobs: Sequence[str], tier: Tier) -> Iterator[Taken]:
        for start in range(0, len(jobs), STATUSES_AT_ONCE):
            some = jobs[start : start + STATUSES_AT_ONCE]
            standing = _standing(self._frontier, self._rebuild, some)
            self._remember([status.job for status in standing if status.job not in self._counted])
            for status in standing:
                counted = self._count(status)
                yield Taken(status.job, job_sample(status, counted.items), tier, counted)

    def _remember(self, jobs: Sequence[str]) -> None:
        known = self._store.counted(jobs) if jobs else {}
        self._counted |= {job: (-1, known.get(job, ItemCount())) for job in jobs}

    def _count(self, status: JobStatus) -> ItemCount:
        """Items are stored before their pages count: a job without new pages has no new items."""
        pages, counted = self._counted[status.job]
        if status.counters.done != pages:
            counted = self._store.count_items(status.job, counted)
            self._counted[status.job] = (status.counters.done, counted)
        return counted

    def _fleet(self, now_ms: int, tier: Tier, jobs: int) -> Taken:
        before = self._store.counted([FLEET]).get(FLEET)
        counted = self._store.count_items(FLEET, before) if before else ItemCount(0, self._store.last_item())
        stats, queues, workers = self._watch.stats(), self._watch.queues(), self._watch.workers()
        sample = Sample(
            now_ms,
            {**_sums(stats), "items": counted.items},
            {
                "jobs": jobs,
                **_places(queues),
                **_crew(workers),
                "redis_memory_bytes": self._watch.load().memory,
                **_hosts(self._watch.hosts(HOSTS_LOOKED_AT)),
            },
            frequent({name: count for name, count in stats.items() if is_outcome(name)}),
        )
        return Taken(FLEET, sample, tier, counted)


class History:
    """Charts of what was sampled; also while Redis is away."""

    def __init__(self, frontier: Frontier, rebuild: Rebuild, store: HistoryStore) -> None:
        self._frontier = frontier
        self._rebuild = rebuild
        self._store = store

    def now_ms(self) -> int:
        """By the clock of the samples."""
        try:
            return self._frontier.audit.now_ms()
        except RedisUnavailable:
            return time.time_ns() // 1_000_000

    def age_s(self) -> float | None:
        """Seconds since the last sample; None when there is none."""
        newest = self._store.newest_ms()
        return None if newest is None else max(0, self.now_ms() - newest) / 1_000

    def job(self, row: JobRow, since_ms: int | None, until_ms: int | None, points: int) -> Chart:
        """A job from its beginning, with how it stands now, or stood at its end."""
        now = self.now_ms()
        end = row.status.ended_ms if row.status and row.state.ended else None
        window = _window(since_ms or row.created_ms, until_ms or (end or now) + 1, points)
        samples = self._store.read(row.id, window)
        if not samples or window.from_ms <= row.created_ms < samples[0].at_ms:
            samples.insert(0, Sample(row.created_ms))
        last = self._last(row)
        if last and last.at_ms > samples[-1].at_ms:
            samples.append(last)
        return Chart(window, chart(samples, window, now))

    def fleet(self, since_ms: int | None, until_ms: int | None, points: int) -> Chart:
        """Everything together; of the last hour, unless somebody says otherwise."""
        now = self.now_ms()
        until = until_ms or now
        window = _window(since_ms or until - FINEST.kept_ms, until, points)
        return Chart(window, chart(self._store.read(FLEET, window), window, now))

    def _last(self, row: JobRow) -> Sample | None:
        """How the job stands; None when that is not known, or not right yet."""
        status = row.status
        if status is None or not (row.state.ended or _is_whole(self._rebuild, row.id)):
            return None
        counted = self._store.counted([row.id]).get(row.id, ItemCount())
        return job_sample(status, self._store.count_items(row.id, counted, COUNTED_NOW).items)


def _window(since_ms: int, until_ms: int, points: int) -> Window:
    """Nothing is older than what is kept."""
    return Window.of(max(since_ms, until_ms - COARSEST.kept_ms), until_ms, points)


def _standing(frontier: Frontier, rebuild: Rebuild, jobs: Sequence[str]) -> list[JobStatus]:
    """Of these, the jobs that live and whose sums are right; they are asked for their place after their sums."""
    statuses = frontier.statuses(jobs)
    places = rebuild.places(jobs)
    return [
        status for status, place in zip(statuses, places, strict=True) if status and place == "" and not status.ended_ms
    ]


def _is_whole(rebuild: Rebuild, job: str) -> bool:
    try:
        return rebuild.places([job]) == [""]
    except RedisUnavailable:
        return False


def _sums(stats: Mapping[str, int]) -> dict[str, int]:
    redirects = stats.get("done:redirect", 0)
    return {
        "pages": sum_of("done", stats) - redirects,
        "redirects": redirects,
        "errors": sum_of("dead", stats),
        "retries": sum_of("retry", stats),
        "robots": sum_of("robots", stats),
        "filtered": sum_of("filtered", stats),
        "received": stats.get("received", 0),
        "leases_reaped": stats.get("reaped", 0),
        "fence_refusals": stats.get("late", 0),
        "slices": stats.get("slices", 0),
    }


def _places(queues: Sequence[QueueDepth]) -> dict[str, int]:
    """What waits in all, and in each queue that has something."""
    sums = {
        "queued": sum(depth.queued for depth in queues),
        "delayed": sum(depth.delayed for depth in queues),
        "leased": sum(depth.leased for depth in queues),
    }
    for depth in queues:
        each = {"queued": depth.queued, "delayed": depth.delayed, "leased": depth.leased}
        sums |= {f"{place}:{depth.queue}": count for place, count in each.items() if count}
    return sums


def _crew(workers: Sequence[WorkerBeat]) -> dict[str, int]:
    return {
        "workers": len(workers),
        "processes": sum(beat.processes for beat in workers),
        "slices_active": sum(beat.active for beat in workers),
    }


def _hosts(hosts: Sequence[HostStatus]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for host in hosts:
        counts[f"hosts:{host.state}"] = counts.get(f"hosts:{host.state}", 0) + 1
    return counts
