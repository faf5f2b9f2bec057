"""What is new, changed, gone and unchanged between two runs of a job."""

from __future__ import annotations

from collections.abc import Iterator

from shoal.changes.items import ItemChange, ItemComparison, Side
from shoal.changes.pages import PageChange, PageComparison, Shelves
from shoal.core.url import parse
from shoal.errors import InputError, NotFound
from shoal.extract.companion import Companion
from shoal.store.archive import ArchiveReader
from shoal.store.extractions import ExtractionStore
from shoal.store.job_rows import JobRow
from shoal.store.jobs import JobStore
from shoal.store.pages import PageStore
from shoal.store.run_pages import RunPages


class Changes:
    """Compares runs. Nothing is written: whoever asks again is told what holds then."""

    def __init__(
        self, jobs: JobStore, pages: PageStore, runs: RunPages, extractions: ExtractionStore, archive: ArchiveReader
    ) -> None:
        self._jobs = jobs
        self._extractions = extractions
        self._shelves = Shelves(runs, pages, archive, Companion().find)

    def earlier(self, run: JobRow) -> str:
        """The run that one is compared with when nobody says: the one that it knows, if that is still there, else the
        newest finished job of its name before it."""
        if run.spec.previous and self._jobs.get(run.spec.previous):
            return run.spec.previous
        found = self._jobs.earlier_runs(run, 1) if run.name else []
        if found:
            return found[0]
        if not run.name:
            raise NotFound(f"job {run.id} has no name by which an earlier run is known: say which it is, with since")
        raise NotFound(f"there is no finished run of {run.name!r} before job {run.id}: say which run it is, with since")

    def pages(self, run: JobRow, since: JobRow) -> Iterator[PageChange]:
        """What became of each page from `since` to `run`, in constant memory."""
        return self.compare_pages(run, since).stream()

    def items(self, run: JobRow, since: JobRow) -> Iterator[ItemChange]:
        """Likewise of each item."""
        return self.compare_items(run, since).stream()

    def compare_pages(self, run: JobRow, since: JobRow) -> PageComparison:
        """For who wants a part of it, or differences of texts."""
        _check(run, since)
        return PageComparison(self._shelves, run, since)

    def compare_items(self, run: JobRow, since: JobRow, key: str | None = None) -> ItemComparison:
        """Likewise; by another key than the job says."""
        _check(run, since)
        sides = [Side(job, self._extractions.choose(job.id, job.spec).name) for job in (run, since)]
        rules = run.spec.watching
        return ItemComparison(
            self._shelves.runs, self._shelves.pages, sides[0], sides[1], key or rules.key, rules.ignore_fields
        )

    def page(self, run: JobRow, since: JobRow, url: str) -> tuple[PageChange, PageComparison]:
        """What became of one URL, and where its difference is to be had."""
        compared = self.compare_pages(run, since)
        wanted = parse(url, drop_tracking=run.spec.drop_tracking)
        change = compared.one(wanted.fingerprint)
        if change is None:
            raise NotFound(f"neither job {run.id} nor job {since.id} has a page {wanted}")
        return change, compared


def _check(run: JobRow, since: JobRow) -> None:
    if run.id == since.id:
        raise InputError(f"job {run.id} cannot be compared with itself", "since")
    if run.tenant != since.tenant:
        raise NotFound(f"there is no job {since.id!r}")
