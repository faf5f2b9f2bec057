"""`python -m tests.publisher DATABASE TARGET RUNS ROWS`: delivers run after run, to be killed at any moment.

Whoever starts it again goes on with the run that it was killed in.
"""

from __future__ import annotations

import sys
import time
from datetime import timedelta

from shoal.core.job_status import Counters, JobStatus
from shoal.core.model import JobState
from shoal.core.output import Allowed, OutputSettings
from shoal.core.spec import JobSpec
from shoal.output import delivery, owner
from shoal.output import runs as known_runs
from shoal.output.delivery import Deliverer
from shoal.store.database import open_database
from shoal.store.deliveries import Deliveries, DeliveryState
from shoal.store.items import ItemRow
from shoal.store.job_rows import NewJob
from shoal.store.jobs import JobStore
from shoal.store.pages import PageStore

GRACE_S = 3


def main() -> None:
    database, target, runs, rows = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    owner.OWNED = timedelta(0)  # who was killed is followed at once
    delivery.PART_ROWS = max(1, rows // 4)
    known_runs.GRACE_S = GRACE_S  # old runs are removed while readers read
    engine = open_database(database)
    jobs, pages, deliveries = JobStore(engine), PageStore(engine), Deliveries(engine)
    deliverer = Deliverer(jobs, pages, deliveries, _now_ms, Allowed())
    for number in range(runs):
        job = f"run{number:04d}"
        if jobs.get(job) is None:
            _make(jobs, pages, job, number, target, rows)
        _end(jobs, job)  # once more: it may have been killed before
        (one,) = deliveries.of_job(job)
        if one.state is not DeliveryState.DELIVERED:
            print(job, flush=True)  # from here on it is at work
        while one.state is not DeliveryState.DELIVERED:
            deliverer.deliver(one.id)
            (one,) = deliveries.of_job(job)


def _make(jobs: JobStore, pages: PageStore, job: str, number: int, target: str, rows: int) -> None:
    items = [
        ItemRow(job, place, 0, f"http://shop.example/{place}", {"run": number, "n": place}) for place in range(rows)
    ]
    pages.write([], items, [])
    output = OutputSettings(to=target, format="jsonl", keep=2)
    jobs.create(NewJob(job, JobSpec(fields={"run": "h1", "n": ".n"}, output=output), 1_000 + number))


def _end(jobs: JobStore, job: str) -> None:
    jobs.record(
        JobStatus(
            job=job,
            state=JobState.FINISHED,
            counters=Counters(),
            reasons={},
            slowest=(),
            started_ms=1,
            ended_ms=2,
            now_ms=2,
        )
    )


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


if __name__ == "__main__":
    main()
