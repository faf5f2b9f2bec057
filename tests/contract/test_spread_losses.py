"""A frontier in slots whose servers fall, lose their last writes, or come back empty: nothing is lost or ends early.

"Its last writes" are all since the last save: the servers are killed, and started again from what they had saved.
"""

# redis-py's hints leave gaps: what falls into them is unknown to the checker in this file only.
# pyright: reportUnknownMemberType=false
from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import cast

import pytest
import redis

from shoal.core.model import ALL_QUEUES, JobState, Lease, Outcome, Request, Sent, Settlement
from shoal.core.spec import JobSpec
from shoal.core.url import parse
from shoal.errors import RedisUnavailable
from shoal.frontier import spread_keeper
from shoal.frontier.frontier import Frontier
from shoal.frontier.scripts import connect
from shoal.frontier.shards import Shards
from shoal.frontier.slots import slot_of
from shoal.frontier.spread import SpreadFrontier
from shoal.wiring import sync_hosts
from shoal.worker.delivery import Delivery
from shoal.worker.result import Result
from tests.contract.api import Desk, a_desk, page, some_dead, told
from tests.contract.frontier_calls import lease, pages, settle, start, status_of
from tests.contract.spread_ground import MANY, a_frontier
from tests.contract.spread_ground import desk as desk
from tests.contract.spread_ground import frontier as frontier
from tests.contract.spread_ground import servers as servers
from tests.contract.spread_ground import started as started
from tests.shards import CONTROL, Servers
from tests.waiting import wait_until

Visit = Callable[[Lease], Result]


def host_on(servers: Servers, name: str, skip: int = 0) -> str:
    """A host of this server; another one, of another slot, for each to skip."""
    table = Shards.at(connect(servers.control), "shoal", servers.urls).table()
    found: dict[int, str] = {}
    for host in (f"h{n}.test" for n in range(500)):
        if table[slot_of(host)] == name:
            found.setdefault(slot_of(host), host)
    return list(found.values())[skip]


def control_of(servers: Servers) -> redis.Redis:
    """The control Redis as desks have it: their frontier has a database of its own there."""
    return connect(f"{servers.control}?db=2")


def a_minute_passes(servers: Servers) -> None:
    """What was submitted is on all disks: only stored pages tell of what comes from now on."""
    assert control_of(servers).delete("shoal.jobs:brought") == 1
    servers.save()


def knows(servers: Servers, name: str, job: str) -> bool:
    """Has a server anything of a job, in any life?"""
    found = cast("list[str]", servers.client(name).keys(f"*:job:{job}.*"))
    return bool(found)


def spread_of(desk: Desk) -> SpreadFrontier:
    frontier = desk.platform.frontier
    assert isinstance(frontier, SpreadFrontier)
    return frontier


def leading_to(*urls: str) -> Visit:
    """Every page with a path `/from…` has these links."""
    body = "".join(f'<a href="{url}">x</a>' for url in urls).encode()

    def visit(one: Lease) -> Result:
        if not one.request.url.target.startswith("/from"):
            return page(one)
        found = tuple(Request(parse(url), depth=one.request.depth + 1) for url in urls)
        return replace(page(one, body=body), candidates=found)

    return visit


def finish(desk: Desk, visit: Visit | None = None) -> list[str]:
    """Keep house and work until nothing is left to do; the URLs that were asked for."""
    fetched, idle = list[str](), 0
    deadline = time.monotonic() + 20
    while idle < 3 and time.monotonic() < deadline:
        while desk.platform.recovery.tick():
            pass
        done = desk.work(visit)
        fetched += done
        desk.platform.housekeeper.tick()
        under_way = [job for job in desk.platform.frontier.known_jobs() if not desk.state(job).ended]
        idle = idle + 1 if not done and not under_way else 0
        if not done and under_way:
            time.sleep(0.1)
    return fetched


