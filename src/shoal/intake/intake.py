"""How work comes in: jobs, more URLs for open jobs, dead letters for another try.

Durable first: what is submitted is in the database before the frontier sees it, and is marked once the frontier has
it. What was cut short in between is carried out again (`complete`): the frontier takes nothing twice.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Protocol

from shoal import spans
from shoal.core.access import DEFAULT_TENANT
from shoal.core.egress import Egress
from shoal.core.frozen import frozen
from shoal.core.model import AdmitReport, Candidate, JobState, Request
from shoal.core.scope import Scope
from shoal.core.sitemaps import dated
from shoal.core.spec import JobSpec, with_max_body
from shoal.core.url import Url, parse
from shoal.errors import Busy, Conflict, InputError, RedisUnavailable, Unavailable, Unfinished
from shoal.frontier.frontier import Frontier
from shoal.frontier.watch import Watch
from shoal.intake.ids import new_job_id, new_request_id
from shoal.intake.lines import Added, Line, expanded, in_batches, sort_out
from shoal.intake.previous import with_previous
from shoal.intake.reach import read_urls, sitemaps_of
from shoal.intake.replay import Replays
from shoal.intake.ring import Ring, announce
from shoal.spiders.models import check_named
from shoal.store.claims import Claim, Claimed
from shoal.store.dead import Selection
from shoal.store.job_rows import JobRow, NewJob
from shoal.store.jobs import JobStore
from shoal.store.submissions import REPLAY, Submission

SUBMIT_AT_ONCE = 5_000
"""URLs that are written to the database together."""
START_AT_ONCE = 50_000
"""URLs of a new job that the frontier gets together; it cuts them into calls."""
FULL_RETRY = timedelta(seconds=10)
MAX_BODY = 64_000_000
"""Bytes of a body that a job may ask for, unless the operator says otherwise."""


@frozen
class Origin:
    """Where a submission comes from."""

    tenant: str = DEFAULT_TENANT
    request_id: str = ""
    allowed: str = ""
    """The operator's word that allows the job's output; empty on the command line, which needs none."""
    trace: str = ""
    """The `traceparent` of whoever submits it."""


@frozen
class Caps:
    """How full the frontier may get before submissions are put off."""

    urls: int
    memory: int
    """Bytes."""


@frozen
class Accepted:
    """A job that was accepted."""

    job: str
    report: AdmitReport
    repeated: bool = False
    """The same submission had come before: this is the job that it made."""


class Full(Busy):
    """The frontier is full; carries what was taken of a stream before it was."""

    def __init__(self, message: str, added: Added | None = None) -> None:
        super().__init__(message, FULL_RETRY)
        self.added = added


class Way(Protocol):
    """On which jobs that the frontier has lost come back."""

    def make_known(self, row: JobRow) -> bool:
        """Begin; False when the frontier knows the job."""
        ...

    def recall(self, job: str) -> None:
        """Let all that is stored of the job count again."""
        ...


class Intake:
    """Everything that brings requests into the frontier, but for links that workers find."""

    def __init__(
        self,
        frontier: Frontier,
        watch: Watch,
        jobs: JobStore,
        replays: Replays,
        ring: Ring,
        caps: Caps,
        finalise: Callable[[str], None],
        way: Way | None = None,
        egress: Egress = Egress(),
        max_body: int = MAX_BODY,
    ) -> None:
        self._frontier = frontier
        self._watch = watch
        self._jobs = jobs
        self._submissions = jobs.submissions
        self._replays = replays
        self._ring = ring
        self._caps = caps
        self._finalise = finalise
        self._way = way
        self._egress = egress
        self._max_body = max_body

    # --- a new job -----------------------------------------------------------------------------------------------

    def submit(self, spec: JobSpec, origin: Origin | None = None, claim: Claim | None = None) -> Accepted:
        """Accept a job: durable first, then the frontier, then the doorbell."""
        origin = origin or Origin(request_id=new_request_id())
        with spans.root("submit", origin.trace) as trace:
            return self._submit(spec, replace(origin, trace=trace), claim)

    def _submit(self, spec: JobSpec, origin: Origin, claim: Claim | None) -> Accepted:
        spec, named, urls = self.examine(spec)
        spec = self.follow(spec, origin.tenant)
        self._check_room(len(urls))
        spec = _with_scope(dated(spec, time.time()), named, urls)
        new = NewJob(new_job_id(), spec, _now_ms(), origin.tenant, origin.request_id, origin.allowed, origin.trace)
        try:
            batches = ([str(url) for url in batch] for batch in _batches(urls, SUBMIT_AT_ONCE))
            waiting = self._jobs.create(new, batches, claim)
        except Claimed as earlier:
            return self._repeat(earlier)
        try:
            report = self._start(new, urls)
            self._submissions.mark_admitted(waiting)
        except Unavailable as exc:
            raise Unfinished(new.id, exc) from exc
        announce(self._ring, spec.queue, origin.request_id)
        return Accepted(new.id, report)

    def examine(self, spec: JobSpec) -> tuple[JobSpec, list[Url], list[Url]]:
        """(the job within its bounds, the URLs that it names, with those of its sitemaps); refused, if it would be."""
        spec = with_max_body(spec, self._max_body)
        named = read_urls(spec, self._egress)
        urls = [*sitemaps_of(spec, named, self._egress), *named]
        _check_purpose(spec, urls)
        check_named(spec)
        return spec, named, urls

    def follow(self, spec: JobSpec, tenant: str) -> JobSpec:
        """The job with the run that it follows, if it names one; refused when that is none of the tenant's."""
        return with_previous(spec, self._jobs, tenant)

    def _start(self, new: NewJob, urls: list[Url]) -> AdmitReport:
        job = new.id
        self._frontier.create(job, new.spec, len(urls), new.tenant)
        report = AdmitReport(JobState.RUNNING)
        for batch in _batches(urls, START_AT_ONCE):
            report += self._frontier.admit_submitted(job, batch)
            if report.state is None:
                raise RedisUnavailable("Redis has lost the job")
        if not new.spec.open:
            self._close(job)
        return report

    def _repeat(self, earlier: Claimed) -> Accepted:
        if not earlier.same:
            raise Conflict(f"this Idempotency-Key was used for another submission, which made job {earlier.job}")
        self.complete(earlier.job)
        submitted = self._submissions.count_urls(earlier.job)
        return Accepted(earlier.job, AdmitReport(None, admitted=submitted), repeated=True)

    # --- more URLs -----------------------------------------------------------------------------------------------

    def add(self, row: JobRow, lines: Iterable[Line], local: Sequence[str] = ()) -> Added:
        """Let a stream of URLs into an open job, batch by batch; memory does not grow with its length.

        `local`: hosts on this machine that whoever sends them may name.
        """
        if row.state.ended:
            raise Conflict(f"job {row.id} is {row.state.value} and takes no more URLs")
        if not row.open:
            raise Conflict(f"job {row.id} takes no more URLs; submit a job with `open: true` to send more later")
        scope = Scope.of(row.spec.hosts if row.spec.goes_on else ())  # who names a URL wants it; see core/scope.py
        added, done = Added(), list[int]()
        try:
            for batch, last in in_batches(expanded(lines), SUBMIT_AT_ONCE):
                done = self._add_batch(row, sort_out(row.spec, scope, self._egress, local, batch), added, done)
                added.lines = last
        finally:
            if done:
                self._submissions.mark_admitted(done)
            if added.accepted:
                announce(self._ring, row.spec.queue, row.request_id)
        return added

    def _add_batch(
        self, row: JobRow, sorted_out: tuple[list[Candidate], list[tuple[int, str]]], added: Added, done: list[int]
    ) -> list[int]:
        candidates, problems = sorted_out
        wanted = [candidate for candidate in candidates if isinstance(candidate, Request)]
        try:
            self._check_room(len(wanted))
        except Full as full:
            raise Full(
                f"{full} Lines up to {added.lines} were taken: go on with line {added.lines + 1}.", added
            ) from None
        if wanted:
            done = [self._submissions.keep(row.id, [str(request.url) for request in wanted], _now_ms(), done=done)]
        if candidates:
            report = self._admit(row, candidates)
            added.accepted += report.admitted
            added.seen += report.duplicates
            added.filtered += report.filtered + report.over_budget
        for number, problem in problems:
            added.note(number, problem)
        return done

    def _admit(self, row: JobRow, candidates: list[Candidate]) -> AdmitReport:
        report = self._frontier.admit(row.id, candidates)
        if report.state is None:
            self._make_known(row)
            report = self._frontier.admit(row.id, candidates)
        if report.state is None and self._frontier.status(row.id) is not None:
            raise RedisUnavailable(
                f"Redis has lost job {row.id}, which is being rebuilt: send the URLs again in a while"
            )
        if report.state is None or report.state.ended:
            raise Conflict(f"job {row.id} has ended meanwhile and takes no more URLs")
        return report

    # --- another try ---------------------------------------------------------------------------------------------

    def replay(self, row: JobRow, chosen: Selection) -> int:
        """Try dead letters once more; a job that has finished goes on for them. Returns how many there were."""
        if row.state is JobState.CANCELLED:
            raise Conflict(f"job {row.id} was cancelled: submit its dead letters as a new job")
        count, done = 0, list[int]()
        for taken in self._replays.take(row.id, chosen):
            count += len(taken.lines)
            if self._replays.carry_out(row, taken):
                done.append(taken.id)
        self._conclude(row, done)
        return count

    # --- what was cut short --------------------------------------------------------------------------------------

    def bring_back(self, job: str) -> None:
        """Make the frontier know a job that it does not (any more), so that it can be ended with the right sums."""
        self.make_known(job)
        self.recall(job)

    def make_known(self, job: str) -> None:
        """Let the frontier know a job that it does not (any more), if it has not ended; it may have to be rebuilt."""
        self.complete(job)
        row = self._jobs.get(job)
        if row is not None and not row.state.ended:
            self._make_known(row)

    def recall(self, job: str) -> None:
        """If the job is being rebuilt, what is stored of it counts from now on."""
        if self._way:
            self._way.recall(job)

    def complete(self, job: str) -> bool:
        """Carry out submissions that may not have reached the frontier. Safe to repeat; True when there were any."""
        row = self._jobs.get(job)
        waiting, done = 0, list[int]()
        for submission in self._submissions.waiting(job):
            waiting += 1
            if row is None or row.state is JobState.CANCELLED or self._carry_out(row, submission):
                done.append(submission.id)
        if row is None or row.state is JobState.CANCELLED:
            self._submissions.mark_admitted(done)
        else:
            self._conclude(row, done)
        return waiting > 0

    def _carry_out(self, row: JobRow, submission: Submission) -> bool:
        """Bring a submission into the frontier; False when that did not succeed this time."""
        if submission.kind == REPLAY:
            return self._replays.carry_out(row, submission)
        if row.state.ended:
            return True  # it could not have ended without them, or it was closed to them
        self._make_known(row)
        self._frontier.admit_submitted(row.id, [parse(line) for line in submission.lines])
        return True

    def _conclude(self, row: JobRow, done: list[int]) -> None:
        """Closed before it is marked: a crash in between leaves something to be carried out again."""
        if not done:
            return
        if not row.open:
            self._close(row.id)
        self._submissions.mark_admitted(done)
        announce(self._ring, row.spec.queue, row.request_id)

    def _make_known(self, row: JobRow) -> None:
        """One that the frontier had and has lost must be rebuilt before it takes anything.

        It may also have been forgotten because it ended meanwhile: then it must not come back.
        """
        if self._way and self._submissions.was_admitted(row.id):
            new = self._way.make_known(row)
        else:
            new = self._frontier.create(row.id, row.spec, tenant=row.tenant)
        if not new:
            return
        now = self._jobs.get(row.id)
        if now is None or now.state.ended:
            self._frontier.cancel(row.id)
            self._frontier.forget(row.id)
        else:
            heed(self._frontier, now)

    def _close(self, job: str) -> None:
        _, ended = self._frontier.close(job)
        if ended:
            self._finalise(job)

    def _check_room(self, more: int) -> None:
        load = self._watch.load()
        if load.urls + more > self._caps.urls:
            raise Full(f"The frontier holds {load.urls} URLs of at most {self._caps.urls}.")
        most = load.most(self._caps.memory)
        if load.memory > most:
            raise Full(f"Redis uses {load.memory // 1_000_000} MB of at most {most // 1_000_000} MB.")


