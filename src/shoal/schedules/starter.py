"""Runs are decided about, started and ended.

A run that waits is decided about when its turn comes: it starts, waits on, or is skipped, by the schedule's overlap
policy. The decision is written down before it is carried out, and the job is submitted under a claim that is made of
the slot: whoever crashes in between leaves a run that the next one starts again, as the same job.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from hashlib import sha256

import structlog

from shoal.control import Control
from shoal.core.frozen import frozen
from shoal.core.job_status import JobStatus
from shoal.core.model import JobState
from shoal.core.redact import without_secrets
from shoal.core.schedule import Kind, Overlap, Skip
from shoal.core.spec import JobSpec, read_spec
from shoal.errors import Busy, Conflict, InputError, NotFound, Unfinished
from shoal.frontier.audit import Audit
from shoal.intake.ids import new_request_id
from shoal.intake.intake import Intake, Origin
from shoal.schedules.planner import UNSERVED_PAUSE_MS, for_a_while, not_holding_up
from shoal.store.claims import OWN, Claim
from shoal.store.history import HistoryStore
from shoal.store.job_rows import JobRow
from shoal.store.jobs import JobStore
from shoal.store.schedule_runs import OF_SLOTS, RunRow, RunState, RunStore, Sums, is_time
from shoal.store.schedules import ScheduleRow, ScheduleStore

log = structlog.get_logger()

AT_ONCE = 200
LONGEST_S = 4.0
"""Of one round: who keeps house has more to do."""
LOOK_AGAIN_MS = 2_000
"""At a run that waits for the one before."""
FULL_PAUSE_MS = 10_000
FULL_FOR = timedelta(hours=1)
"""So long a run is tried again while the frontier is full."""
MAX_LABELS = 20

Check = Callable[[JobSpec, str], None]
"""Raises when something that a job names, or the operator's word that allows its output, is not there any more."""


@frozen
class Stores:
    """What is read and written here."""

    schedules: ScheduleStore
    runs: RunStore
    jobs: JobStore
    history: HistoryStore