def assert_complete(desk: Desk, job: str, urls: set[str]) -> None:
    stored = {row.url for row in desk.platform.pages.pages(job)}
    assert stored == urls
    row = desk.platform.control.job(job)
    assert row.state is JobState.FINISHED
    assert row.status is not None
    assert row.status.reconciles, row.status
    assert row.status.counters.done == len(urls)


def crawl(desk: Desk, *urls: str, hosts: tuple[str, ...]) -> str:
    return desk.submit(*urls, follow=True, hosts=list(hosts), robots=False)


# --- links between servers --------------------------------------------------------------------------------------------


def test_links_that_a_server_has_lost_are_sent_again(desk: Desk, servers: Servers) -> None:
    """Their page is settled on another server, which has lost nothing."""
    a, b = host_on(servers, "a"), host_on(servers, "b")
    targets = [f"http://{b}/x{n}" for n in range(5)]
    job = crawl(desk, f"http://{a}/from", f"http://{a}/2", hosts=(a, b))
    a_minute_passes(servers)
    desk.work(leading_to(*targets), at_most=2)
    assert desk.platform.frontier.audit.stands([job])[job].pending == 5
    servers.mortals["b"].restart()
    finish(desk)
    assert_complete(desk, job, {f"http://{a}/from", f"http://{a}/2", *targets})


def test_no_job_ends_before_a_servers_loss_is_made_good(desk: Desk, servers: Servers) -> None:
    a, b = host_on(servers, "a"), host_on(servers, "b")
    job = crawl(desk, f"http://{a}/from", hosts=(a, b))
    a_minute_passes(servers)
    desk.work(leading_to(f"http://{b}/x"), at_most=1)
    servers.mortals["b"].restart()
    frontier = desk.platform.frontier
    for _ in range(3):
        assert frontier.tend() == ()
    assert lease(frontier) == ()
    assert desk.state(job) is JobState.RUNNING
    finish(desk)
    assert_complete(desk, job, {f"http://{a}/from", f"http://{b}/x"})


def test_no_job_ends_while_lost_links_cannot_be_sent_again(desk: Desk, servers: Servers) -> None:
    """The server is worked with, and has nothing of the job: that says nothing."""
    a, b = host_on(servers, "a"), host_on(servers, "b")
    job = crawl(desk, f"http://{a}/from", hosts=(a, b))
    a_minute_passes(servers)
    desk.work(leading_to(f"http://{b}/x"), at_most=1)
    servers.mortals["b"].restart()

    def cannot(*_: object) -> frozenset[int]:
        return frozenset()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("shoal.recovery.shards.ShardRecovery._send_again", cannot)
        desk.platform.recovery.look()
        assert desk.platform.frontier.audit.stands([job])[job].pending == 0
        assert desk.platform.frontier.tend() == ()
        assert desk.state(job) is JobState.RUNNING
    finish(desk)
    assert_complete(desk, job, {f"http://{a}/from", f"http://{b}/x"})


def test_links_that_were_found_again_and_lost_again_are_found_once_more(desk: Desk, servers: Servers) -> None:
    """A job was rebuilt just before a server fell."""
    a, b = host_on(servers, "a"), host_on(servers, "b")
    job = crawl(desk, f"http://{a}/from", hosts=(a, b))
    desk.work(leading_to(f"http://{b}/x"), at_most=1)
    desk.platform.recovery.way.begin(job, force=True)
    a_minute_passes(servers)
    desk.platform.recovery.way.run(job)
    assert desk.platform.frontier.audit.stands([job])[job].pending == 1
    servers.client("a").delete(f"shoal.{slot_of(a):02d}:sent")
    servers.mortals["b"].restart()
    finish(desk)
    assert_complete(desk, job, {f"http://{a}/from", f"http://{b}/x"})


