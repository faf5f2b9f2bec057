"""Carrying out the schedule: each fault is a small script of steps, with pauses in which the crawl goes on."""

from __future__ import annotations

import signal
import sqlite3
import time
from collections.abc import Callable, Collection, Generator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from shoal.drill import processes
from shoal.drill.evidence import Held, Injected
from shoal.drill.fleet import Fleet, Worker
from shoal.drill.kind import Kind
from shoal.drill.redis_server import RedisServer
from shoal.drill.schedule import Fault

STEP_S = 0.05
STOP_S = 20.0
"""A worker that was told to stop and has not ended after this time is killed, and that is a finding."""
LOOKS = 2
"""What a worker had sent just before it was stopped may be carried out behind the first look."""
LOCK_S = 20.0
"""Another writer may be frozen with the lock in its hand."""
LIVELY_S = 0.5
"""A crawl that has stored a page within this time is under way."""
HANDS_FULL = 0.8
"""Of the time of a lock: then workers have fetched all that they can, and could store nothing of it."""

Steps = Generator[float, None, None]
"""Yields how many seconds to wait before the next step."""


@dataclass(slots=True)
class Case:
    """A fault under way."""

    fault: Fault
    began: float
    progress: float
    victim: Worker | None = None
    held: set[Held] = field(default_factory=set[Held])
    came: bool = True
    exit_code: int | None = None
    note: str = ""
    wakes_at: float = 0.0
    steps: Steps | None = None

    def closed(self, now: float) -> Injected:
        number = self.victim.number if self.victim else None
        held = frozenset(self.held)
        return Injected(self.fault.kind, number, self.began, now, held, self.progress, self.exit_code, self.note)


