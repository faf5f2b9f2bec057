"""What people and programs can ask about jobs, and do with them. The command line and the API call the same functions.

Nothing here waits for the web.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from shoal.core.job_order import JobOrder, Place
from shoal.core.job_status import JobStatus
from shoal.core.model import JobState
from shoal.core.spec import JobSpec, read_spec
from shoal.core.url import Url, parse
from shoal.errors import Conflict, InputError, NotFound
from shoal.frontier.frontier import Frontier
from shoal.intake.intake import Intake
from shoal.intake.ring import Ring
from shoal.store.history import HistoryStore
from shoal.store.job_rows import JobRow
from shoal.store.jobs import JobFilter, JobStore
from shoal.store.page_rows import PageRow
from shoal.store.pages import PageStore

EDITABLE = (
    *("name", "labels", "lane", "weight", "rate", "parallel"),
    *("pages", "bytes", "seconds", "host_pages", "host_bytes", "host_seconds", "keep"),
)
"""What can be changed while a job runs: what the frontier knows, what people call it, how long it is kept."""
STATUSES_AT_ONCE = 500
_AFTER_THE_END = ("name", "labels", "keep")


class Ending:
    """The end of a job: its last sums into the database and its history, its keys out of the frontier."""

    def __init__(self, frontier: Frontier, jobs: JobStore, history: HistoryStore) -> None:
        self._frontier = frontier
        self._jobs = jobs
        self._history = history

    def finalise(self, job: str) -> None:
        """Write an ended job's last sums to the database, then let the frontier forget it. Safe to repeat."""
        status = self._frontier.status(job)
        if not status or not status.state.ended or status.ended_ms is None:
            return
        self._jobs.record(status)
        self._history.note_end(status)
        if self._frontier.forget(job):
            return
        now = self._frontier.status(job)  # it came back to life meanwhile: dead letters are tried again
        if now:
            self._jobs.reopen(now, status.ended_ms)


def lost_job(job: str) -> NotFound:
    """The error of whoever asks for a job that has not ended and that the frontier does not know."""
    return NotFound(f"Redis has lost job {job}, which has not ended; this rebuilds it: shoal recover {job}")