def test_links_under_way_while_a_server_falls_are_sent_again(desk: Desk, servers: Servers) -> None:
    """Sent before the fall, their page settled after the loss was made good: whoever settles is told."""
    a, b = host_on(servers, "a"), host_on(servers, "b")
    job = crawl(desk, f"http://{a}/from", hosts=(a, b))
    a_minute_passes(servers)
    frontier, platform = desk.platform.frontier, desk.platform
    held = frontier.lease(queues=ALL_QUEUES, limit=1, lease_for=timedelta(minutes=1)).leases
    result = leading_to(f"http://{b}/x")(held[0])
    delivery = Delivery(frontier, platform.pages, desk.archive, platform.ending.finalise)
    real_settle, fallen = frontier.settle, list[int]()

    def settle_late(settlements: list[Settlement], sent: dict[str, Sent]) -> object:
        if not fallen:
            fallen.append(1)
            servers.mortals["b"].restart()
            platform.recovery.look()
            platform.recovery.look()
        return real_settle(settlements, sent)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(frontier, "settle", settle_late)
        with pytest.raises(RedisUnavailable, match="sent again"):
            delivery.deliver([result])
        delivery.deliver([result])
    finish(desk)
    assert_complete(desk, job, {f"http://{a}/from", f"http://{b}/x"})


def test_links_to_a_server_that_is_away_are_owed(desk: Desk, servers: Servers) -> None:
    a, b = host_on(servers, "a"), host_on(servers, "b")
    targets = [f"http://{b}/x{n}" for n in range(5)]
    job = crawl(desk, f"http://{a}/from", f"http://{a}/2", hosts=(a, b))
    other = desk.submit(f"http://{a}/other")
    with servers.away("b"):
        assert len(desk.work(leading_to(*targets))) == 3
        desk.platform.housekeeper.tick()
        assert desk.state(other) is JobState.FINISHED  # it has nothing to do with that server
        assert desk.state(job) is JobState.RUNNING
    finish(desk)
    assert_complete(desk, job, {f"http://{a}/from", f"http://{a}/2", *targets})


def test_links_that_were_owed_and_are_lost_again_are_sent_again(desk: Desk, servers: Servers) -> None:
    """However long ago their page was stored."""
    a, b = host_on(servers, "a"), host_on(servers, "b")
    job = crawl(desk, f"http://{a}/from", hosts=(a, b))
    with servers.away("b"):
        desk.work(leading_to(f"http://{b}/x"))
    a_minute_passes(servers)

    def has_come() -> bool:
        desk.platform.recovery.tick()
        stand = desk.platform.frontier.audit.stands([job]).get(job)
        return stand is not None and stand.pending == 1

    wait_until(has_come)
    servers.mortals["b"].restart()
    finish(desk)
    assert_complete(desk, job, {f"http://{a}/from", f"http://{b}/x"})


def test_what_was_written_down_about_links_goes_in_time(desk: Desk, servers: Servers) -> None:
    a, b = host_on(servers, "a"), host_on(servers, "b")
    crawl(desk, f"http://{a}/from", hosts=(a, b))
    desk.work(leading_to(f"http://{b}/x"))
    key = f"shoal.{slot_of(a):02d}:sent"
    assert servers.client("a").zcard(key) == 1
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("shoal.recovery.shards.LATELY", timedelta())
        patch.setattr("shoal.recovery.shards.TRIM_EVERY_S", 0.0)
        with servers.away("b"):
            desk.platform.recovery.look()
            assert servers.client("a").zcard(key) == 1
        wait_until(lambda: (desk.platform.recovery.look(), servers.client("a").zcard(key))[1] == 0)


# --- whole servers ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a", CONTROL])
@pytest.mark.parametrize("fall", ["restart", "empty"])
def test_a_server_that_falls_in_the_middle_loses_nothing(desk: Desk, servers: Servers, name: str, fall: str) -> None:
    job = desk.submit(*MANY)
    desk.work(at_most=15)
    servers.save()
    desk.platform.recovery.look()
    desk.work(at_most=20)
    late = desk.submit(*(f"{url}?late" for url in MANY[::2]))
    desk.work(at_most=10)
    getattr(servers.mortals[name], fall)()
    finish(desk)
    assert_complete(desk, job, set(MANY))
    assert_complete(desk, late, {f"{url}?late" for url in MANY[::2]})