class Injector:
    """Begins faults when their moment has come, and ends them in time."""

    def __init__(
        self,
        schedule: Collection[Fault],
        fleet: Fleet,
        server: RedisServer,
        database: Path,
        leased: Callable[[int | None], set[Held]],
    ) -> None:
        """`leased` tells what a worker has leased, or what all of them have."""
        self._waiting = list(schedule)
        self._fleet = fleet
        self._server = server
        self._database = database
        self._leased = leased
        self._cases: list[Case] = []
        self._progress = 0.0
        self._progress_at = 0.0
        self.injected: list[Injected] = []

    @property
    def under_way(self) -> list[Kind]:
        return [case.fault.kind for case in self._cases]

    def step(self, progress: float) -> None:
        """Do what is due now."""
        if progress > self._progress:
            self._progress, self._progress_at = progress, time.monotonic()
        for case in list(self._cases):
            if time.monotonic() >= case.wakes_at:
                self._advance(case)
        if self._waiting and progress >= self._waiting[0].at and self._may_begin(self._waiting[0]):
            self._begin(self._waiting.pop(0), progress)

    def drop_waiting(self) -> None:
        """The crawl is over: what has not begun will not come."""
        self._waiting.clear()

    def _may_begin(self, fault: Fault) -> bool:
        """One outage at a time; and a worker fault needs Redis, to know what is leased, and a worker that works.

        A lock shows nothing about those who have just come back from another outage and have no page to store.
        """
        if any(not case.fault.kind.hits_worker for case in self._cases):
            return False
        if fault.kind is Kind.KILL_UNDER_LOCK and time.monotonic() - self._progress_at > LIVELY_S:
            return False
        if fault.kind is Kind.KILL_EVERYTHING:
            return not self._cases
        return not fault.kind.has_victim or self._victim(fault) is not None

    def _begin(self, fault: Fault, progress: float) -> None:
        case = Case(fault, time.monotonic(), progress)
        if fault.kind.has_victim:
            case.victim = self._victim(fault)
        case.steps = self._script(case)
        self._cases.append(case)
        self._advance(case)

    def _advance(self, case: Case) -> None:
        pause = next(case.steps, None) if case.steps else None
        if pause is None:
            self._cases.remove(case)
            if case.came:
                self.injected.append(case.closed(time.monotonic()))
                self.injected.sort(key=lambda injected: injected.began)
        else:
            case.wakes_at = time.monotonic() + pause

    def _victim(self, fault: Fault) -> Worker | None:
        """The worker that was drawn, or the next one that works and is not hit already."""
        return next(iter(self._at_work(fault)), None)

    def _at_work(self, fault: Fault) -> list[Worker]:
        """Those that work and are not hit already, the one that was drawn first."""
        hit = {case.victim.number for case in self._cases if case.victim and case.fault is not fault}
        workers = self._fleet.workers[fault.worker :] + self._fleet.workers[: fault.worker]
        return [each for each in workers if each.number not in hit and each.pool]

    def _script(self, case: Case) -> Steps:
        scripts: dict[Kind, Callable[[Case], Steps]] = {
            Kind.KILL_WORKER: self._kill_worker,
            Kind.KILL_MAIN: self._kill_worker,
            Kind.KILL_CHILD: self._kill_child,
            Kind.STOP_WORKER: self._stop_worker,
            Kind.FREEZE_WORKER: self._freeze,
            Kind.FREEZE_CHILD: self._freeze,
            Kind.KILL_REDIS: self._kill_redis,
            Kind.FREEZE_REDIS: self._freeze_redis,
            Kind.LOCK_DATABASE: self._lock_database,
            Kind.KILL_UNDER_LOCK: self._kill_under_lock,
            Kind.KILL_EVERYTHING: self._kill_everything,
            Kind.FLUSH_REDIS: self._flush_redis,
            Kind.CUT_REDIS: self._cut_redis,
        }
        return scripts[case.fault.kind](case)

    # --- what is leased ------------------------------------------------------------------------------------------

    def _hold_still(self, case: Case, members: Sequence[int]) -> None:
        """Stop processes, and write down what they hold: they take no more between this look and the fault."""
        processes.send(members, signal.SIGSTOP)
        for _ in range(LOOKS):
            self._note_leases(case)

    def _note_leases(self, case: Case) -> None:
        """What the victim has leased, or all of them when all are hit."""
        case.held |= self._leased(case.victim.number if case.victim and case.fault.kind.hits_worker else None)

    def _still_fleet(self, case: Case) -> list[int]:
        """All workers but those that are frozen already, held still."""
        frozen = {other.victim.number for other in self._cases if other.victim}
        members = [pid for each in self._fleet.workers if each.number not in frozen for pid in each.family]
        self._hold_still(case, members)
        return members

    # --- workers -------------------------------------------------------------------------------------------------

    def _kill_worker(self, case: Case) -> Steps:
        victim = _victim_of(case)
        members = victim.family
        self._hold_still(case, members)
        victim.expected_away = True
        if case.fault.kind is Kind.KILL_MAIN:
            processes.send(members[:1], signal.SIGKILL)
            processes.send(members[1:], signal.SIGCONT)
        else:
            processes.send(reversed(members), signal.SIGKILL)
        yield case.fault.seconds
        victim.child.start()
        victim.expected_away = False

    def _kill_child(self, case: Case) -> Steps:
        pool = _victim_of(case).pool
        self._hold_still(case, pool)
        processes.send(pool, signal.SIGKILL)
        yield from ()

    def _stop_worker(self, case: Case) -> Steps:
        victim = _victim_of(case)
        members = victim.family
        self._hold_still(case, members)
        victim.expected_away = True
        victim.child.ask_to_stop()
        processes.send(reversed(members), signal.SIGCONT)
        while victim.runs and time.monotonic() - case.began < STOP_S:
            yield STEP_S
        case.exit_code = victim.child.code
        if victim.runs:
            case.note = f"did not end within {STOP_S:g} s"
            victim.child.kill()
        else:
            case.note = f"exit code {case.exit_code} after {time.monotonic() - case.began:.1f} s"
        yield case.fault.seconds
        victim.child.start()
        victim.expected_away = False

    def _freeze(self, case: Case) -> Steps:
        victim = _victim_of(case)
        frozen = victim.pool if case.fault.kind is Kind.FREEZE_CHILD else victim.family
        self._hold_still(case, frozen)
        yield case.fault.seconds
        processes.send(reversed(frozen), signal.SIGCONT)

    # --- what all share ------------------------------------------------------------------------------------------

    def _kill_redis(self, case: Case) -> Steps:
        members = self._still_fleet(case)
        self._server.kill()
        processes.send(reversed(members), signal.SIGCONT)
        yield case.fault.seconds
        self._server.start()
        self._note_leases(case)

    def _freeze_redis(self, case: Case) -> Steps:
        members = self._still_fleet(case)
        self._server.freeze()
        processes.send(reversed(members), signal.SIGCONT)
        yield case.fault.seconds
        self._server.thaw()
        self._note_leases(case)

    def _flush_redis(self, case: Case) -> Steps:
        members = self._still_fleet(case)
        self._server.flush()
        processes.send(reversed(members), signal.SIGCONT)
        yield from ()

    def _cut_redis(self, case: Case) -> Steps:
        """What is leased afterwards is an old story: of that, nothing may be fetched again."""
        members = self._still_fleet(case)
        self._server.kill()
        case.note = f"{self._server.cut(case.fault.depth):,} bytes lost"
        processes.send(reversed(members), signal.SIGCONT)
        yield case.fault.seconds
        self._server.start()

    def _kill_everything(self, case: Case) -> Steps:
        members = self._still_fleet(case)
        for worker in self._fleet.workers:
            worker.expected_away = True
        self._server.kill()
        processes.send(reversed(members), signal.SIGKILL)
        yield case.fault.seconds
        self._server.start()
        for worker in self._fleet.workers:
            worker.child.start()
            worker.expected_away = False

    def _lock_database(self, case: Case) -> Steps:
        return self._under_lock(case, _wait)

    def _kill_under_lock(self, case: Case) -> Steps:
        yield from self._under_lock(case, self._kill_holder_of_results)
        victim = _victim_of(case)
        if victim.expected_away:
            victim.child.start()
            victim.expected_away = False

    def _under_lock(self, case: Case, then: Callable[[Case], Steps]) -> Steps:
        """Take the database's lock, whoever has it now, and let it go after these steps."""
        connection = sqlite3.connect(self._database, timeout=0, isolation_level=None)
        try:
            while not _locked(connection):
                case.came = time.monotonic() - case.began <= LOCK_S
                if not case.came:
                    return
                yield STEP_S
            self._note_leases(case)
            yield from then(case)
            connection.execute("ROLLBACK")
            self._note_leases(case)
        finally:
            connection.close()

    def _kill_holder_of_results(self, case: Case) -> Steps:
        """One with empty hands would show nothing."""
        yield case.fault.seconds * HANDS_FULL
        case.victim = max(self._at_work(case.fault), key=lambda each: len(self._leased(each.number)))
        members = case.victim.family
        self._hold_still(case, members)
        case.victim.expected_away = True
        processes.send(reversed(members), signal.SIGKILL)
        yield case.fault.seconds * (1 - HANDS_FULL)


def _victim_of(case: Case) -> Worker:
    if case.victim is None:
        raise ValueError(f"{case.fault.kind} has no victim")
    return case.victim


def _wait(case: Case) -> Steps:
    yield case.fault.seconds


def _locked(connection: sqlite3.Connection) -> bool:
    try:
        connection.execute("BEGIN EXCLUSIVE")
    except sqlite3.OperationalError:
        return False
    return True
