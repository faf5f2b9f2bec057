"""What a run has changed, a stretch at a time, for who tells it to others."""

from __future__ import annotations

from shoal.changes.changes import Changes
from shoal.changes.kinds import Kind
from shoal.core.frozen import frozen
from shoal.errors import NotFound
from shoal.store.jobs import JobStore
from shoal.webhooks.page_changes import Stretch

TOLD = (Kind.NEW, Kind.CHANGED, Kind.GONE)
"""What stayed, and what nobody can tell, is no news."""


@frozen
class ToldChanges:
    """Held against the run that is compared with when nobody says."""

    jobs: JobStore
    changes: Changes

    def __call__(self, job: str, after: int) -> Stretch | None:
        run = self.jobs.get(job)
        if run is None:
            return None
        try:
            since = self.changes.earlier(run)
        except NotFound:
            return None
        earlier = self.jobs.get(since)
        if earlier is None or earlier.tenant != run.tenant:
            return None
        found, upto = self.changes.compare_pages(run, earlier).stretch(after)
        told = [(change.page.fingerprint, change.as_json) for change in found if change.kind in TOLD]
        return Stretch(since, told, upto)
