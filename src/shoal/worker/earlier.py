"""Earlier pages of requests that were just leased: looked up for all of them at once, before any is fetched.

Jobs that ask for none cost nothing. A page is offered only if it was fetched in the same manner, and if its bytes are
still there: what is carried over can be read by whoever comes later.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from shoal.core.frozen import frozen
from shoal.core.manner import manner_of, reading_of
from shoal.core.model import Lease, Request
from shoal.core.reuse import PLAINLY, Decision, Way, decide
from shoal.core.spec import JobSpec
from shoal.extract.outlinks import Written
from shoal.store.archive import ArchiveReader, Exchange
from shoal.store.earlier import EarlierPages, StoredEarlier
from shoal.store.page_rows import ArchiveRef, PageRow
from shoal.worker.context import JobContext

JOBS_FOR_S = 10.0
"""So long the list of jobs of the same manner is good."""
MAX_REMEMBERED = 1_000
"""Jobs whose ways are remembered."""


@frozen
class EarlierPage:
    """What an earlier job has about a URL, and what is to be done about that."""

    row: PageRow
    decision: Decision
    now_ms: int
    """On Redis' clock, when it was decided."""
    decided_at: float
    """The same on a clock that only goes on."""
    written: bytes | None
    """Where it leads to, packed, if the page was read as this job would read it."""
    body: Callable[[], Exchange] | None
    """Reads its bytes from the archive; None: they are not kept."""
    alike: bool = True
    """Was it read as this job would read it?"""

    @property
    def present_ms(self) -> int:
        """Redis' time now, as near as it is known."""
        return self.now_ms + round(1000 * (time.monotonic() - self.decided_at))

    def whole(self, context: JobContext, request: Request) -> Written | None:
        """Where it leads to, if it need not be read again: all that this job would find in it is known."""
        row, trail = self.row, context.trail
        if self.written is None or self._left_items(context):
            return None
        asked = (request.depth, request.callback, request.meta or None)
        if context.spec.spider and asked != (row.depth, row.callback, row.meta):
            return None
        try:
            written = Written.unpack(self.written)
        except ValueError:
            return None
        known = written.links_read or row.redirect is not None or not trail.goes_on_from(request.depth)
        return written if known else None

    def _left_items(self, context: JobContext) -> bool:
        """Were its items left out, as another page of its job said the same? That page may not be one of this job."""
        alike = context.spec.duplicates
        return self.row.duplicate_of is not None and alike is not None and not alike.items


@frozen
class _Ways:
    """How a job fetches and reads."""

    manner: str
    reading: str


class EarlierShelf:
    """Looks earlier pages up; called from threads."""

    def __init__(
        self,
        pages: EarlierPages,
        archive: ArchiveReader,
        spec_of: Callable[[str], JobSpec | None],
        now_ms: Callable[[], int],
    ) -> None:
        """`now_ms` is Redis' clock; `spec_of` a job of the database, None when it is not there (any more)."""
        self._pages = pages
        self._archive = archive
        self._spec_of = spec_of
        self._now_ms = now_ms
        self._ways: dict[str, _Ways] = {}
        self._alike: dict[str, tuple[float, list[str]]] = {}
        """Job → (until when it is good, jobs of the same manner)."""

    def has_to_look(self, leases: Sequence[Lease], contexts: Mapping[str, JobContext]) -> bool:
        """Does any of these jobs know an earlier one?"""
        return any(
            (context := contexts.get(job)) is not None and context.spec.knows_earlier
            for job in {lease.job for lease in leases}
        )

    def among(self, leases: Sequence[Lease], contexts: Mapping[str, JobContext]) -> dict[tuple[str, int], EarlierPage]:
        """(job, fingerprint) → earlier page, of those leases that have one which can be used."""
        wanted: dict[str, dict[int, str]] = {}
        for lease in leases:
            if (context := contexts.get(lease.job)) and context.spec.knows_earlier:
                wanted.setdefault(lease.job, {})[lease.request.url.fingerprint] = str(lease.request.url)
        now = self._now_ms()
        found: dict[tuple[str, int], EarlierPage] = {}
        for job, urls in wanted.items():
            for page in self._of(contexts[job], urls, now):
                found[job, page.row.fingerprint] = page
        return found

    def _of(self, context: JobContext, urls: Mapping[int, str], now_ms: int) -> Iterable[EarlierPage]:
        """Of the previous run; else, not too old, of any other."""
        spec, own = context.spec, _Ways(manner_of(context.spec), reading_of(context.spec))
        rows: dict[int, StoredEarlier] = {}
        if spec.previous and self._manner_of(spec.previous) == own.manner:
            for each in self._pages.of_job(spec.previous, list(urls)):
                rows[each.row.fingerprint] = each
        if context.reuse.max_age_ms is not None:
            since = now_ms - context.reuse.max_age_ms
            rest = [one for one in urls if one not in rows or rows[one].row.known.checked_ms < since]
            for each in self._pages.of_jobs(self._jobs_like(context, own.manner, since), rest, since):
                rows[each.row.fingerprint] = each
        there = _Presence(self._archive)
        for fingerprint, each in rows.items():
            row = each.row
            if row.url == urls[fingerprint] and self._fits(spec, row, there):
                yield self._offer(context, own, each, now_ms)

    def _offer(self, context: JobContext, own: _Ways, each: StoredEarlier, now_ms: int) -> EarlierPage:
        row = each.row
        alike = (ways := self._ways_of(row.job)) is not None and ways.reading == own.reading
        decision = decide(row.known, context.reuse, now_ms)
        ref, archive = row.archive, self._archive
        body = None if ref is None else lambda: archive.read(ref)
        readable = row.redirect is not None or (alike and each.outlinks is not None) or (body and row.engine == "http")
        if not readable and decision.way is not Way.FETCH:
            decision = PLAINLY
        written = each.outlinks if alike else None
        return EarlierPage(row, decision, now_ms, time.monotonic(), written, body, alike)

    def _fits(self, spec: JobSpec, row: PageRow, there: _Presence) -> bool:
        """Is all of it there that this job keeps of a page, within its bounds?"""
        if row.size > spec.max_body:
            return False
        if row.archive is None:
            return not spec.archive
        return all(map(there.holds, (row.archive, *(each.archive for each in row.captures))))

    def _jobs_like(self, context: JobContext, manner: str, since_ms: int) -> list[str]:
        until, names = self._alike.get(context.job, (0.0, []))
        if time.monotonic() >= until:
            names = self._pages.in_manner(context.tenant, manner, since_ms, context.job)
            if len(self._alike) > MAX_REMEMBERED:
                self._alike.clear()
            self._alike[context.job] = time.monotonic() + JOBS_FOR_S, names
        return names

    def _manner_of(self, job: str) -> str | None:
        ways = self._ways_of(job)
        return ways.manner if ways else None

    def _ways_of(self, job: str) -> _Ways | None:
        if job not in self._ways:
            spec = self._spec_of(job)
            if spec is None:
                return None
            if len(self._ways) > MAX_REMEMBERED:
                self._ways.clear()
            self._ways[job] = _Ways(manner_of(spec), reading_of(spec))
        return self._ways[job]


class _Presence:
    """Which segments are there, and how far they go; each is looked at once."""

    def __init__(self, archive: ArchiveReader) -> None:
        self._archive = archive
        self._sizes: dict[str, int] = {}

    def holds(self, ref: ArchiveRef) -> bool:
        if ref.key not in self._sizes:
            self._sizes[ref.key] = self._archive.size(ref.key)
        return ref.offset + ref.length <= self._sizes[ref.key]