class Starter:
    """Takes runs from their slot to their end."""

    def __init__(
        self,
        stores: Stores,
        intake: Intake,
        control: Control,
        clock: Callable[[], int],
        check: Check,
        metrics: Audit,
    ) -> None:
        self._stores = stores
        self._runs = stores.runs
        self._intake = intake
        self._control = control
        self._clock = clock
        self._check = check
        self._metrics = metrics

    def tick(self) -> None:
        """End what is over, then start what may start."""
        self.note_ends()
        for schedule in for_a_while(self._runs.waiting_for_somebody(self._clock(), AT_ONCE), LONGEST_S):
            with not_holding_up(schedule, lambda schedule=schedule: self._put_off(schedule)):
                self.go_on(schedule)

    def _put_off(self, schedule: int) -> None:
        states = (RunState.WAITING, RunState.STARTING)
        self._runs.put_off(schedule, states, self._clock() + UNSERVED_PAUSE_MS)

    def run_now(self, row: ScheduleRow, *, force: bool) -> RunRow:
        """A run that somebody asks for, by the overlap policy unless it is forced."""
        run = self._runs.add_now(row.id, Kind.FORCED if force else Kind.MANUAL, self._clock(), row.calendar)
        if run is None:
            raise NotFound(f"there is no schedule {row.name!r} any more")
        self.note_ends(row.id)
        self.go_on(row.id)
        self._runs.trim(row.id)
        return self._runs.get(run.id) or run

    def go_on(self, schedule: int) -> None:
        """Decide about the runs of one schedule, in the order of their slots."""
        row = self._stores.schedules.by_id(schedule)
        if row is None:
            return
        now = self._clock()
        runs = self._runs.under_way(schedule)
        if cut_short := [run for run in runs if run.state is RunState.STARTING and is_time(run.try_ms, now)]:
            for run in cut_short:
                self._start(row, run)
            runs = self._runs.under_way(schedule)
        busy = [run for run in runs if run.state is not RunState.WAITING]
        ahead: list[RunRow] = []
        for run in self._left(row, [run for run in runs if run.state is RunState.WAITING], now):
            if not self._decide(row, run, busy, ahead, now):
                return
        if any(is_time(run.try_ms, now) for run in ahead):
            self._runs.put_off(schedule, (RunState.WAITING,), now + LOOK_AGAIN_MS, other=_job_of(busy))

    # --- decisions -----------------------------------------------------------------------------------------------

    def _left(self, row: ScheduleRow, waiting: list[RunRow], now: int) -> list[RunRow]:
        """Of those that wait, the ones that still count: what somebody has asked for, and slots by the policy."""
        if not row.enabled:
            for run in (run for run in waiting if run.kind in OF_SLOTS):
                self._skip(row, run, Skip.PAUSED, "the schedule was paused before its turn came", (), now)
            waiting = [run for run in waiting if run.kind not in OF_SLOTS]
        if row.timing.overlap is not Overlap.CANCEL:
            return waiting
        latest = max((n for n, run in enumerate(waiting) if run.kind is not Kind.CATCH_UP), default=0)
        forced = [run for run in waiting[:latest] if run.kind is Kind.FORCED]
        for run in waiting[:latest]:
            if run not in forced:
                self._skip(row, run, Skip.SUPERSEDED, "a later run took its place", (), now)
        return [*forced, *waiting[latest:]]

    def _decide(self, row: ScheduleRow, run: RunRow, busy: list[RunRow], ahead: list[RunRow], now: int) -> bool:
        """Start, skip, or let it wait; False when somebody else is at it."""
        if run.kind is Kind.FORCED or not (busy or ahead):
            return self._begin(row, run, busy, now)
        overlap = Overlap.QUEUE if run.kind is Kind.CATCH_UP else row.timing.overlap
        if overlap is Overlap.SKIP:
            return self._skip(row, run, Skip.OVERLAP, _told_of(busy, ahead), busy, now)
        if overlap is Overlap.CANCEL and self._cancel(row, busy):
            busy.clear()
            return self._begin(row, run, busy, now)
        ahead.append(run)
        return True

    def _begin(self, row: ScheduleRow, run: RunRow, busy: list[RunRow], now: int) -> bool:
        """The decision first; then it is carried out, by whoever has the time."""
        previous = self._runs.last_finished(row.id)
        alone = run.kind is not Kind.FORCED
        if not self._runs.begin(run, alone=alone, decided_ms=now, previous=previous, try_ms=now):
            return False
        if decided := self._runs.get(run.id):
            self._start(row, decided)
        busy += [begun for begun in (self._runs.get(run.id),) if begun and begun.ended_ms is None]
        return True

    def _skip(self, row: ScheduleRow, run: RunRow, why: Skip, detail: str, busy: Sequence[RunRow], now: int) -> bool:
        values = {"reason": why.value, "detail": detail, "other": _job_of(busy), "ended_ms": now}
        if not self._runs.turn(run, RunState.SKIPPED, **values):
            return False
        log.info("run_skipped", schedule=row.name, slot_ms=run.slot_ms, reason=why.value, job=values["other"])
        self._metrics.count_runs(f"skipped:{why.value}", 1)
        return True

    def _cancel(self, row: ScheduleRow, busy: Sequence[RunRow]) -> bool:
        """Cancel the runs before; True when all of them are over."""
        for run in busy:
            if run.state is RunState.RUNNING:
                log.info("run_cancelled", schedule=row.name, slot_ms=run.slot_ms, job=run.job)
                self._cancel_job(run.job)
        self.note_ends(row.id)
        return all((now := self._runs.get(run.id)) is None or now.ended_ms is not None for run in busy)

    def _cancel_job(self, job: str) -> None:
        try:
            self._control.cancel(job)
        except NotFound:
            log.info("run_cancelled_gone", job=job)

    # --- the job -------------------------------------------------------------------------------------------------

    def _start(self, row: ScheduleRow, run: RunRow) -> None:
        """Submit its job, once, however often this is tried."""
        now = self._clock()
        try:
            job = self._job_of(row, run)
        except Busy as exc:
            late = now - (run.decided_ms or now) > FULL_FOR / timedelta(milliseconds=1)
            if late:
                self._fail(row, run, "full", str(exc), now)
            else:
                self._runs.turn(run, RunState.STARTING, try_ms=now + FULL_PAUSE_MS, detail=str(exc))
            return
        except (InputError, NotFound, Conflict) as exc:
            self._fail(row, run, "refused", str(exc), now)
            return
        if self._runs.turn(run, RunState.RUNNING, job=job, started_ms=now, detail=""):
            log.info("run_started", schedule=row.name, slot_ms=run.slot_ms, job=job, late_ms=now - run.due_ms)
            self._metrics.count_runs("started", 1)

    def _fail(self, row: ScheduleRow, run: RunRow, reason: str, detail: str, now: int) -> None:
        detail = without_secrets(detail)[:2_000]
        if self._runs.turn(run, RunState.FAILED, reason=reason, detail=detail, ended_ms=now):
            log.warning("run_failed", schedule=row.name, slot_ms=run.slot_ms, reason=reason, error=detail)
            self._metrics.count_runs(f"failed:{reason}", 1)

    def _job_of(self, row: ScheduleRow, run: RunRow) -> str:
        """The run's job: the one that an earlier try has made, or a new one."""
        key = f"{OWN}{row.id} {run.slot_ms}"
        if made := self._stores.jobs.claimed(row.tenant, key):
            self._intake.complete(made)
            return made
        spec = spec_for_run(row, self._stores.schedules.spec(row.id) or {}, self._previous(run))
        self._check(spec, row.allowed)
        origin = Origin(row.tenant, new_request_id(), row.allowed)
        try:
            return self._intake.submit(spec, origin, Claim(key, sha256(key.encode()).hexdigest())).job
        except Unfinished as exc:
            return exc.job

    def _previous(self, run: RunRow) -> str | None:
        """The job before it, if it is still there and at its end: what has not changed since is not fetched again."""
        before = self._stores.jobs.get(run.previous) if run.previous else None
        return run.previous if before and before.state.ended else None

    # --- the end -------------------------------------------------------------------------------------------------

    def note_ends(self, schedule: int | None = None) -> None:
        """Runs whose jobs have ended get their outcome, which stays when the job is removed."""
        for run in self._runs.over(AT_ONCE, schedule):
            job = self._stores.jobs.get(run.job)
            if job and not job.state.ended:
                continue  # it goes on: dead letters are tried again
            state, values = self._end_of(job)
            if self._runs.turn(run, state, **values):
                log.info("run_ended", job=run.job, schedule_id=run.schedule, slot_ms=run.slot_ms, state=state.value)
                self._metrics.count_runs(state.value, 1)

    def _end_of(self, job: JobRow | None) -> tuple[RunState, dict[str, object]]:
        """The state of a run whose job has ended, or is gone."""
        if job is None or job.status is None:
            return RunState.CANCELLED, {"reason": "removed", "ended_ms": self._clock()}
        state = RunState.FINISHED if job.state is JobState.FINISHED else RunState.CANCELLED
        return state, {"ended_ms": job.status.ended_ms, "sums": self._sums(job.status)}

    def _sums(self, status: JobStatus) -> Sums:
        counted = self._stores.history.counted([status.job]).get(status.job)
        pages = status.counters.done - status.redirects
        return Sums(pages, status.counters.dead, counted.items if counted else 0, status.elapsed.total_seconds())


def spec_for_run(row: ScheduleRow, values: dict[str, object], previous: str | None) -> JobSpec:
    """The job of a run: the schedule's, under its name, with a label that finds all of them.

    Unless it is to fetch everything each time, or says itself which run it follows, it knows the one before.
    """
    spec = read_spec(values, f"the job of schedule {row.name}")
    label = f"schedule:{row.name}"
    labels = spec.labels if label in spec.labels else (*spec.labels[: MAX_LABELS - 1], label)
    changes: dict[str, object] = {"name": spec.name or row.name, "labels": labels}
    if spec.recrawl is not False and spec.previous is None:
        changes |= {"previous": previous, "recrawl": True}
    return spec.model_copy(update=changes)


def _told_of(busy: Sequence[RunRow], ahead: Sequence[RunRow]) -> str:
    if job := _job_of(busy):
        return f"job {job} of the run before goes on"
    return "the run before is being started" if busy else "a run before it waits" if ahead else ""


def _job_of(busy: Sequence[RunRow]) -> str:
    return next((run.job for run in reversed(busy) if run.job), "")
