"""The frontier against a model: any operations, in any order, from several workers, on a real server.

After each step everything that stands in Redis is read and compared with the model, and the invariants are checked.
Redis' clock cannot be set; so leases and delays are short, rates are high, and the model reckons with spans of time.
SHOAL_TEST_LONG=1 runs many more and longer examples.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TypeVar

import pytest
import redis
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from shoal.core.job_status import JobStatus
from shoal.core.manners import Signal
from shoal.core.model import ALL_QUEUES, Candidate, Lease, Level, Outcome, Rejected, Request, Settlement, SettleReport
from shoal.core.spec import JobSpec
from shoal.core.url import Url, parse
from shoal.frontier.frontier import Frontier
from shoal.frontier.host_change import HostChange
from tests.contract.frontier_checks import check_all, check_lease, check_nothing_is_left
from tests.contract.frontier_model import FrontierModel, Span
from tests.contract.frontier_steps import ANY_STEP, HOST_NAMES, JOB_NAMES, MANNERS, SPECS, WORKERS, Step
from tests.contract.frontier_time import Clock
from tests.contract.keyspace import clear, read_keys
from tests.contract.snapshot import Snapshot
from tests.long import LONG

T = TypeVar("T")

SETTINGS = settings(
    max_examples=500 if LONG else 30,
    stateful_step_count=100 if LONG else 40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
WORK_OFF_S = 0.05
"""Long enough for what waits for a slot or a retry; what a low rate keeps longer is cancelled."""

_numbers = itertools.count(1)


@dataclass(slots=True)
class Worker:
    """A worker knows what it was given, not whether that was taken back meanwhile."""

    held: list[Lease] = field(default_factory=list[Lease])
    settled: list[Lease] = field(default_factory=list[Lease])

    def give_up(self, skip: int, count: int) -> list[Lease]:
        given = self.held[skip : skip + count]
        del self.held[skip : skip + count]
        self.settled += given
        return given


class FrontierMachine(RuleBasedStateMachine):
    """Each step does one operation on both sides and compares the answers."""

    def __init__(self, client: redis.Redis) -> None:
        super().__init__()
        self.client = client
        self.prefix = f"m{next(_numbers)}"
        self.frontier = Frontier(client, self.prefix, MANNERS)
        self.model = FrontierModel(MANNERS)
        self.clock = Clock(client, self.prefix)
        self.workers = [Worker() for _ in range(WORKERS)]
        self.last_sums: dict[str, JobStatus] = {}
        self.now = Span(0, 0)
        self.snapshot = self.look()
        self.sound = False

    def worker(self, hand: int) -> Worker:
        """A worker that holds something; when none does, one takes something first.

        What is drawn must not depend on this, for it depends on time.
        """
        if not any(worker.held for worker in self.workers):
            self.lease(hand, ALL_QUEUES, 15, timedelta(milliseconds=20))
            self.all_invariants_hold()
        busy = [worker for worker in self.workers if worker.held] or self.workers
        return busy[hand % len(busy)]

    def look(self) -> Snapshot:
        return Snapshot.read(self.client, self.prefix)

    def timed(self, operation: Callable[[], T]) -> T:
        """Do it, and note when it was; the server counts whole milliseconds."""
        self.sound = False
        before = math.floor(time.time() * 1000)
        answer = operation()
        self.now = Span(before, time.time() * 1000)
        return answer

    @invariant()
    def all_invariants_hold(self) -> None:
        self.snapshot = self.look()
        check_all(self.model, self.snapshot, self.now)
        self.sound = True

    @rule(step=ANY_STEP)
    def do(self, step: Step) -> None:
        getattr(self, step.name)(**step.arguments)

    # --- a job's life -------------------------------------------------------------------------------------------

    @initialize(specs=st.tuples(SPECS, SPECS), count=st.integers(1, 8))
    def start(self, specs: tuple[JobSpec, JobSpec], count: int) -> None:
        """Two jobs of two tenants that share their hosts."""
        for name, spec, tenant in zip(JOB_NAMES, specs, ("gold", "plain"), strict=False):
            self.create(name, spec, tenant)
            self.admit(name, HOST_NAMES[:2], 0, count, Level.NORMAL, 0, 0)

    def create(self, name: str, spec: JobSpec, tenant: str) -> None:
        created = self.timed(lambda: self.frontier.create(name, spec, tenant=tenant))
        assert created == self.model.create(name, spec, tenant)

    def admit(
        self,
        name: str,
        hosts: Sequence[str],
        first: int,
        count: int,
        level: Level,
        every_nth_refused: int,
        duplicates: int,
        render: bool = False,
    ) -> None:
        candidates: list[Candidate] = [
            Rejected(_url(host, page), "scope")
            if every_nth_refused and page % every_nth_refused == 0
            else Request(
                _url(host, page),
                depth=page % 3,
                level=level,
                render=render and page % 2 == 0,
                callback="detail" if page % 3 == 1 else "",
                meta=f'{{"from": "{host} /{page}"}}' if page % 4 == 1 else "",
            )
            for page in range(first, first + count)
            for host in hosts
        ]
        report = self.timed(lambda: self.frontier.admit(name, candidates, duplicates))
        assert report == self.model.admit(name, candidates, duplicates)

    def pause(self, name: str) -> None:
        assert self.timed(lambda: self.frontier.pause(name)) == self.model.pause(name)

    def resume(self, name: str) -> None:
        assert self.timed(lambda: self.frontier.resume(name)) == self.model.resume(name)

    def close(self, name: str) -> None:
        assert self.timed(lambda: self.frontier.close(name)) == self.model.close(name)

    def cancel(self, name: str) -> None:
        assert self.timed(lambda: self.frontier.cancel(name)) == self.model.cancel(name)

    def forget(self, name: str) -> None:
        status = self.frontier.status(name)
        if status is not None:
            self.last_sums[name] = status
        assert self.timed(lambda: self.frontier.forget(name)) == self.model.forget(name)

    def restore(self, name: str) -> None:
        """What the frontier has forgotten, the database still knows; what is not forgotten is, if it can be."""
        if name not in self.model.forgotten:
            self.cancel(name)
            self.forget(name)
        if name not in self.model.forgotten:
            return
        job, status = self.model.forgotten[name], self.last_sums[name]
        restored = self.timed(lambda: self.frontier.restore(name, job.spec, status, job.tenant))
        assert restored == self.model.restore(name)
        if restored:
            self.frontier.remember(name, [(mark, "any") for mark in sorted(job.seen)])

    def replay(self, name: str, hand: int, skip: int, count: int, token: str) -> None:
        """Some dead requests of a job, of this one if it has any; the token may have been used."""
        if not any(job.dead for job in self.model.jobs.values()):
            self.settle(hand, 0, count, [Outcome.DEAD])
            self.all_invariants_hold()
        names = [name, *(job.name for job in self.model.jobs.values() if job.dead)]
        job = next((job for job in map(self.model.jobs.get, names) if job and job.dead), None)
        dead = list(job.dead.items())[skip:][:count] if job else []
        name = job.name if job else name
        state = self.timed(lambda: self.frontier.replay(name, token, dead))
        assert state == self.model.replay(name, token, [request for request, _ in dead])

    def configure_job(self, name: str, spec: JobSpec) -> None:
        """What fetches its pages stays."""
        if name in self.model.jobs:
            spec = spec.model_copy(update={"engine": self.model.jobs[name].spec.engine})
        places = _places_in_order(self.snapshot, name, spec.queue)
        state = self.timed(lambda: self.frontier.configure_job(name, spec))
        assert state == self.model.configure_job(name, spec, places)

    def configure_host(self, host: str, change: HostChange) -> None:
        self.timed(lambda: self.frontier.configure_host(host, change))
        self.model.configure_host(host, change, self.now)

    def learn_robots(self, host: str, crawl_delay: float | None) -> None:
        self.timed(lambda: self.frontier.learn_robots(host, crawl_delay, f"https://{host}"))
        self.model.learn_robots(host, crawl_delay, self.now)

    # --- a request's way ----------------------------------------------------------------------------------------

    def lease(self, hand: int, queues: Sequence[str], limit: int, lease_for: timedelta) -> None:
        batch = self.timed(lambda: self.frontier.lease(queues=queues, limit=limit, lease_for=lease_for))
        self.workers[hand].held += batch.leases
        after = self.look()
        self.model.promote(_taken_up(self.snapshot, after), self.now)
        self.model.lease(batch, queues, limit, lease_for, self.now)
        for name, values in after.hosts.items():
            self.model.host(name).slowed |= bool(values.get("slow"))
        check_lease(self.model, self.snapshot, after, batch, queues, limit, self.now)

    def settle(
        self,
        hand: int,
        skip: int,
        count: int,
        outcomes: Sequence[Outcome],
        delay: timedelta = timedelta(),
        hold: timedelta = timedelta(),
        again: int = 0,
        signals: Sequence[Signal] = (Signal.NONE,),
        counts: bool = True,
        latency: timedelta = timedelta(),
        render: bool = False,
    ) -> None:
        """Some of what the worker holds, or held before; some of it is named again in the same call."""
        worker = self.worker(hand)
        repeated = worker.settled[:again]
        leases = [*worker.give_up(skip, count), *repeated]
        settlements = [
            Settlement(
                lease,
                outcome,
                reason="" if outcome is Outcome.DONE else "http_503",
                delay=delay,
                hold_host=hold if number == 0 else timedelta(),
                latency=latency,
                received=number,
                counts=counts,
                signal=signal,
                render=render,
            )
            for number, (lease, outcome, signal) in enumerate(
                zip(leases, itertools.cycle(outcomes), itertools.cycle(signals), strict=False)
            )
        ]
        settlements += [replace(settlement, outcome=Outcome.DEAD) for settlement in settlements[:again]]
        report = self.timed(lambda: self.frontier.settle(settlements))
        assert _in_order(report) == _in_order(self.model.settle(settlements, self.now))

    def release(self, hand: int, skip: int, count: int, again: int) -> None:
        leases = self.worker(hand).give_up(skip, count)
        leases += leases[:again]
        report = self.timed(lambda: self.frontier.release(leases))
        assert _in_order(report) == _in_order(self.model.release(leases, self.now))

    def renew(self, hand: int, lease_for: timedelta) -> None:
        groups = sorted({lease.group for lease in self.worker(hand).held})
        lost = self.timed(lambda: self.frontier.renew(groups, lease_for))
        assert lost == self.model.renew(groups, lease_for, self.now)

    def reap(self, limit: int) -> None:
        returned, ended = self.timed(lambda: self.frontier.reap(limit))
        left = self.look().deadlines
        groups = [group for group in self.snapshot.deadlines if group not in left]
        expected, ending = self.model.reap(groups, limit, self.now)
        assert (returned, sorted(ended)) == (expected, sorted(ending))

    def crash(self, hand: int) -> None:
        """The worker never comes back; its leases run out."""
        worker = self.worker(hand)
        worker.held.clear()
        worker.settled.clear()

    def glance(self, queues: Sequence[str]) -> None:
        glance = self.timed(lambda: self.frontier.glance(queues))
        surely, perhaps = self.model.expired(self.now)
        assert surely <= glance.expired <= perhaps
        assert glance.waits.keys() == self.snapshot.due.keys() & set(queues)

    def wait(self, ms: int) -> None:
        time.sleep(ms / 1000)

    def let_pass(self, ms: int) -> None:
        self.clock.let_pass(timedelta(milliseconds=ms))
        self.model.let_pass(ms)
        self.now = self.now.plus(-ms)

    # --- the end ------------------------------------------------------------------------------------------------

    def teardown(self) -> None:
        try:
            if self.sound:
                self.bring_to_an_end()
        finally:
            clear(self.client, self.prefix)

    def bring_to_an_end(self) -> None:
        """Whatever happened, the jobs can be finished, and then nothing is left of them."""
        self.workers = [Worker([Lease(*token, *held) for token, held in self.model.leased.items()])]
        for host in HOST_NAMES:
            self.configure_host(host, HostChange(paused=False))
        for number, name in enumerate(self.model.jobs):
            self.resume(name)
            if number != 1:  # the second one runs dry before it is closed
                self.close(name)
        self.work_off()
        for name in self.model.jobs:
            self.close(name)
            self.cancel(name)
        self.settle_everything(Outcome.RETRY)
        assert all(job.ended for job in self.model.jobs.values())
        for name in list(self.model.jobs):
            self.forget(name)
        self.all_invariants_hold()
        check_nothing_is_left(self.snapshot)

    def work_off(self) -> None:
        deadline = time.monotonic() + WORK_OFF_S
        outcome = Outcome.RETRY
        while any(job.counters.pending for job in self.model.jobs.values()) and time.monotonic() < deadline:
            self.settle_everything(outcome)
            self.lease(0, ALL_QUEUES, 100, timedelta(minutes=1))
            self.all_invariants_hold()
            outcome = Outcome.DONE

    def settle_everything(self, outcome: Outcome) -> None:
        held = self.workers[0].held
        if held:
            self.settle(0, 0, len(held), [outcome])
            self.all_invariants_hold()


def _url(host: str, page: int) -> Url:
    return parse(f"http{'s' if page % 2 else ''}://{host}/{page}")


def _taken_up(before: Snapshot, after: Snapshot) -> dict[str, list[Request]]:
    """Job → requests that were delayed and no longer are, in the order of their due times."""
    return {
        job: [request for request in requests if request not in after.delayed.get(job, {})]
        for job, requests in before.delayed.items()
        if requests.keys() != after.delayed.get(job, {}).keys()
    }


def _places_in_order(snapshot: Snapshot, job: str, queue: str) -> list[tuple[str, bool]]:
    """A job's hosts as it looks at them when it is changed: slow ones last unless it changes its queue.

    Then those of its browser half.
    """
    ready, lag = snapshot.ready.get(job, {}), snapshot.lag.get(job, {})
    if job in snapshot.jobs and snapshot.jobs[job]["queue"] != queue:
        ready, lag = {**ready, **lag}, {}
    render = snapshot.render.get(job, {})
    return [*((host, False) for host in (*sorted(ready), *sorted(lag))), *((host, True) for host in sorted(render))]


def _in_order(report: SettleReport) -> SettleReport:
    """Which of two jobs that end in one call is named first does not matter."""
    return SettleReport(report.late, tuple(sorted(report.ended)))


def test_the_frontier_behaves_like_its_model(client: redis.Redis) -> None:
    class OnThisServer(FrontierMachine):
        def __init__(self) -> None:
            super().__init__(client)

    run_state_machine_as_test(OnThisServer, settings=SETTINGS)


@pytest.mark.parametrize("expected", [0, 9_000])
def test_seen_buckets_grow_one_by_one_and_stay_compact(client: redis.Redis, prefix: str, expected: int) -> None:
    frontier = Frontier(client, prefix)
    frontier.create("j", JobSpec(), expected)
    pages = [Request(Url("https", f"h{n % 7}.test", f"/{n}")) for n in range(20_000)]
    reports = [frontier.admit("j", pages[start : start + 1_700]) for start in range(0, len(pages), 1_700)]
    assert sum(report.admitted for report in reports) == len(pages)
    assert frontier.admit("j", pages).duplicates == len(pages)

    snapshot = Snapshot.read(client, prefix)
    buckets = {int(key.names["B"]): key for key in snapshot.keys if key.family.name == "seen"}
    assert {key.encoding for key in buckets.values()} == {"intset"}
    assert sorted(snapshot.seen["j"]) == sorted(page.url.fingerprint for page in pages)
    assert buckets.keys() == set(range(math.ceil(len(pages) / 190)))
    for number, key in buckets.items():
        assert {_bucket(int(fingerprint), len(buckets)) for fingerprint in key.value} == {number}


def test_room_is_made_at_once_for_the_urls_that_are_expected(client: redis.Redis, prefix: str) -> None:
    frontier = Frontier(client, prefix)
    frontier.create("j", JobSpec(), 20_000)
    pages = [Request(Url("https", "a.test", f"/{n}")) for n in range(2_000)]
    assert frontier.admit("j", pages).admitted == len(pages)
    buckets = [key for key in read_keys(client, prefix) if key.family.name == "seen"]
    assert max(int(key.names["B"]) for key in buckets) >= len(pages) / 190
    for key in buckets:
        bucket = int(key.names["B"])
        assert {_bucket(int(fingerprint), math.ceil(20_000 / 190)) for fingerprint in key.value} == {bucket}


def _bucket(fingerprint: int, buckets: int) -> int:
    """Linear hashing (Litwin, 1980): by the next power of two, or by the one before where that bucket is not yet."""
    low_digits = int(str(fingerprint)[-9:])
    power = 1 << (buckets - 1).bit_length()
    return low_digits % power if low_digits % power < buckets else low_digits % (power // 2)