def test_all_servers_fall_at_once(desk: Desk, servers: Servers) -> None:
    job = desk.submit(*MANY)
    desk.work(at_most=15)
    servers.save()
    desk.work(at_most=20)
    for mortal in servers.mortals.values():
        mortal.restart()
    finish(desk)
    assert_complete(desk, job, set(MANY))


def test_a_server_that_comes_back_empty_while_another_is_away(desk: Desk, servers: Servers) -> None:
    job = desk.submit(*MANY)
    desk.work(at_most=20)
    with servers.away("b"):
        servers.mortals["a"].empty()
        for _ in range(3):
            desk.platform.recovery.tick()
            desk.platform.housekeeper.tick()
        assert desk.state(job) is JobState.RUNNING
    finish(desk)
    assert_complete(desk, job, set(MANY))


def test_nobody_works_with_a_server_that_nobody_has_looked_at(frontier: SpreadFrontier, servers: Servers) -> None:
    host = host_on(servers, "b")
    start(frontier, "job", pages(host, 3))
    servers.save()
    frontier.admit("job", pages(host, 3, first=3))
    servers.mortals["b"].restart()
    with pytest.raises(RedisUnavailable, match="looked at"):
        frontier.admit("job", pages(host, 3, first=6))
    assert lease(frontier) == ()


def test_a_server_without_its_marks_takes_nothing(frontier: SpreadFrontier, servers: Servers) -> None:
    host = host_on(servers, "b")
    start(frontier, "job", pages(host, 3))
    servers.client("b").flushall()
    with pytest.raises(RedisUnavailable, match="are rebuilt"):
        frontier.admit("job", pages(host, 3, first=3))
    assert servers.client("b").dbsize() == 0


def test_a_slot_that_the_list_has_forgotten_is_found_again(desk: Desk, servers: Servers) -> None:
    """The control Redis has lost that the job has hosts there: it must not end without them."""
    a, b = host_on(servers, "a"), host_on(servers, "b")
    job = desk.submit(f"http://{a}/", open=True)
    servers.save()
    desk.send(job, f"http://{b}/1\nhttp://{b}/2\n")
    servers.mortals[CONTROL].restart()
    desk.post(f"jobs/{job}/close")
    desk.work(at_most=1)
    finish(desk)
    assert_complete(desk, job, {f"http://{a}/", f"http://{b}/1", f"http://{b}/2"})


# --- lives ------------------------------------------------------------------------------------------------------------


def test_what_a_server_has_of_an_earlier_life_is_nobodys(desk: Desk, servers: Servers) -> None:
    """It was away when the job was dropped, and is back with all its requests and leases."""
    job = desk.submit(*MANY)
    held = desk.platform.frontier.lease(queues=ALL_QUEUES, limit=30, lease_for=timedelta(minutes=1)).leases
    with servers.away("b"):
        desk.platform.recovery.way.begin(job, force=True)
    fetched = finish(desk)
    assert sorted(fetched) == sorted(MANY)
    assert desk.platform.frontier.settle([Settlement(one, Outcome.DONE) for one in held]).ended == ()
    assert_complete(desk, job, set(MANY))


def test_a_job_that_was_forgotten_without_a_server_comes_back_for_its_dead(desk: Desk, servers: Servers) -> None:
    a, b = host_on(servers, "a"), host_on(servers, "b")
    job = desk.submit(f"http://{a}/", f"http://{b}/dead", f"http://{b}/2")
    forget = desk.platform.frontier.forget

    def forget_without(job: str) -> bool:
        with servers.away("b"):
            return forget(job)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(desk.platform.frontier, "forget", forget_without)
        desk.work(some_dead("/dead"))
    assert desk.state(job) is JobState.FINISHED
    assert knows(servers, "b", job)
    wait_until(lambda: not spread_of(desk).shards.troubles())
    assert told(desk.post(f"jobs/{job}/dead/replay", {}))["replayed"] == 1
    finish(desk)
    assert_complete(desk, job, {f"http://{a}/", f"http://{b}/dead", f"http://{b}/2"})