class Control:
    """The control plane's operations over its stores."""

    def __init__(
        self, frontier: Frontier, jobs: JobStore, pages: PageStore, intake: Intake, ending: Ending, ring: Ring
    ) -> None:
        self._frontier = frontier
        self._jobs = jobs
        self._pages = pages
        self._intake = intake
        self._ending = ending
        self._ring = ring

    # --- looking -------------------------------------------------------------------------------------------------

    def find(self, start: str) -> str:
        """The one job whose id starts like this."""
        matches = self._jobs.find(start) if start else []
        if start in matches:
            return start
        if len(matches) == 1:
            return matches[0]
        if matches:
            raise InputError(f"{start!r} could be any of {', '.join(matches[:5])}; write more of it")
        raise NotFound(f"there is no job {start!r}; `shoal jobs` lists them")

    def job(self, job: str, tenant: str | None = None) -> JobRow:
        """The job's row, with its present state; one of another tenant does not exist."""
        return self._with_status(self._row(job, tenant))

    def jobs(self, limit: int = 50, wanted: JobFilter | None = None) -> list[JobRow]:
        """The last jobs, newest first, with their present state."""
        return list(self._present(self._jobs.newest(limit, wanted)).values())

    def jobs_in_order(self, limit: int, wanted: JobFilter, order: JobOrder) -> list[tuple[Place, JobRow]]:
        """Jobs in somebody's order, each with its place; sums are those of the moment."""
        found = self._jobs.ranked(limit, wanted, order)
        if order.by.by_sums:
            found += self._by_present_sums(limit, wanted, order)
            return sorted(found, key=lambda each: each[0], reverse=not order.ascending)[:limit]
        known = self._present([row for _, row in found])
        return [(place, known[row.id]) for place, row in found]

    def _by_present_sums(self, limit: int, wanted: JobFilter, order: JobOrder) -> list[tuple[Place, JobRow]]:
        """The first ones of those that live."""
        living = self._jobs.unended(wanted)
        statuses = self._statuses([name for _, name in living])
        places = [(order.value(statuses[name]), created_ms, name) for created_ms, name in living]
        first = sorted(filter(order.goes_on_at, places), reverse=not order.ascending)[:limit]
        rows = self._jobs.some([name for *_, name in first])
        return [(place, self._joined(rows[place[2]], statuses[place[2]])) for place in first if place[2] in rows]

    def _present(self, rows: Sequence[JobRow]) -> dict[str, JobRow]:
        """Each with its present state."""
        known = self._statuses([row.id for row in rows if not row.state.ended])
        return {row.id: self._joined(row, known[row.id]) if row.id in known else row for row in rows}

    def _statuses(self, names: Sequence[str]) -> dict[str, JobStatus | None]:
        found: dict[str, JobStatus | None] = {}
        for start in range(0, len(names), STATUSES_AT_ONCE):
            some = names[start : start + STATUSES_AT_ONCE]
            found |= zip(some, self._frontier.statuses(some), strict=True)
        return found

    def status(self, job: str) -> JobStatus:
        """State and sums, from the frontier while the job lives there, else from the database."""
        row = self.job(job)
        if row.status is None:
            raise lost_job(job)
        return row.status

    def page(self, job: str, url: str, *, follow_redirects: bool = True) -> PageRow:
        """A stored page; its redirects are followed within the job."""
        row = self.job(job)
        wanted: Url = parse(url, drop_tracking=row.spec.drop_tracking)
        for _ in range(20):
            page = self._pages.page(job, wanted.fingerprint)
            if page is None:
                raise NotFound(f"job {job} has no page {wanted}; `shoal results {job} --pages` lists those it has")
            if not page.redirect or not follow_redirects:
                return page
            wanted = parse(page.redirect)
        raise NotFound(f"{url} redirects in a circle")

    # --- changing ------------------------------------------------------------------------------------------------

    def pause(self, job: str) -> JobState:
        """Hand out nothing more; what is under way is finished."""
        return self._turn(job, JobState.PAUSED, self._frontier.pause)

    def resume(self, job: str) -> JobState:
        """Go on with a paused job, or with one whose submission was cut short; ring so that a worker notices."""
        self._intake.complete(job)
        state = self._turn(job, JobState.RUNNING, self._frontier.resume)
        if state is JobState.RUNNING:
            row = self._row(job)
            self._ring(row.spec.queue, row.request_id)
        return state

    def cancel(self, job: str) -> JobState:
        """Drop all that waits; pages already stored stay, and count."""
        self._intake.recall(job)
        return self._end(job, self._frontier.cancel)

    def close(self, job: str) -> JobState:
        """An open job takes no more URLs, and ends when it has done what it has."""
        self._jobs.close(job)
        return self._end(job, self._frontier.close)

    def edit(self, job: str, changes: Mapping[str, Any]) -> JobRow:
        """Change a job's limits, lane or names while it runs."""
        row = self.job(job)
        fixed = [name for name in changes if name not in EDITABLE]
        if fixed:
            raise InputError(f"{', '.join(fixed)} cannot be changed; what can: {', '.join(EDITABLE)}")
        if row.state.ended and set(changes) - {*_AFTER_THE_END}:
            raise Conflict(f"job {job} is {row.state.value}: only {', '.join(_AFTER_THE_END)} can be changed")
        self._jobs.edit(job, lambda spec: _changed(spec, changes))
        spec = self._row(job).spec
        state, ended = self._frontier.configure_job(job, spec)
        if ended:
            self._ending.finalise(job)
        if state is JobState.RUNNING:
            self._ring(spec.queue, row.request_id)
        return self.job(job)

    def delete(self, job: str) -> None:
        """Remove a job with its data: gone for everybody now, from the disks as soon as no worker holds its pages."""
        self.cancel(job)
        self._jobs.give_up(job, _now_ms())

    # --- inside --------------------------------------------------------------------------------------------------

    def _row(self, job: str, tenant: str | None = None) -> JobRow:
        row = self._jobs.get(job)
        if row is None or tenant not in (None, row.tenant):
            raise NotFound(f"there is no job {job!r}")
        return row

    def _with_status(self, row: JobRow) -> JobRow:
        """The frontier knows better than the row, until the job has ended and the frontier has forgotten it."""
        if row.state.ended:
            return row
        return self._joined(row, self._frontier.status(row.id))

    def _joined(self, row: JobRow, status: JobStatus | None) -> JobRow:
        if status is None:
            return self._jobs.get(row.id) or row  # it may have ended a moment ago
        if status.state.ended and status.ended_ms is not None:
            self._ending.finalise(row.id)
        return replace(row, state=status.state, status=status)

    def _turn(self, job: str, wanted: JobState, turn: Callable[[str], JobState | None]) -> JobState:
        """Pause or resume. The row says so first: who rebuilds the job meanwhile, from the row, does not undo it."""
        status = self._frontier.status(job)
        if status is None:
            self._intake.make_known(job)
            status = self._frontier.status(job)
        if status and not status.state.ended:
            self._jobs.record(replace(status, state=wanted))
        return self._change(job, turn(job))

    def _end(self, job: str, end: Callable[[str], tuple[JobState | None, bool]]) -> JobState:
        state, ended = end(job)
        if state is None:
            self._intake.bring_back(job)
            state, ended = end(job)
        if ended:
            self._ending.finalise(job)
        return self._change(job, state)

    def _change(self, job: str, state: JobState | None) -> JobState:
        if state is None:
            return self.job(job).state
        status = self._frontier.status(job)
        if status and status.ended_ms is None:
            self._jobs.record(status)
        return state


def _changed(spec: JobSpec, changes: Mapping[str, Any]) -> JobSpec:
    """The spec after a change, checked as if it had been submitted so."""
    return read_spec({**spec.model_dump(mode="json", exclude_defaults=True), **changes})


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