def heed(frontier: Frontier, row: JobRow) -> None:
    """Let a job that was just made known run or rest as its row says, which may have changed since it was read."""
    (frontier.pause if row.state is JobState.PAUSED else frontier.resume)(row.id)


def _check_purpose(spec: JobSpec, urls: list[Url]) -> None:
    if not urls and not spec.open:
        raise InputError("no URLs given: name at least one", "urls")
    if not urls and spec.goes_on and not spec.hosts:
        raise InputError(
            "a job that follows links needs `urls` or `hosts`, to know where to stay; or `follow: false`", "hosts"
        )


def _with_scope(spec: JobSpec, named: list[Url], urls: list[Url]) -> JobSpec:
    """The spec with what follows from its URLs: the hosts to stay on, and the origins that may see secrets.

    Where pages are named, it stays on their hosts, wherever the sitemaps are.
    """
    changes: dict[str, tuple[str, ...]] = {}
    if spec.goes_on:
        stay = named or (() if spec.hosts else urls)
        changes["hosts"] = tuple(dict.fromkeys([*spec.hosts, *(url.host for url in stay)]))
    if spec.has_secrets:
        changes["trusted"] = tuple(dict.fromkeys([*spec.trusted, *(url.origin for url in urls)]))
    return spec.model_copy(update=changes)


def _batches(urls: list[Url], size: int) -> Iterator[list[Url]]:
    for start in range(0, len(urls), size):
        yield urls[start : start + size]


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
