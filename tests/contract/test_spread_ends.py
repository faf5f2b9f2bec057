"""Several who end a job of a frontier in slots at once, in every order of their steps, while something comes to it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import pytest

from shoal.core.model import JobState, Outcome, Request, Sent, Settlement
from shoal.errors import RedisUnavailable
from shoal.frontier.scripts import Scripts, connect
from shoal.frontier.shards import Shards
from shoal.frontier.slots import slot_of
from shoal.frontier.spread import SpreadFrontier
from tests.contract.frontier_calls import lease, pages, settle, start, status_of
from tests.shards import Servers, running_shards
from tests.waiting import wait_until

STEPS = ("begin_end", "seal", "end_job", "go_on", "unseal")
"""Each call of one of these is a step of who ends a job."""
WAIT_S = 20


@pytest.fixture(scope="module")
def servers() -> Generator[Servers]:
    with running_shards("a", "b") as found:
        yield found


@pytest.fixture(autouse=True)
def _empty(servers: Servers) -> None:
    servers.clear()


def a_frontier(servers: Servers) -> SpreadFrontier:
    control = connect(servers.control)
    return SpreadFrontier(control, "shoal", Shards.at(control, "shoal", servers.urls))


@pytest.fixture
def three(servers: Servers) -> Generator[list[SpreadFrontier]]:
    with ExitStack() as stack:
        found = [a_frontier(servers) for _ in range(3)]
        for each in found:
            stack.callback(each.close_connections)
        yield found


def hosts_of_two_slots() -> tuple[str, str]:
    """In the order in which slots are sealed."""
    found = {slot_of(f"h{n}.test"): f"h{n}.test" for n in range(200)}
    return found[min(found)], found[max(found)]


FIRST, LAST = hosts_of_two_slots()


@dataclass(slots=True)
class Ender:
    """One who ends a job, and goes a step only when he is told to."""

    frontier: SpreadFrontier
    go: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    stands: threading.Event = field(default_factory=threading.Event)
    ended: list[bool] = field(default_factory=list[bool])
    thread: threading.Thread | None = None

    def begin(self, job: str) -> None:
        """Up to the first step."""
        self.ended.clear()
        self.stands.clear()
        self.go = threading.Semaphore(0)
        self.thread = threading.Thread(target=self._run, args=(job,))
        self.thread.start()
        assert self.stands.wait(WAIT_S)

    def _run(self, job: str) -> None:
        try:
            self.ended.append(self.frontier.jobs.ends.try_end(job))
        finally:
            self.thread = None
            self.stands.set()

    def pause(self) -> None:
        """In the thread of this one, before each step."""
        self.stands.set()
        assert self.go.acquire(timeout=WAIT_S)

    def step(self, count: int = 1) -> None:
        for _ in range(count):
            if (thread := self.thread) is None:
                return
            self.stands.clear()
            self.go.release()
            assert self.stands.wait(WAIT_S)
            if self.ended:
                thread.join(WAIT_S)

    def finish(self) -> None:
        self.step(100)
        assert self.ended


@pytest.fixture
def enders(three: list[SpreadFrontier], monkeypatch: pytest.MonkeyPatch) -> tuple[Ender, Ender]:
    first, second = Ender(three[0]), Ender(three[1])
    call = Scripts.call

    def stepwise(self: Scripts, name: str, args: Any) -> Any:
        for ender in (first, second):
            if name in STEPS and threading.current_thread() is ender.thread:
                ender.pause()
        return call(self, name, args)

    monkeypatch.setattr(Scripts, "call", stepwise)
    return first, second


def one_dead(frontier: SpreadFrontier, job: str) -> tuple[Request, str]:
    """A job with two slots, of which nothing is left but a dead request in the first."""
    start(frontier, job, [*pages(FIRST, 1), *pages(LAST, 1)])
    leases = lease(frontier)
    settle(frontier, [one for one in leases if one.request.url.host == LAST])
    (dead,) = (one for one in leases if one.request.url.host == FIRST)
    settle(frontier, [dead], Outcome.DEAD, reason="x")
    connect_close(frontier, job)
    return dead.request, "x"


def connect_close(frontier: SpreadFrontier, job: str) -> None:
    """No more URLs come, and nobody has looked yet whether the job has ended."""
    frontier._scripts.call("close", [job])  # pyright: ignore[reportPrivateUsage]


def check_in_or_refused(frontier: SpreadFrontier, job: str, told: JobState | None, enders: tuple[Ender, Ender]) -> None:
    """What came was taken, and the job goes on; or the job had ended."""
    ended = sum(each.ended == [True] for each in enders)
    status = status_of(frontier, job)
    assert told is status.state, (told, status)
    if told is JobState.FINISHED:
        assert ended == 1
        return
    assert told is JobState.RUNNING
    assert (ended, status.counters.queued) == (0, 1)
    (one,) = lease(frontier)
    assert settle(frontier, [one]).ended == (job,)
    status = status_of(frontier, job)
    assert status.state is JobState.FINISHED
    assert status.reconciles
    frontier.forget(job)


@pytest.mark.parametrize("what", ["replay", "link"])
def test_what_comes_between_any_two_steps_of_two_enders_is_in_the_job_or_refused(
    three: list[SpreadFrontier], enders: tuple[Ender, Ender], what: str
) -> None:
    """Each of them goes some steps, in turn; then something comes; then both go on to the end."""
    other = three[2]
    for number, turns in enumerate(product(range(3), range(4), range(3), range(2))):
        for last in (0, 1):
            job = f"{what}-{number}-{last}"
            dead = one_dead(other, job)
            for each in enders:
                each.begin(job)
            for turn, steps in enumerate(turns):
                enders[turn % 2].step(steps)
            told = other.replay(job, "t", [dead]) if what == "replay" else other.admit(job, pages(FIRST, 2)).state
            enders[1 - last].finish()
            enders[last].finish()
            check_in_or_refused(other, job, told, enders)


def test_a_link_of_a_page_in_another_slot_is_in_the_job(
    three: list[SpreadFrontier], enders: tuple[Ender, Ender], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever ends the job has looked at it before the page was leased, and seals its slot after it was settled."""
    other = three[2]

    def seems_over(*_: object) -> bool:
        return True

    monkeypatch.setattr("shoal.frontier.spread_ends.SpreadEnds._seems_over", seems_over)
    for number, turns in enumerate(product(range(3), range(3), range(2), range(2))):
        job = f"job-{number}"
        start(other, job, [*pages(FIRST, 1), *pages(LAST, 1)])
        leases = lease(other)
        settle(other, [one for one in leases if one.request.url.host == FIRST])
        connect_close(other, job)
        for each in enders:
            each.begin(job)
        for turn, steps in enumerate(turns):
            enders[turn % 2].step(steps)
        (page,) = (one for one in leases if one.request.url.host == LAST)
        assert other.admit(job, pages(FIRST, 2)).admitted == 1
        ended = settle(other, [page]).ended
        assert ended == ()
        for each in enders:
            each.finish()
            assert each.ended == [False]
        assert status_of(other, job).counters.queued == 1
        settle(other, lease(other))
        assert status_of(other, job).state is JobState.FINISHED
        other.forget(job)