def test_earlier_lives_go_after_a_while(desk: Desk, servers: Servers, monkeypatch: pytest.MonkeyPatch) -> None:
    job = desk.submit(*MANY)
    with servers.away("b"):
        desk.platform.recovery.way.begin(job, force=True)
    monkeypatch.setattr(spread_keeper, "STRANGE_S", 0.0)
    finish(desk)
    desk.platform.frontier.tend()
    for name in ("a", "b"):
        assert not knows(servers, name, job)


# --- one Redis, then several ------------------------------------------------------------------------------------------


def test_jobs_go_over_to_shards_and_back(servers: Servers, tmp_path: Path) -> None:
    def look(desk: Desk) -> None:
        while desk.platform.recovery.tick():
            pass
        desk.platform.recovery.look()  # as everybody does each second

    with a_desk(servers.control, tmp_path, prefix="shoal") as plain:
        look(plain)
        job = plain.submit(*MANY)
        first = plain.work(at_most=10)
        with a_desk(servers.control, tmp_path, prefix="shoal", shards=servers.named) as spread:
            assert spread.platform.frontier.tend() == ()
            assert lease(spread.platform.frontier) == ()
            look(spread)
            first += spread.work(at_most=15)
            assert spread.state(job) is JobState.RUNNING
        assert plain.state(job) is JobState.RUNNING
        look(plain)
        rest = finish(plain)
        assert len(first) == 25
        assert sorted(first + rest) == sorted(MANY)
        assert_complete(plain, job, set(MANY))


def test_a_frontier_in_a_piece_knows_nothing_of_jobs_in_slots(frontier: SpreadFrontier, servers: Servers) -> None:
    plain = Frontier(connect(servers.control), "shoal")
    start(frontier, "job", pages("a.test", 3))
    frontier.close("job")
    assert plain.status("job") is None
    assert plain.known_jobs() == []
    assert plain.admit("job", pages("a.test", 5)).state is None
    start(plain, "old", pages("a.test", 3))
    plain.close("old")
    assert frontier.status("old") is None
    assert frontier.tend() == ()
    assert plain.close("old") == (JobState.RUNNING, False)


# --- the end ----------------------------------------------------------------------------------------------------------


def dead_one(frontier: SpreadFrontier, host: str) -> tuple[Request, str]:
    """A job with one dead request and nothing else."""
    start(frontier, "job", pages(host, 2))
    one, other = lease(frontier)
    settle(frontier, [one], Outcome.DEAD, reason="x")
    settle(frontier, [other])
    return one.request, "x"


@pytest.mark.parametrize("what", ["replay", "admit", "new slot"])
@pytest.mark.parametrize("when", ["begin_end", "end_job"])
def test_what_comes_while_a_job_is_being_ended_is_in_it_or_refused(
    frontier: SpreadFrontier, servers: Servers, what: str, when: str
) -> None:
    other = a_frontier(servers)
    a, b = host_on(servers, "a"), host_on(servers, "b")
    dead = dead_one(frontier, a)
    assert connect(servers.control).hset("shoal.jobs:job:job", "open", "0") == 0
    brought = {
        "replay": lambda: other.replay("job", "t", [dead]),
        "admit": lambda: other.admit("job", pages(a, 3)).state,
        "new slot": lambda: other.admit("job", pages(b, 1)).state,
    }[what]
    scripts = frontier.jobs.list._scripts  # pyright: ignore[reportPrivateUsage]
    call, states = scripts.call, list[JobState | None]()

    def between(name: str, args: list[object]) -> object:
        if name == when and when == "end_job":
            states.append(brought())
        answer = call(name, args)  # pyright: ignore[reportArgumentType]
        if name == when and when == "begin_end":
            states.append(brought())
        return answer

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scripts, "call", between)
        assert not frontier.jobs.ends.try_end("job")
    assert states == [JobState.RUNNING]
    assert status_of(frontier, "job").counters.queued == 1
    settle(frontier, lease(frontier))
    status = status_of(frontier, "job")
    assert status.state is JobState.FINISHED
    assert status.reconciles
    assert other.admit("job", pages(b, 7)).state is JobState.FINISHED
    other.close_connections()


