"""Leftovers: archive folders, rows and keys of jobs that there are not, segments that no row points to; torn segments.

Segments that later jobs borrow from stay with their folder, also when their own job is gone.

A folder or a segment goes only when it has not been written for a day, only where the archive is this database's
alone, and only when it was written since that is so: what was there before may be another database's.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import timedelta

import structlog

from shoal.chores import Chore, Repairs, Window
from shoal.store.archive import ArchiveReader
from shoal.store.folders import ArchiveFolders
from shoal.store.loans import Loans
from shoal.store.orphans import Orphans

log = structlog.get_logger()

EVERY = timedelta(minutes=10)
MEND_EVERY = timedelta(seconds=10)
UNTOUCHED = timedelta(days=1)
"""A worker that still writes has written since."""
SECOND_LOOK = timedelta(minutes=5)
"""A segment must be found without rows twice, so far apart: a database that was away gets the rows it has missed."""
PATIENCE = timedelta(minutes=1)
"""A job of the frontier must be found without a row twice, so far apart."""
FOLDERS_AT_ONCE = 2_000
QUERIED_AT_ONCE = 20
"""Jobs of which all pages are looked at for the segments that they need."""
NAMES_AT_ONCE = 500
ROWS_AT_ONCE = 2_500
ROW_BATCHES = 40


class Leftovers:
    """The chores that look for what nobody owns."""

    def __init__(
        self, orphans: Orphans, loans: Loans, folders: ArchiveFolders, archive: ArchiveReader, repairs: Repairs
    ) -> None:
        self._orphans = orphans
        self._loans = loans
        self._folders = folders
        self._archive = archive
        self._repairs = repairs
        self._window = Window(folders.at_once or FOLDERS_AT_ONCE)
        self._rows_after = ""
        self._in_use: dict[str, set[str]] = {}
        """Job → segments that are known to have rows."""
        self._suspects: dict[str, float] = {}
        """Segment without rows → when that was first seen."""
        self._unknown: dict[str, float] = {}
        """Job of the frontier without a row → likewise."""

    def chores(self) -> tuple[Chore, ...]:
        """What is to be done, and how often."""
        return (
            Chore("mend", self.mend, MEND_EVERY),
            Chore("gather", self.gather, EVERY),
            Chore("folders", self.folders, EVERY),
            Chore("rows", self.rows, EVERY),
        )

    def mend(self) -> None:
        """Segments whose writers were killed in the middle of a record."""
        cut = self._archive.mend()
        if cut:
            self._repairs.note("torn_segments", len(cut))

    def gather(self) -> None:
        """Segments in parts, whose writers are gone for good with the machine that they were on."""
        gathered = self._archive.gather()
        if gathered:
            self._repairs.note("parts", len(gathered))

    def folders(self) -> None:
        """Folders of jobs that there are not, and segments of others that nothing points to."""
        alone = self._folders.is_ours_alone()  # also while nothing is there: others must know of us
        there = self._folders.jobs()
        if not there:
            return
        if not alone:
            log.warning("archive_shared", hint="other databases have jobs here: nothing is removed as left over")
            return
        owned = self._folders.owned()
        names = self._window.next(there)
        unknown = {job for job in self._orphans.unknown(names) if not self._loans.lends(job)}
        for job in unknown:
            newest, oldest = self._folders.idle(job)
            if newest >= UNTOUCHED and oldest <= owned:
                self._archive.remove(job)
                self._repairs.note("archive_folders", 1, job)
        queried = 0
        for job in names:
            if job not in unknown and queried < QUERIED_AT_ONCE:
                queried += self._segments(job, owned)

    def _segments(self, job: str, owned: timedelta) -> bool:
        """Tells whether the database had to be asked."""
        known = self._in_use.setdefault(job, set())
        files = [file for file in self._folders.segments(job) if UNTOUCHED <= file.idle <= owned]
        old = [file.key for file in files if file.key not in known]
        if not old:
            return False
        known.update(self._orphans.segments_in_use(job), self._loans.segments_lent(job))
        now = time.monotonic()
        for key in old:
            if key in known:
                self._suspects.pop(key, None)
            elif key not in self._suspects:
                self._suspects[key] = now
            elif now - self._suspects[key] >= SECOND_LOOK.total_seconds():
                self._folders.remove_segment(key)
                self._suspects.pop(key)
                self._repairs.note("segments", 1, job)
        return True

    def unknown_jobs(self, known: Sequence[str]) -> list[str]:
        """Which of the jobs that the frontier knows the database does not have, nor had a while ago.

        A job's row is written before the frontier hears of it, and goes after the frontier has forgotten it: what has
        none came back with an older Redis, or the database has gone back.
        """
        before, now = self._unknown, time.monotonic()
        self._unknown = {job: before.get(job, now) for job in self._orphans.unknown(known)}
        patient = now - PATIENCE.total_seconds()
        return [job for job in self._unknown if job in before and before[job] <= patient]

    def rows(self) -> None:
        """Rows of jobs that there are not: of a worker that stored a page after its job was removed."""
        names = self._orphans.jobs_with_rows(self._rows_after, NAMES_AT_ONCE)
        self._rows_after = names[-1] if len(names) == NAMES_AT_ONCE else ""
        for job in self._orphans.unknown(names):
            gone = 0
            for _ in range(ROW_BATCHES):
                batch = self._orphans.remove_rows(job, ROWS_AT_ONCE)
                gone += batch
                if not batch:
                    break
            if gone:
                self._repairs.note("rows", gone, job)