def test_links_that_are_owed_by_a_page_whose_lease_was_lost_hold_the_end_up(
    three: list[SpreadFrontier], enders: tuple[Ender, Ender]
) -> None:
    """Somebody else has settled the page; who had it before him has sent its links, and one slot was away."""
    other, ender = three[2], enders[0]
    start(other, "job", [*pages(FIRST, 1), *pages(LAST, 1)])
    leases = lease(other)
    settle(other, leases)
    connect_close(other, "job")
    ender.begin("job")
    ender.step(3)
    (late,) = (one for one in leases if one.request.url.host == FIRST)
    life = other.jobs.list.lives(["job"])["job"].life
    sent = {"job": Sent(life, 0, frozenset(), frozenset({slot_of(LAST)}))}
    assert other.settle([Settlement(late, Outcome.DONE)], sent).late == 1
    ender.finish()
    assert ender.ended == [False]
    assert other.tend() == ()


@pytest.mark.parametrize("name", ["a", "control"])
def test_an_end_that_a_server_has_half_forgotten_is_off(
    servers: Servers, three: list[SpreadFrontier], enders: tuple[Ender, Ender], name: str
) -> None:
    """It has lost that a slot is sealed, or that the end was called off; then something comes; then the end."""
    other, ender = three[2], enders[0]
    dead = one_dead(other, "job")
    if name == "a":
        servers.save()
    ender.begin("job")
    ender.step(1)
    if name == "control":
        servers.save()
    ender.step(2)
    assert other.shards.table()[slot_of(FIRST)] == "a"

    def replay() -> object:
        return other.replay("job", "t", [dead])

    if name == "control":
        replay()
    servers.mortals[name].restart()
    look_again(servers, other, name)
    if name == "a":
        wait_until(lambda: replayed(replay))
    ender.finish()
    assert ender.ended == [False]
    assert status_of(other, "job").state is JobState.RUNNING
    assert status_of(other, "job").counters.queued == 1


def replayed(replay: Callable[[], object]) -> bool:
    try:
        return replay() is JobState.RUNNING
    except RedisUnavailable:
        return False


def look_again(servers: Servers, frontier: SpreadFrontier, name: str) -> None:
    """What recovery does about a server that was started anew, as far as ends go."""
    client = servers.client(name)
    run = str(client.info("server")["run_id"])  # pyright: ignore[reportUnknownMemberType]
    prefix = frontier.shards.server_prefix if name != "control" else "shoal.jobs"
    if name != "control":
        frontier.jobs.list.next_fence()
        client.set(f"{prefix}:server", run)
    client.set(f"{prefix}:whole", run)