def test_whoever_died_while_he_ended_a_job_stands_in_nobodys_way(frontier: SpreadFrontier, servers: Servers) -> None:
    a, b = host_on(servers, "a"), host_on(servers, "b")
    start(frontier, "job", [*pages(a, 1), *pages(b, 1)])
    frontier.close("job")

    def die(*_: object) -> bool:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(frontier.jobs.list, "end", die)
        settle(frontier, lease(frontier))
    assert status_of(frontier, "job").state is JobState.RUNNING
    assert frontier.admit("job", pages(a, 3)).admitted == 2
    assert len(lease(frontier)) == 2
    frontier.reap()
    assert frontier.tend() == ()


def test_the_sums_of_an_ended_job_need_no_shard(frontier: SpreadFrontier, servers: Servers) -> None:
    start(frontier, "job", [request for n in range(20) for request in pages(f"h{n}.test", 2)])
    frontier.close("job")
    while leases := lease(frontier):
        settle(frontier, leases, received=7)
    with servers.away("a"), servers.away("b"):
        status = status_of(frontier, "job")
        assert status.counters.done == status.counters.admitted == 40
        assert status.counters.received == 280
        assert not status.partial


# --- budgets ----------------------------------------------------------------------------------------------------------


def test_a_budget_is_used_up_while_a_server_is_away(frontier: SpreadFrontier, servers: Servers) -> None:
    a, b = host_on(servers, "a"), host_on(servers, "b")
    frontier.create("job", JobSpec(rate="unlimited", pages=100))
    frontier.admit("job", [*pages(a, 1), *pages(b, 1)])
    with servers.away("b"):
        frontier.admit("job", pages(a, 120, first=10))
        taken = status_of(frontier, "job").counters.admitted
        assert 90 <= taken <= 100  # but for what the other has in advance
    wait_until(lambda: not frontier.shards.troubles())
    wait_until(lambda: frontier.admit("job", pages(a, 30, first=500)).state is not None)
    for n in range(20):
        frontier.admit("job", pages(b, 10, first=1000 + 10 * n))
    assert status_of(frontier, "job").counters.admitted == 100


def test_a_grant_that_did_not_arrive_is_not_lost(frontier: SpreadFrontier, servers: Servers) -> None:
    a, b = host_on(servers, "a"), host_on(servers, "b")
    frontier.create("job", JobSpec(rate="unlimited", pages=50))
    frontier.admit("job", [*pages(a, 1), *pages(b, 1)])
    life = frontier.jobs.list.lives(["job"])["job"].life
    frontier.jobs.list.allot("job", life, slot_of(a), wanted=48)  # whoever was granted this has died
    frontier.admit("job", pages(b, 60, first=5))
    assert status_of(frontier, "job").counters.admitted == 50


