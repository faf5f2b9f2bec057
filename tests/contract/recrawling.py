"""A platform with a worker's own tools in this process: jobs are submitted, and run to their end slice by slice."""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import sqlalchemy as sa

from shoal.core.job_status import JobStatus
from shoal.core.model import JobState
from shoal.core.spec import JobSpec
from shoal.frontier.frontier import Frontier
from shoal.frontier.scripts import connect
from shoal.intake.intake import Origin
from shoal.settings import Settings
from shoal.store import tables
from shoal.store.archive import Exchange
from shoal.store.page_rows import PageRow
from shoal.wiring import Platform, no_ring, redis_urls
from shoal.worker.app import make_app
from shoal.worker.doorbell import Doorbell
from shoal.worker.runtime import Lifeline, Runtime
from tests.guards import HERE


@dataclass(frozen=True)
class Ground:
    """All parts of a fleet of one process."""

    platform: Platform
    runtime: Runtime

    def submit(self, *urls: str, tenant: str = "default", **settings: Any) -> str:
        """Politeness is off, unless the test says otherwise."""
        values = {"urls": list(urls), "rate": "unlimited", "robots": False, "fields": {"title": "h1"}, **settings}
        return self.platform.intake.submit(JobSpec.model_validate(values), Origin(tenant=tenant)).job

    def crawl(self, *urls: str, tenant: str = "default", **settings: Any) -> str:
        """A job that has run to its end."""
        job = self.submit(*urls, tenant=tenant, **settings)
        self.finish(job)
        return job

    def finish(self, job: str) -> JobStatus:
        """Slices until a job has ended."""
        for _ in range(50):
            self.runtime.answer("http.batch")
            status = self.status(job)
            if status.state.ended:
                assert status.state is JobState.FINISHED
                assert status.reconciles
                return status
        raise AssertionError(f"job {job} does not end: {self.status(job)}")

    def status(self, job: str) -> JobStatus:
        return self.platform.control.status(job)

    def pages(self, job: str) -> dict[str, PageRow]:
        """By the path of their URLs."""
        return {"/" + row.url.split("/", 3)[3]: row for row in self.platform.pages.pages(job)}

    def reused(self, job: str) -> dict[str, str | None]:
        return {path: row.reused for path, row in self.pages(job).items()}

    def items(self, job: str) -> list[tuple[str, int, str]]:
        """Without what tells one job from another."""
        found = self.platform.pages.items(job)
        return sorted((row.url, row.number, json.dumps(row.data, sort_keys=True)) for row in found)

    def quarantined(self, job: str) -> list[tuple[str, int, tuple[str, ...]]]:
        found = self.platform.pages.quarantined(job)
        return sorted((row.item.url, row.item.number, row.reasons) for row in found)

    def body(self, row: PageRow) -> Exchange:
        assert row.archive is not None
        return self.platform.archive.read(row.archive)

    def bodies(self, job: str) -> dict[str, bytes]:
        """Of all pages, from wherever they lie."""
        return {path: self.body(row).unpacked() for path, row in self.pages(job).items()}

    def loans(self) -> list[tuple[str, str]]:
        """(borrower, lender)"""
        with self.platform.engine.connect() as connection:
            return sorted((job, lender) for _, job, lender in connection.execute(sa.select(tables.borrowed)))

    def delete(self, job: str) -> None:
        """Deleted, and removed from the disks."""
        self.platform.control.delete(job)
        self.keep_house()

    def keep_house(self) -> None:
        """One round with every chore."""
        client = connect(redis_urls(self.platform.settings).frontier)
        for chore in self.platform.housekeeper.chores():
            client.delete(f"{self.platform.settings.prefix}:chore:{chore.name}")
        client.close()
        self.platform.housekeeper.tick()

    def folder(self, job: str) -> Path:
        """Of its archive."""
        return self.platform.settings.archive_path / job

    def shift(self, job: str, ms: int) -> None:
        """Let the pages of a job be older by so much."""
        c = tables.pages.c
        older = {"fetched_ms": c.fetched_ms - ms, "checked_ms": c.checked_ms - ms}
        with self.platform.engine.begin() as connection:
            connection.execute(sa.update(tables.pages).where(c.job == job).values(older))


@contextmanager
def a_ground(valkey_url: str, folder: Path, database: str, **more: Any) -> Generator[Ground]:
    """On a database of its own, and a part of the server."""
    given: dict[str, Any] = {"prefix": f"re-{uuid4().hex[:8]}", "egress_allow": HERE, **more}
    settings = Settings(home=folder, redis_url=valkey_url, database_url=database, **given)
    frontier = Frontier.at(redis_urls(settings).frontier, settings.prefix, settings.manners)
    platform = Platform.open(settings, frontier, no_ring)
    runtime = Runtime(settings, platform, Doorbell(make_app(redis_urls(settings)), frontier), Lifeline())
    try:
        yield Ground(platform, runtime)
    finally:
        runtime.close()
        platform.close()
