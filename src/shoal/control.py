"""What people and programs can ask of Shoal. The command line and the API call the same functions.

Submitting is: validate, write the job and its URLs to the database, admit them to the frontier, ring. Nothing here
waits for the web.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from shoal.core.model import AdmitReport, JobState, JobStatus, Level, Request
from shoal.core.spec import JobSpec
from shoal.core.url import Url, parse, parse_all
from shoal.errors import InputError, NotFound
from shoal.frontier.frontier import Frontier
from shoal.store.jobs import JobRow, JobStore
from shoal.store.pages import PageRow, PageStore

SUBMIT_AT_ONCE = 5_000
_ID_ALPHABET = "abcdefghjkmnpqrstuvwxyz23456789"

Ring = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Submission:
    """A job that was accepted."""

    job: str
    report: AdmitReport


class Control:
    """The control plane's operations over its stores."""

    def __init__(self, frontier: Frontier, jobs: JobStore, pages: PageStore, ring: Ring) -> None:
        self._frontier = frontier
        self._jobs = jobs
        self._pages = pages
        self._ring = ring

    def submit(self, spec: JobSpec) -> Submission:
        """Accept a job: durable first, then the frontier, then the doorbell."""
        urls = parse_all(spec.urls, drop_tracking=spec.drop_tracking)
        if not urls:
            raise InputError("no URLs given: name at least one")
        spec = _with_scope(spec, urls)
        job = new_job_id()
        self._jobs.create(job, spec, _now_ms())
        for batch in _batches(urls):
            self._jobs.submit(job, [str(url) for url in batch])
        report = self._admit_submitted(job, spec)
        self._ring(spec.queue)
        return Submission(job, report)

    def _admit_submitted(self, job: str, spec: JobSpec) -> AdmitReport:
        """What is in the database goes to the frontier. Safe to repeat: what the job has seen is not taken twice."""
        self._frontier.create(job, spec)
        report = AdmitReport(None)
        for batch in self._jobs.submitted(job):
            report += self._frontier.admit(job, [Request(parse(url), level=Level.FIRST) for url in batch])
        _, ended = self._frontier.close(job)
        if ended:
            self.finalise(job)
        return report

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

    def job(self, job: str) -> JobRow:
        """The job's row, with its present state."""
        return self._with_status(self._row(job))

    def jobs(self, limit: int = 50) -> list[JobRow]:
        """The last jobs, newest first, with their present state."""
        return [self._with_status(row) for row in self._jobs.newest(limit)]

    def status(self, job: str) -> JobStatus:
        """State and sums, from the frontier while the job lives there, else from the database."""
        row = self.job(job)
        if row.status is None:
            raise NotFound(f"Redis does not know job {job}, which has not ended: was it emptied? Submit the job again.")
        return row.status

    def pause(self, job: str) -> JobState:
        """Hand out nothing more; what is under way is finished."""
        return self._change(job, self._frontier.pause(job))

    def resume(self, job: str) -> JobState:
        """Go on with a paused job, or with one whose submission was cut short; ring so that a worker notices."""
        row = self._row(job)
        if not row.state.ended and self._frontier.is_open(job):
            self._admit_submitted(job, row.spec)
        state = self._change(job, self._frontier.resume(job))
        if state is JobState.RUNNING:
            self._ring(self.job(job).spec.queue)
        return state

    def cancel(self, job: str) -> JobState:
        """Drop all that waits; pages already stored stay."""
        state, ended = self._frontier.cancel(job)
        if ended:
            self.finalise(job)
        return self._change(job, state)

    def finalise(self, job: str) -> None:
        """Write an ended job's last sums to the database, then let the frontier forget it. Safe to repeat."""
        status = self._frontier.status(job)
        if status and status.state.ended and status.ended_ms is not None:
            self._jobs.record(status)
            self._frontier.forget(job)

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

    def _row(self, job: str) -> JobRow:
        row = self._jobs.get(job)
        if row is None:
            raise NotFound(f"there is no job {job!r}; `shoal jobs` lists them")
        return row

    def _with_status(self, row: JobRow) -> JobRow:
        """The frontier knows better than the row, until the job has ended and the frontier has forgotten it."""
        if row.state.ended:
            return row
        status = self._frontier.status(row.id)
        if status is None:
            return self._row(row.id)
        if status.state.ended and status.ended_ms is not None:
            self.finalise(row.id)
        return replace(row, state=status.state, status=status)

    def _change(self, job: str, state: JobState | None) -> JobState:
        if state is None:
            return self.job(job).state
        status = self._frontier.status(job)
        if status and status.ended_ms is None:
            self._jobs.record(status)
        return state


def _with_scope(spec: JobSpec, urls: list[Url]) -> JobSpec:
    """The spec with what follows from its URLs: the hosts to stay on, and the origins that may see secrets."""
    changes: dict[str, tuple[str, ...]] = {}
    if spec.follow:
        changes["hosts"] = tuple(dict.fromkeys([*spec.hosts, *(url.host for url in urls)]))
    if spec.secret_headers:
        changes["trusted"] = tuple(dict.fromkeys([*spec.trusted, *(url.origin for url in urls)]))
    return spec.model_copy(update=changes)


def new_job_id() -> str:
    """Short enough to type, random enough for a fleet."""
    return "".join(secrets.choice(_ID_ALPHABET) for _ in range(10))


def _batches(urls: list[Url]) -> Iterator[list[Url]]:
    for start in range(0, len(urls), SUBMIT_AT_ONCE):
        yield urls[start : start + SUBMIT_AT_ONCE]


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
