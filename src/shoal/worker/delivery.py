"""Results into the stores, in the one order that can lose nothing.

Bytes into the archive and onto the disk, rows into the database, links into the frontier, and last the leases settled.
A crash in between repeats work: rows are replaced by equal ones, links are seen already. So does a worker that was
frozen until its leases had run out; only of a job that was deleted meanwhile it has to take its rows back. Links that
the frontier does not take because it has lost the job are not lost: the rows that they come from are there, and the job
is rebuilt from these.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta

from shoal.core.frozen import changed
from shoal.core.ledger import Ask
from shoal.core.model import Candidate, Sent, SettleReport
from shoal.errors import LenderGone
from shoal.frontier.frontier import Frontier
from shoal.store.archive import ArchiveWriter
from shoal.store.page_rows import Capture, FoundLinks, Outlinks, PageRow, Recrawled
from shoal.store.pages import PageStore
from shoal.worker.likeness import Marks
from shoal.worker.result import Result, put_off
from shoal.worker.traces import Traces


class Delivery:
    """Carries results out; called from a thread, one batch at a time."""

    def __init__(
        self,
        frontier: Frontier,
        pages: PageStore,
        archive: ArchiveWriter,
        finalise: Callable[[str], None],
        *,
        keeps_ledger: bool = True,
        lives: Callable[[str], bool] = lambda _job: True,
        traces: Traces | None = None,
    ) -> None:
        """`lives` tells whether the database still has a job."""
        self._frontier = frontier
        self._pages = pages
        self._archive = archive
        self._finalise = finalise
        self._keeps_ledger = keeps_ledger
        self._lives = lives
        self._traces = traces or Traces()
        self._told: Sequence[Result] = ()
        self._archived: dict[int, tuple[Result, PageRow]] = {}
        """Identity of a result that is not delivered yet → the result, its row."""

    def deliver(self, results: Sequence[Result]) -> SettleReport:
        """Store, admit, settle.

        Raises Unavailable, and then the same batch can be delivered again; and RowRefused, and then its results can be
        delivered one by one.
        """
        with self._traces.batch("store", results):
            results, marks, written = self._store_or_put_off(results)
        with self._traces.batch("admit", results):
            sent = self._admit([marks.onward(result) for result in results])
        with self._traces.batch("settle", results, last=True):
            report = self._frontier.settle([marks.settlement(result) for result in results], sent)
        if report.late:
            self._take_back(written)
        for job in report.ended:
            self._archive.close(job)
            self._finalise(job)
        self._told = ()
        for result in results:
            self._archived.pop(id(result), None)
        return report

    def _store_or_put_off(self, results: Sequence[Result]) -> tuple[Sequence[Result], Marks, set[str]]:
        """Pages of an earlier job that was given up meanwhile must be fetched after all."""
        try:
            return results, *self._store(results)
        except LenderGone as exc:
            gone = exc.jobs
        left = [
            put_off(result.settlement.lease, "lender_gone", timedelta())
            if result.carried and result.carried.source in gone
            else result
            for result in results
        ]
        return left, *self._store(left)

    def _store(self, results: Sequence[Result]) -> tuple[Marks, set[str]]:
        """(which pages say what others say, jobs that rows were written of)"""
        rows, marks = self._rows(results), Marks.of(self._frontier, results)
        kept = [result for result in results if marks.keeps_items(result)]
        items = [item for result in kept for item in result.items]
        broken = [item for result in kept for item in result.quarantined]
        letters = [result.letter for result in results if result.letter]
        asks, found = self._asks(results), self._found(results, marks)
        rows = [marks.row(result, row) for result, row in zip(_paged(results), rows, strict=True)]
        if rows or items or letters or asks or found:
            itemless = {result.settlement.lease.job for result in results if result.itemless}
            self._pages.write(rows, items, letters, asks, found, broken, _recrawled(results, marks), itemless)
            self._told = results
        return marks, {row.job for row in (*rows, *items, *letters)}

    def note(self, asks: Sequence[Ask]) -> None:
        """What was asked by visits that came to no result: only the ledger hears of it."""
        if asks and self._keeps_ledger:
            self._pages.write([], [], [], asks)

    def _take_back(self, jobs: set[str]) -> None:
        """Rows of a deleted job must not outlive it.

        It is removed when nobody has leases of it any more: who writes after that has lost his, and comes by here.
        """
        for job in jobs:
            if not self._lives(job):
                self._archive.discard(job)
                while not self._pages.remove(job):
                    pass

    def _rows(self, results: Sequence[Result]) -> list[PageRow]:
        """With their bytes in the archive.

        Those of a batch that comes again, as the database was away, or one by one, as it refused a row, are there.
        """
        paged = _paged(results)
        if any(id(result) not in self._archived for result in paged):
            self._archived = self._archive_bodies(paged)
        return [self._archived[id(result)][1] for result in paged]

    def _asks(self, results: Sequence[Result]) -> list[Ask]:
        """For the ledger, which unlike the rows is not to be told the same twice."""
        if not self._keeps_ledger or results is self._told:
            return []
        return [ask for result in results for ask in result.asks]

    def _found(self, results: Sequence[Result], marks: Marks) -> list[FoundLinks]:
        """Links of pages without a body; they, too, are told once."""
        if results is self._told:
            return []
        return [found for result in results for found in marks.onward(result).found]

    def _archive_bodies(self, results: Sequence[Result]) -> dict[int, tuple[Result, PageRow]]:
        rows: dict[int, tuple[Result, PageRow]] = {}
        try:
            for result in results:
                if result.page:
                    rows[id(result)] = result, self._archived_row(result, result.page)
            self._archive.flush()
        except BaseException:
            self._archive.abandon()
            raise
        return rows

    def _archived_row(self, result: Result, page: PageRow) -> PageRow:
        if result.exchange:
            page = changed(page, archive=self._archive.append(page.job, result.exchange))
        if result.attachments:
            captures = tuple(
                Capture(
                    each.kind,
                    each.media_type,
                    len(each.body),
                    self._archive.attach(page.job, page.url, page.fetched_ms, each),
                )
                for each in result.attachments
            )
            page = changed(page, captures=captures)
        return page

    def _admit(self, results: Sequence[Result]) -> dict[str, Sent]:
        """Job → where the links of its pages went, if the frontier has several servers."""
        found: dict[str, list[Candidate]] = {}
        known: dict[str, int] = {}
        for result in results:
            job = result.settlement.lease.job
            if result.candidates:
                found.setdefault(job, []).extend(result.candidates)
            if result.duplicates:
                known[job] = known.get(job, 0) + result.duplicates
        sent: dict[str, Sent] = {}
        for job in found.keys() | known.keys():
            report = self._frontier.admit(job, found.get(job, []), known.get(job, 0), owing=True)
            if report.sent:
                sent[job] = report.sent
        return sent


def _recrawled(results: Sequence[Result], marks: Marks) -> Recrawled | None:
    """What is written beside the rows of jobs that know an earlier one; None when there is none of these."""
    written = [
        Outlinks(result.page.job, result.page.fingerprint, result.outlinks)
        for result in results
        if result.outlinks is not None and result.page
    ]
    carried = [
        each if marks.keeps_items(result) else replace(each, with_items=False)
        for result in results
        if (each := result.carried)
    ]
    return Recrawled(written, carried) if written or carried else None


def _paged(results: Sequence[Result]) -> list[Result]:
    return [result for result in results if result.page]
