"""Requests that were lost before, and whose pages are stored all the same: these are not fetched again.

A worker may die between the commit of a row and the settlement of its lease; and a Redis that comes back older by a
moment has leases again that were settled. Such a lease runs out, and its request comes back with a loss. What its page
leads to is admitted again, since that may not have arrived either, and it counts as done. An older Redis may even have
forgotten that it gave a request away: while it is in doubt, each request is looked up.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from datetime import timedelta

import structlog

from shoal.core.frozen import frozen
from shoal.core.model import Candidate, Lease, LeaseBatch, Outcome, Settlement
from shoal.errors import ArchiveUnavailable, FetchError, NotFound
from shoal.extract.companion import Companion
from shoal.extract.trail import Trail
from shoal.recovery.onward import body_wanted, onward, reason_of, received_of, written_down
from shoal.store.archive import ArchiveReader
from shoal.store.page_rows import FoundLinks, PageRow
from shoal.store.pages import PageStore
from shoal.worker.context import JobContext
from shoal.worker.result import Result

log = structlog.get_logger()


@frozen
class StoredPage:
    """A page that need not be fetched again."""

    row: PageRow
    candidates: list[Candidate]
    """Where it leads to."""
    duplicates: int

    def result_of(self, context: JobContext, lease: Lease) -> Result:
        """What came of the lease without a request."""
        names = {"job": context.job, "request_id": context.request_id}
        log.info("page_was_stored", url=self.row.url, losses=lease.request.losses, **names)
        settlement = Settlement(lease, Outcome.DONE, reason_of(self.row), received=received_of(self.row), counts=False)
        return Result(settlement, candidates=self.candidates, duplicates=self.duplicates, stored=True)


class StoredPages:
    """Looks requests up whose pages may be stored."""

    def __init__(
        self, pages: PageStore, archive: ArchiveReader, doubt: Callable[[], timedelta] = lambda: timedelta()
    ) -> None:
        """`doubt` asks the frontier how long it will be in doubt."""
        self._pages = pages
        self._archive = archive
        self._doubt = doubt
        self._server = ""
        self._until = 0.0
        self._companion = Companion()

    def has_to_look(self, batch: LeaseBatch) -> bool:
        """Is there anything to look up, or a server that was not met before? Mostly not, and this costs nothing."""
        return bool(batch.leases) and (
            batch.server != self._server or self._is_in_doubt or any(lease.request.losses for lease in batch.leases)
        )

    def among(self, batch: LeaseBatch, contexts: Mapping[str, JobContext]) -> dict[tuple[str, int], StoredPage]:
        """(job, fingerprint) → page, of those leases whose pages are stored and can be read; called from a thread."""
        if batch.server != self._server:
            self._until = time.monotonic() + self._doubt().total_seconds()
            self._server = batch.server
        wanted: dict[str, list[int]] = {}
        for lease in batch.leases:
            if lease.job in contexts and (lease.request.losses or self._is_in_doubt):
                wanted.setdefault(lease.job, []).append(lease.request.url.fingerprint)
        if not wanted:
            return {}
        pages = [self._read(contexts[row.job], row, found) for row, found in self._pages.stored(wanted)]
        return {(page.row.job, page.row.fingerprint): page for page in pages if page}

    @property
    def _is_in_doubt(self) -> bool:
        return time.monotonic() < self._until

    def _read(self, context: JobContext, row: PageRow, found: tuple[FoundLinks, ...]) -> StoredPage | None:
        """Here, where nobody waits on the loop; None when the body cannot be read, and must be fetched again."""
        trail = Trail.of(context.spec, self._companion)  # without a memory: what this process has sent may be lost
        ref = body_wanted(trail, row)
        try:
            candidates, known = onward(trail, row, self._archive.read(ref) if ref else None)
        except (NotFound, ArchiveUnavailable, FetchError):
            return None
        candidates += written_down(each for each in found if each.depth <= row.depth or trail.lists_from(row.depth))
        return StoredPage(row, candidates, known)