def test_a_share_that_was_given_up_does_not_come_back_with_an_older_server(
    desk: Desk, servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others have used it by then."""
    monkeypatch.setattr("shoal.frontier.budgets.DRY_S", 0.0)
    frontier, a, b = desk.platform.frontier, host_on(servers, "a"), host_on(servers, "b")
    frontier.create("job", JobSpec(rate="unlimited", pages=320))
    frontier.admit("job", [*pages(a, 1), *pages(b, 1)])
    servers.save()
    frontier.admit("job", pages(a, 400, first=10))
    assert status_of(frontier, "job").counters.admitted == 320
    servers.mortals["b"].restart()
    shards = desk.platform.recovery._shards  # pyright: ignore[reportPrivateUsage]
    assert shards
    shards.look_at_servers(lambda: None)
    assert frontier.admit("job", pages(b, 5, first=500)).over_budget == 5
    assert status_of(frontier, "job").counters.admitted == 320


# --- cancelled --------------------------------------------------------------------------------------------------------


def test_a_cancelled_job_of_which_a_server_has_lost_everything_ends_with_the_sums_of_its_rows(
    desk: Desk, servers: Servers
) -> None:
    a, b = host_on(servers, "a"), host_on(servers, "b")
    job = desk.submit(*[f"http://{host}/{n}" for host in (a, b) for n in range(5)], robots=False)
    desk.work(at_most=6)
    assert len(lease(desk.platform.frontier)) == 4
    desk.platform.control.cancel(job)
    servers.mortals["b"].empty()
    desk.platform.recovery.look()
    desk.platform.housekeeper.reconciler.lost_ends()
    status = desk.platform.control.job(job).status
    assert status
    assert status.ended_ms
    assert status.counters.done == desk.platform.pages.count(job) == 6


# --- frozen, and away -------------------------------------------------------------------------------------------------


def test_a_frozen_server_holds_nobody_up_for_long(frontier: SpreadFrontier, servers: Servers) -> None:
    a, b = host_on(servers, "a"), host_on(servers, "b")
    start(frontier, "job", [*pages(a, 2_000), *pages(b, 5)])
    settle(frontier, lease(frontier, 1))
    served, deadline = 0, time.monotonic() + 5
    with servers.mortals["b"].frozen():
        while time.monotonic() < deadline:
            leases = [one for one in lease(frontier, 5) if one.request.url.host == a]
            settle(frontier, leases)
            served += len(leases)
            time.sleep(0.01)
        frontier.reap()
        frontier.tend()
        assert status_of(frontier, "job").partial
    assert served > 150  # it is asked again after a second, then after two, four, …, for three seconds each


def test_who_starts_while_a_shard_is_away_starts(desk: Desk, servers: Servers) -> None:
    b = host_on(servers, "b")
    assert desk.patch(f"hosts/{b}", {"rate": "1/s"}).status_code == 200
    with servers.away("b"):
        sync_hosts(desk.platform.settings)
        ready = desk.get("/readyz")
        assert ready.status_code == 200
    with servers.away("a"), servers.away("b"):
        assert desk.get("/readyz").status_code == 503


def test_leases_are_given_back_when_nobody_can_tell_whose_they_are(frontier: SpreadFrontier, servers: Servers) -> None:
    """The control Redis went away after they were taken."""
    a = host_on(servers, "a")
    start(frontier, "job", pages(a, 5))
    frontier.shards.table()
    with servers.away(CONTROL), pytest.raises(RedisUnavailable):
        lease(frontier)
    assert status_of(frontier, "job").counters.leased == 0
    held = lease(frontier)
    assert len(held) == 5
    with servers.away(CONTROL):
        assert frontier.settle([Settlement(one, Outcome.DONE) for one in held]).late == 0
    assert status_of(frontier, "job").counters.done == 5


def test_a_submission_with_hosts_of_a_shard_that_is_away_is_completed_later(desk: Desk, servers: Servers) -> None:
    a, b = host_on(servers, "a"), host_on(servers, "b")
    urls = [f"http://{a}/1", f"http://{b}/1"]
    with servers.away("b"):
        response = desk.post("jobs", {"urls": urls, "follow": False, "rate": "unlimited"})
        assert response.status_code in (202, 503)
        assert desk.work() == [urls[0]]
    (job,) = [row["id"] for row in desk.rows("jobs")]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("shoal.housekeeping.PATIENCE", timedelta(seconds=-1))
        finish(desk)
    assert_complete(desk, job, set(urls))
