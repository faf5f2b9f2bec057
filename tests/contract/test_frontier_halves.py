"""Single requests of a job may be for the browser: they wait in a half of their own, and ask the same hosts."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
import redis

from shoal.core.fleet import QueueDepth
from shoal.core.model import ALL_QUEUES, Engine, JobState, Lane, Lease, Level, Outcome, Request
from shoal.core.routes import Route, RouteNote
from shoal.core.spec import JobSpec
from shoal.core.url import Url
from shoal.frontier.entry import decode, decode_record
from shoal.frontier.frontier import Frontier
from shoal.frontier.host_change import HostChange
from shoal.frontier.routes import MAX_PATTERNS
from shoal.frontier.watch import Watch
from tests.contract.frontier_calls import (
    MINUTE,
    SOON,
    counters,
    lease,
    pages,
    reap_soon,
    settle,
    start,
    state,
    status_of,
    targets,
)
from tests.contract.keyspace import key_names, read_keys, wrong_depths

HTTP, BROWSER = ALL_QUEUES[::2], ALL_QUEUES[1::2]


def shown(host: str, count: int, *, first: int = 0, level: Level = Level.NORMAL) -> list[Request]:
    return [Request(Url("https", host, f"/{n}"), level=level, render=True) for n in range(first, first + count)]


def auto(frontier: Frontier, requests: list[Request], **spec: Any) -> None:
    start(frontier, "job", requests, engine=Engine.AUTO, **spec)


def from_http(frontier: Frontier, limit: int = 100, lease_for: timedelta = MINUTE) -> tuple[Lease, ...]:
    return frontier.lease(queues=HTTP, limit=limit, lease_for=lease_for).leases


def from_browser(frontier: Frontier, limit: int = 100, lease_for: timedelta = MINUTE) -> tuple[Lease, ...]:
    return frontier.lease(queues=BROWSER, limit=limit, lease_for=lease_for).leases


def test_each_half_is_leased_from_its_own_queue(frontier: Frontier) -> None:
    auto(frontier, [*pages("a.test", 2), *shown("a.test", 2, first=10)])
    assert targets(from_http(frontier)) == ["/0", "/1"]
    held = from_browser(frontier)
    assert targets(held) == ["/10", "/11"]
    assert {(each.queue, each.request.render) for each in held} == {("browser.batch", True)}
    assert counters(frontier, "job").leased == 4


@pytest.mark.parametrize("lane", Lane)
def test_a_job_for_the_browser_stands_in_its_queues_and_marks_nothing(frontier: Frontier, lane: Lane) -> None:
    start(frontier, "job", [*pages("a.test", 1), *shown("a.test", 1, first=10)], engine=Engine.BROWSER, lane=lane)
    assert from_http(frontier) == ()
    held = from_browser(frontier)
    assert {(each.queue, each.request.render) for each in held} == {(f"browser.{lane}", False)}
    assert targets(held) == ["/0", "/10"]


def test_the_more_urgent_levels_go_first_in_the_browser_half(frontier: Frontier) -> None:
    auto(frontier, [*shown("a.test", 1, level=Level.LAST), *shown("a.test", 1, first=1), *shown("a.test", 1, first=2,
         level=Level.FIRST)])  # fmt: skip
    held = from_browser(frontier)
    assert [(each.request.level, each.request.url.target) for each in held] == [(0, "/2"), (1, "/1"), (2, "/0")]


def test_a_page_is_handed_over_without_an_attempt_and_its_reason_is_counted(frontier: Frontier) -> None:
    auto(frontier, pages("a.test", 1))
    settle(frontier, from_http(frontier), Outcome.RETRY, reason="needs_browser", counts=False, render=True)
    assert from_http(frontier) == ()
    (held,) = from_browser(frontier)
    assert (held.request.attempt, held.request.render) == (0, True)
    assert status_of(frontier, "job").reasons == {"retry:needs_browser": 1}
    assert counters(frontier, "job").retries == 0
    frontier.close("job")
    assert settle(frontier, [held]).ended == ("job",)


def test_what_was_put_off_otherwise_is_not_counted(frontier: Frontier) -> None:
    auto(frontier, shown("a.test", 1))
    settle(frontier, from_browser(frontier), Outcome.RETRY, reason="robots_pending", counts=False)
    assert status_of(frontier, "job").reasons == {}
    assert len(from_browser(frontier)) == 1


def test_a_retry_of_the_browser_stays_with_it(frontier: Frontier) -> None:
    auto(frontier, shown("a.test", 1))
    settle(frontier, from_browser(frontier), Outcome.RETRY, reason="page_crashed")
    assert from_http(frontier) == ()
    (held,) = from_browser(frontier)
    assert (held.request.attempt, held.request.render) == (1, True)


def test_a_retry_is_taken_up_by_whichever_half_is_looked_at(frontier: Frontier) -> None:
    auto(frontier, [*pages("a.test", 1), *shown("a.test", 1, first=10)])
    settle(frontier, [*from_http(frontier), *from_browser(frontier)], Outcome.RETRY, reason="http_503")
    assert set(frontier.glance(ALL_QUEUES).due) == {"http.batch", "browser.batch"}
    assert targets(from_browser(frontier)) == ["/10"]
    assert targets(from_http(frontier)) == ["/0"]


def test_what_is_released_or_lost_comes_back_to_the_browser(frontier: Frontier) -> None:
    auto(frontier, shown("a.test", 2))
    frontier.release(from_browser(frontier, 1))
    assert from_http(frontier) == ()
    assert len(from_browser(frontier, lease_for=SOON)) == 2
    assert reap_soon(frontier)[0] == 2
    assert from_http(frontier) == ()
    assert {each.request.losses for each in from_browser(frontier)} == {1}


def test_both_halves_share_the_cap_of_a_host_and_who_waited_is_woken(frontier: Frontier) -> None:
    auto(frontier, [*pages("a.test", 3), *shown("a.test", 3, first=10)], parallel=1)
    (held,) = from_http(frontier)
    assert from_browser(frontier) == ()
    assert from_http(frontier) == ()
    settle(frontier, [held])
    (shown_first,) = from_browser(frontier)
    assert from_http(frontier) == ()
    settle(frontier, [shown_first])
    assert len(from_http(frontier)) == 1


def test_both_halves_share_the_rate_of_a_host(frontier: Frontier) -> None:
    auto(frontier, [*pages("a.test", 1), *shown("a.test", 1, first=10)], rate=1 / 60)
    assert len(from_http(frontier)) == 1
    assert from_browser(frontier) == ()


def test_a_paused_host_wakes_both_halves_when_it_is_resumed(frontier: Frontier) -> None:
    auto(frontier, [*pages("a.test", 1), *shown("a.test", 1, first=10)])
    frontier.configure_host("a.test", HostChange(paused=True))
    assert lease(frontier) == ()
    assert frontier.glance(ALL_QUEUES).waits == {}
    frontier.configure_host("a.test", HostChange(paused=False))
    assert len(lease(frontier)) == 2


def test_a_paused_job_rests_in_both_halves(frontier: Frontier) -> None:
    auto(frontier, [*pages("a.test", 1), *shown("a.test", 1, first=10)])
    frontier.pause("job")
    assert frontier.glance(ALL_QUEUES).waits == {}
    frontier.resume("job")
    assert set(frontier.glance(ALL_QUEUES).due) == {"http.batch", "browser.batch"}


def test_the_depth_of_the_queues_follows_the_halves(frontier: Frontier, client: redis.Redis, prefix: str) -> None:
    auto(frontier, [*pages("a.test", 3), *shown("a.test", 4, first=10)])
    settle(frontier, from_browser(frontier, 2)[:1], Outcome.RETRY, delay=MINUTE)
    depths = {depth.queue: depth for depth in Watch(client, prefix).queues()}
    assert depths["http.batch"] == QueueDepth("http.batch", 3, 0, 0, 1)
    assert depths["browser.batch"] == QueueDepth("browser.batch", 2, 1, 1, 1)
    frontier.configure_job("job", JobSpec(engine=Engine.AUTO, lane=Lane.HIGH, rate="unlimited"))
    depths = {depth.queue: depth for depth in Watch(client, prefix).queues()}
    assert depths["browser.batch"] == QueueDepth("browser.batch", 0, 0, 0, 0)
    assert depths["browser.high"] == QueueDepth("browser.high", 2, 1, 1, 1)
    assert {each.queue for each in from_browser(frontier)} == {"browser.high"}


def test_a_cancelled_job_leaves_nothing_of_either_half(frontier: Frontier, client: redis.Redis, prefix: str) -> None:
    auto(frontier, [*pages("a.test", 2), *shown("b.test", 2, first=10)])
    frontier.note_routes("job", [RouteNote("b.test", "/*", needed=True)])
    settle(frontier, from_browser(frontier, 1), Outcome.RETRY, delay=MINUTE)
    assert frontier.cancel("job") == (JobState.CANCELLED, True)
    assert counters(frontier, "job").dropped == 4
    assert wrong_depths(read_keys(client, prefix)) == {}
    assert frontier.forget("job")
    assert [key for key in key_names(client, prefix) if key.endswith(":job") or ":job:" in key] == []


def test_a_smaller_budget_drops_from_both_halves(frontier: Frontier, client: redis.Redis, prefix: str) -> None:
    auto(frontier, [*pages("a.test", 2), *shown("a.test", 2, first=10)], pages=10)
    frontier.configure_job("job", JobSpec(engine=Engine.AUTO, pages=1, rate="unlimited"))
    assert (counters(frontier, "job").queued, counters(frontier, "job").dropped) == (1, 3)
    assert wrong_depths(read_keys(client, prefix)) == {}
    assert len(lease(frontier)) == 1


def test_a_host_that_is_spent_loses_both_halves(frontier: Frontier) -> None:
    auto(frontier, [*pages("a.test", 2), *shown("a.test", 2, first=10)], host_bytes=10, parallel=1)
    settle(frontier, from_http(frontier), received=20)
    frontier.close("job")
    batch = frontier.lease(queues=BROWSER, limit=10, lease_for=MINUTE)
    assert batch.ended == ("job",)
    assert status_of(frontier, "job").reasons == {"filtered:over_host_bytes": 3}


def test_a_dead_request_of_the_browser_is_replayed_by_it(frontier: Frontier) -> None:
    auto(frontier, [*pages("a.test", 1), *shown("a.test", 1, first=10)])
    held = lease(frontier)
    settle(frontier, held, Outcome.DEAD, reason="page_too_big")
    frontier.replay("job", "token", [(each.request, "page_too_big") for each in held])
    assert targets(from_http(frontier)) == ["/0"]
    assert targets(from_browser(frontier)) == ["/10"]


def test_lost_places_of_the_browser_half_are_found_again(frontier: Frontier, client: redis.Redis, prefix: str) -> None:
    auto(frontier, [*pages("a.test", 1), *shown("a.test", 2, first=10)])
    client.delete(f"{prefix}:render:job")
    client.hset(f"{prefix}:job:job", "render_queued", "7")
    client.hset(f"{prefix}:depth:browser.batch", "queued", "7")
    client.hset(f"{prefix}:depth:http.batch", "queued", "-4")
    found = frontier.audit.recount("job", frontier.audit.queued_hosts("job"))
    assert found is not None
    assert (found.missing, found.surplus, found.hosts) == (0, 0, 1)
    assert wrong_depths(read_keys(client, prefix)) == {}
    assert len(from_browser(frontier)) == 2


def test_a_slow_host_of_the_browser_half_stays_in_its_lane(frontier: Frontier) -> None:
    auto(frontier, [*pages("a.test", 2), *shown("a.test", 3, first=10)], parallel=1)
    settle(frontier, from_browser(frontier), latency=timedelta(seconds=5))
    (held,) = from_browser(frontier)
    assert held.queue == "browser.batch"


def test_an_entry_of_older_times_is_for_no_browser() -> None:
    assert not decode("a.test", 1, "s2/path").render
    job, request = decode_record("job a.test 4 s2,1,0,0/path")
    assert (job, request.level, request.render, request.attempt) == ("job", Level.NORMAL, True, 1)


def test_routes_are_counted_for_all_workers(frontier: Frontier) -> None:
    start(frontier, "job", [])
    plain, rendered = RouteNote("a.test", "/a/*", needed=False), RouteNote("a.test", "/b", needed=True)
    frontier.note_routes("job", [plain, plain, rendered])
    first = frontier.routes("job")
    assert {place: (route.http, route.browser) for place, route in first.items()} == {
        ("a.test", "/a/*"): (2, 0),
        ("a.test", "/b"): (0, 1),
    }
    assert all(route.checked_ms > 0 for route in first.values())
    frontier.note_routes("job", [RouteNote("a.test", "/b", needed=True, checked=False)])
    assert frontier.routes("job")["a.test", "/b"] == Route(0, 2, first["a.test", "/b"].checked_ms)


def test_routes_have_a_cap_and_an_unknown_job_has_none(frontier: Frontier) -> None:
    start(frontier, "job", [])
    notes = [RouteNote("a.test", f"/{n}", needed=True) for n in range(MAX_PATTERNS + 10)]
    frontier.note_routes("job", notes)
    frontier.note_routes("job", notes[:1])
    known = frontier.routes("job")
    assert len(known) == MAX_PATTERNS
    assert known["a.test", "/0"].browser == 2
    frontier.note_routes("nobody", notes[:1])
    assert frontier.routes("nobody") == {}


def test_a_job_that_ended_is_forgotten_with_its_routes(frontier: Frontier) -> None:
    start(frontier, "job", [])
    frontier.note_routes("job", [RouteNote("a.test", "/b", needed=True)])
    frontier.close("job")
    assert state(frontier, "job") is JobState.FINISHED
    assert frontier.forget("job")
    assert frontier.routes("job") == {}
