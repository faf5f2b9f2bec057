"""Versions of a job's items, made from its stored pages: begun, watched, given up.

An extraction is a row and its parts in the database, written at once; what workers do with them is in `shift`.
Housekeeping notices one that nobody works on, or whose end nobody has written down.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import structlog

from shoal.core.model import Engine, queue_name
from shoal.core.versions import FIRST_VERSION, check_name, next_name, with_contract, with_extraction
from shoal.errors import Conflict, NotFound, Unavailable
from shoal.frontier.frontier import Frontier
from shoal.intake.ring import PARTS_RING, Ring
from shoal.spiders.models import check_named
from shoal.store.extractions import Extraction, ExtractionState, ExtractionStore, Progress
from shoal.store.job_rows import JobRow
from shoal.store.jobs import JobStore

log = structlog.get_logger()

CLEAR_BATCHES = 40
"""Of items of a cancelled version, in one round of the housekeeping."""


class Again:
    """What people and programs can ask about extractions, and do with them."""

    def __init__(self, frontier: Frontier, jobs: JobStore, store: ExtractionStore, ring: Ring) -> None:
        self._frontier = frontier
        self._jobs = jobs
        self._store = store
        self._ring = ring

    def start(
        self, job: JobRow, spec: Mapping[str, Any], version: str | None = None, request_id: str = ""
    ) -> Extraction:
        """Take these items from all pages that the job has now; the same order twice is one.

        The job's contract holds for them, unless the order has a word of its own on it.
        """
        if not job.spec.archive:
            raise Conflict(f"job {job.id} ran without the archive: there is nothing to extract from")
        spec = with_contract(job.spec, spec)
        check_named(with_extraction(job.spec, spec))
        taken = [each.version for each in self._store.of_job(job.id)]
        name = next_name(taken) if version is None else check_name(version)
        known = self._store.find(job.id, name)
        if known is not None and dict(known.spec) == dict(spec) and known.state is not ExtractionState.CANCELLED:
            return known
        begun = self._store.begin(job.id, name, spec, _now_ms(), request_id)
        log.info("extraction_began", job=job.id, version=name, pages=begun.total, request_id=request_id)
        try:
            self.offer(begun)
        except Unavailable as exc:  # it is written down: housekeeping offers it as soon as it can
            log.warning("offer_failed", job=job.id, version=name, error=str(exc))
        return begun

    def find(self, job: str, version: str) -> Extraction:
        """A further version of a job's items."""
        found = self._store.find(job, version)
        if found is None:
            names = ", ".join([FIRST_VERSION, *(each.version for each in self._store.of_job(job))])
            raise NotFound(f"job {job} has no version {version[:60]!r} that was extracted again; there is {names}")
        return found

    def versions(self, job: str) -> list[Progress]:
        """All further versions, in the order in which they began."""
        return [self._store.progress(each) for each in self._store.of_job(job)]

    def progress(self, extraction: int) -> Progress:
        """How far it is; who looks also writes an end down that nobody has."""
        self._store.finish(extraction, _now_ms())
        found = self._store.get(extraction)
        if found is None:
            raise NotFound("this extraction was dropped, or its job was deleted")
        return self._store.progress(found)

    def drop(self, job: str, version: str) -> None:
        """Give a version up: it is gone for everybody now, and its items soon."""
        check_name(version)
        found = self.find(job, version)
        self._store.cancel(found, _now_ms())
        self._frontier.parts.drop(found.id)
        log.info("extraction_dropped", job=job, version=version)

    def offer(self, extraction: Extraction) -> None:
        """Let workers know of what is to be done, and ring."""
        numbers = self._store.undone(extraction.id)
        if not numbers:
            self.end(extraction)
            return
        self._frontier.parts.offer(extraction.id, numbers)
        row = self._jobs.get(extraction.job)
        if row is not None and self._frontier.parts.free():
            self._ring(PARTS_RING + queue_name(Engine.HTTP, row.spec.lane), extraction.request_id)

    def end(self, extraction: Extraction) -> None:
        """All parts are done."""
        if self._store.finish(extraction.id, _now_ms()):
            done = self._store.progress(extraction)
            log.info(
                "extraction_done", job=extraction.job, version=extraction.version, request_id=extraction.request_id,
                pages=done.pages, items=done.items, quarantined=done.quarantined, failed=done.failed,
            )  # fmt: skip
        self._frontier.parts.drop(extraction.id)

    # --- housekeeping --------------------------------------------------------------------------------------------

    def tend(self) -> None:
        """What is running is known to workers, what is not is not; what was given up goes."""
        running = self._store.in_state(ExtractionState.RUNNING)
        for extraction in running:
            self.offer(extraction)
        for stray in set(self._frontier.parts.known()) - {each.id for each in running}:
            found = self._store.get(stray)
            if found is None or found.state is not ExtractionState.RUNNING:  # it may have begun a moment ago
                self._frontier.parts.drop(stray)
        for extraction in self._store.in_state(ExtractionState.CANCELLED):
            if not any(self._store.clear(extraction) for _ in range(CLEAR_BATCHES)):
                return

    def clear(self, job: str, version: str) -> None:
        """Remove all that a version that was given up has left, now."""
        found = self._store.find(job, version)
        while found is not None and found.state is ExtractionState.CANCELLED and not self._store.clear(found):
            pass


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
