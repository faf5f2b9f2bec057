"""In which order jobs are listed: by what stands in their rows, or by sums that move while they run.

Every job has a place: a value, then its time of creation and its id, so that no two are alike and a list can go on
behind any of them.
"""

from __future__ import annotations

from enum import StrEnum

from shoal.core.frozen import frozen
from shoal.core.job_status import JobStatus

Place = tuple[int | str, int, str]
"""(value, created_ms, id)"""

WHOLE = 1_000_000
"""The progress of a job that has done all it knows of."""


class JobSort(StrEnum):
    """What jobs can be sorted by."""

    CREATED = "created"
    NAME = "name"
    STATE = "state"
    PROGRESS = "progress"
    PAGES = "pages"
    PENDING = "pending"
    ERRORS = "errors"
    RATE = "rate"
    ETA = "eta"

    @property
    def by_sums(self) -> bool:
        """Does the frontier know better than the row while a job lives?"""
        return self not in (JobSort.CREATED, JobSort.NAME, JobSort.STATE)

    @property
    def by_text(self) -> bool:
        return self in (JobSort.NAME, JobSort.STATE)


@frozen
class JobOrder:
    """An order, and where to go on in it."""

    by: JobSort = JobSort.CREATED
    ascending: bool = False
    after: Place | None = None

    def goes_on_at(self, place: Place) -> bool:
        """Does this place come behind the one where the last list ended?"""
        if self.after is None:
            return True
        return place > self.after if self.ascending else place < self.after

    @property
    def unknown(self) -> int:
        """The value of those that have none: they come last, whichever way it goes."""
        return 2**53 if self.ascending else 0

    def value(self, status: JobStatus | None) -> int:
        """What a job is sorted by, of its sums."""
        if status is None:
            return self.unknown
        match self.by:
            case JobSort.PAGES:
                return status.pages
            case JobSort.PENDING:
                return status.counters.pending
            case JobSort.ERRORS:
                return sum(status.errors.values())
            case JobSort.RATE:
                return int(status.rate * 1_000)
            case JobSort.ETA:
                return self.unknown if status.eta is None else 1 + int(status.eta.total_seconds() * 1_000)
            case _:
                return _progress(status)


def _progress(status: JobStatus) -> int:
    known = status.pages + status.counters.pending
    return WHOLE * status.pages // known if known else WHOLE * status.state.ended
