"""A worker's time with extractions: parts claimed, pages read, items written, until nothing is left or time is up.

What was read goes into the database in batches, and with each the part moves on. Who is killed loses a batch that was
not written, and the part to whoever claims it next. A part that was claimed several times without moving has killed
somebody: its pages are read apart from then on, so that the one that did it is found out and counted.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from shoal.again.again import Again
from shoal.again.archived import ArchivedPages, Heavy
from shoal.again.grip import Grip
from shoal.core.frozen import frozen
from shoal.core.versions import with_extraction
from shoal.errors import FetchError, RowRefused, ShoalError, Unavailable
from shoal.extract.extractor import extractor_of
from shoal.frontier.parts import Claim, Parts
from shoal.store.archive import ArchiveReader
from shoal.store.extractions import Extraction, ExtractionState, ExtractionStore, Part
from shoal.store.items import ItemRow, Quarantined, rows_of
from shoal.store.jobs import JobStore
from shoal.store.page_rows import PageRow
from shoal.store.pages import PageStore

log = structlog.get_logger()

BATCH_PAGES = 250
BATCH_BYTES = 32_000_000
"""Of bodies."""
BATCH_S = 5.0
"""What takes longer is written down in between."""
CAUTIOUS_FROM = 3
"""Claims of a part that did not move."""
OPEN_SEGMENTS = 16


@frozen
class Tools:
    """What a shift works with."""

    parts: Parts
    store: ExtractionStore
    jobs: JobStore
    pages: PageStore
    archive: ArchiveReader
    again: Again
    heavy: Heavy
    call: Callable[[], None]
    """Call another process: there is more to do."""
    stopped: Callable[[], bool]
    """Is time up, or is the worker to stop? Asked before each page."""


@dataclass(slots=True)
class ShiftReport:
    """What was done."""

    parts: int = 0
    pages: int = 0
    items: int = 0
    failed: int = 0
    work_remains: bool = False


class _Batch:
    """Items of pages that are read and not yet written."""

    def __init__(self) -> None:
        self.rows: list[ItemRow] = []
        self.refused: list[Quarantined] = []
        """Those that break the contract."""
        self.failures: Counter[str] = Counter()
        self.pages = self.bytes = 0
        self.upto = 0
        self.since = time.monotonic()

    @property
    def is_full(self) -> bool:
        late = time.monotonic() - self.since > BATCH_S
        return self.pages >= BATCH_PAGES or self.bytes >= BATCH_BYTES or late


class Shift:
    """One run of the task."""

    def __init__(self, tools: Tools) -> None:
        self._tools = tools
        self._report = ShiftReport()

    def run(self) -> ShiftReport:
        """Work on parts until there is none, or until told to stop; Unavailable says that something is away."""
        tools = self._tools
        while not tools.stopped() and (claim := tools.parts.claim()):
            if tools.parts.free():
                tools.call()
            self._work(claim)
        self._report.work_remains = tools.parts.free() > 0
        return self._report

    def _work(self, claim: Claim) -> None:
        tools = self._tools
        extraction = tools.store.get(claim.extraction)
        part = tools.store.part(claim.extraction, claim.part)
        if extraction is None or part is None or extraction.state is not ExtractionState.RUNNING:
            tools.parts.drop(claim.extraction)
            return
        with Grip(tools.parts, claim) as grip, tools.archive.kept_open(OPEN_SEGMENTS) as archive:
            try:
                done = part.done or self._read(grip, extraction, part, archive, cautious=claim.times >= CAUTIOUS_FROM)
            except Unavailable:
                grip.give_back()
                raise
            if not done:
                grip.give_back()
                return
        self._report.parts += 1
        tools.parts.finish(claim)
        if not tools.store.undone(extraction.id):
            tools.again.end(extraction)

    def _read(self, grip: Grip, extraction: Extraction, part: Part, archive: ArchiveReader, *, cautious: bool) -> bool:
        """True when the part is done; False when it is left to others."""
        pages = self._pages_of(extraction, archive, cautious=cautious)
        if pages is None:
            return False
        while not part.done:
            batch = self._read_batch(grip, extraction, part, pages)
            if batch is None:
                return False
            moved = self._write(extraction, part, batch)
            if moved is None:
                return False
            part = moved
            grip.moved()
        return True

    def _pages_of(self, extraction: Extraction, archive: ArchiveReader, *, cautious: bool) -> ArchivedPages | None:
        """None when the extraction cannot be done at all: then everybody is told why."""
        row = self._tools.jobs.get(extraction.job)
        if row is None:  # it is being deleted
            self._tools.parts.drop(extraction.id)
            return None
        try:
            spec = with_extraction(row.spec, extraction.spec)
            extractor_of(spec.extraction)
        except (ShoalError, ValueError) as exc:
            log.error("extraction_failed", job=row.id, version=extraction.version, error=str(exc))
            self._tools.store.fail(extraction.id, str(exc)[:2_000], time.time_ns() // 1_000_000)
            self._tools.parts.drop(extraction.id)
            return None
        return ArchivedPages(spec, archive, self._tools.heavy, cautious=cautious)

    def _read_batch(self, grip: Grip, extraction: Extraction, part: Part, pages: ArchivedPages) -> _Batch | None:
        """The next pages of a part; None when nothing was read because the worker stops, or the part is gone."""
        batch = _Batch()
        rows = self._tools.pages.pages_after(extraction.job, part.first_id - 1, BATCH_PAGES)
        for number, page in rows:
            if number > part.last_id:
                break
            if batch.is_full or self._tools.stopped():
                return batch if batch.upto else None
            if grip.lost:
                return None
            grip.stir()
            if page.redirect is None:
                self._take(extraction, page, pages, batch)
            batch.upto = number
        else:
            if len(rows) == BATCH_PAGES:
                return batch
        batch.upto = part.last_id
        return batch

    def _take(self, extraction: Extraction, page: PageRow, pages: ArchivedPages, batch: _Batch) -> None:
        batch.pages += 1
        batch.bytes += page.size
        try:
            found = pages.read(page)
        except FetchError as exc:
            self._note(extraction, page, batch, exc.reason, exc.detail)
            return
        except Unavailable:
            raise
        except Exception as exc:  # what a page makes of our code, or of a user's: counted, and the others go on
            names = {"job": page.job, "host": page.host, "version": extraction.version}
            log.exception("extractor_failed", url=page.url, **names)
            self._note(extraction, page, batch, "extractor_failed", str(exc))
            return
        if found.failed:
            self._note(extraction, page, batch, "spider_failed", found.failed)
        elif found.unreadable:
            self._note(extraction, page, batch, "json_unreadable", "not JSON, though it says so")
        rows, refused = rows_of(page.job, page.fingerprint, page.url, found.items, found.flaws, extraction.version)
        batch.rows += rows
        batch.refused += refused

    def _note(self, extraction: Extraction, page: PageRow, batch: _Batch, reason: str, detail: str) -> None:
        batch.failures[reason] += 1
        names = {"job": page.job, "host": page.host, "version": extraction.version}
        log.warning("page_not_extracted", url=page.url, reason=reason, error=detail, **names)

    def _write(self, extraction: Extraction, part: Part, batch: _Batch) -> Part | None:
        """The part behind the batch; None when somebody else was faster."""
        try:
            moved = self._advance(extraction, part, batch)
        except RowRefused:
            moved = self._advance(extraction, part, self._storable(extraction, batch))
        if moved is not None:
            report, failed = self._report, sum(batch.failures.values())
            report.pages, report.failed = report.pages + batch.pages, report.failed + failed
            report.items += len(batch.rows)
        return moved

    def _advance(self, extraction: Extraction, part: Part, batch: _Batch) -> Part | None:
        moved = part.moved(batch.upto, batch.pages, len(batch.rows), batch.failures)
        return moved if self._tools.store.advance(extraction.job, part, moved, batch.rows, batch.refused) else None

    def _storable(self, extraction: Extraction, batch: _Batch) -> _Batch:
        """Without pages that have an item which the database does not take."""
        refused: set[int] = set()
        for row in (*batch.rows, *(each.item for each in batch.refused)):
            try:
                self._tools.store.check(row)
            except RowRefused as exc:
                if row.fingerprint not in refused:
                    batch.failures["row_refused"] += 1
                    log.warning(
                        "page_not_extracted", job=row.job, version=extraction.version, url=row.url, error=str(exc)
                    )
                refused.add(row.fingerprint)
        batch.rows = [row for row in batch.rows if row.fingerprint not in refused]
        batch.refused = [each for each in batch.refused if each.item.fingerprint not in refused]
        return batch
