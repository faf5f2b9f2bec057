"""The desk that lends proxies, on real servers: rotation, caps and rates over all who borrow, health."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from itertools import pairwise
from typing import Any, cast

import pytest
import redis

from shoal.core.proxies import Verdict
from shoal.frontier.proxies import SAMPLE, Lent, ProxyDesk, Return, Want
from shoal.frontier.scripts import connect
from tests.waiting import wait_until

A, B, C = "aaa", "bbb", "ccc"
COOL = timedelta(seconds=30)
SOON = timedelta(milliseconds=50)
NONE = timedelta()


@pytest.fixture
def desk(client: redis.Redis, prefix: str) -> ProxyDesk:
    return ProxyDesk(client, prefix)


def want(*proxies: str, **limits: Any) -> Want:
    return Want("group", proxies, **limits)


def take(desk: ProxyDesk, *wants: Want) -> list[Lent]:
    """What was lent; all of it must be."""
    found = desk.borrow(wants)
    assert all(isinstance(each, Lent) for each in found), found
    return cast("list[Lent]", found)


def put(desk: ProxyDesk, lent: Lent, verdict: Verdict = Verdict.OK, cool_down: timedelta = COOL) -> None:
    assert desk.give_back([Return(lent, verdict, cool_down)]) == 1


def use(desk: ProxyDesk, wanted: Want, verdict: Verdict = Verdict.OK, cool_down: timedelta = COOL) -> str:
    (lent,) = take(desk, wanted)
    put(desk, lent, verdict, cool_down)
    return lent.proxy


def fail(desk: ProxyDesk, proxy: str, times: int = 1, cool_down: timedelta = COOL) -> None:
    for _ in range(times):
        assert use(desk, want(proxy), Verdict.FAILED, cool_down) == proxy


def rest_of(desk: ProxyDesk, proxy: str) -> timedelta:
    (state,) = desk.look([proxy])
    return state.rest


def wait_of(desk: ProxyDesk, wanted: Want) -> timedelta:
    (found,) = desk.borrow([wanted])
    assert isinstance(found, timedelta), found
    return found


# --- rotation -------------------------------------------------------------------------------------------------------


def test_each_request_takes_another_proxy(desk: ProxyDesk) -> None:
    used = [use(desk, want(A, B, C)) for _ in range(12)]
    assert Counter(used) == {A: 4, B: 4, C: 4}
    assert all(one != other for one, other in pairwise(used))


def test_requests_of_one_call_take_different_proxies(desk: ProxyDesk) -> None:
    lent = take(desk, *[want(A, B, C)] * 6)
    assert Counter(each.proxy for each in lent) == {A: 2, B: 2, C: 2}
    assert len({each.token for each in lent}) == 6


def test_what_is_sticky_keeps_to_its_proxy(desk: ProxyDesk) -> None:
    names = [f"{number:x}" for number in range(20)]
    first = {name: use(desk, want(A, B, C, sticky=name)) for name in names}
    assert Counter(first.values()).keys() == {A, B, C}
    for _ in range(3):
        assert {name: use(desk, want(A, B, C, sticky=name)) for name in names} == first


def test_what_is_sticky_waits_for_its_proxy_while_that_is_well(desk: ProxyDesk) -> None:
    (lent,) = take(desk, want(A, B, sticky="1", parallel=1))
    assert wait_of(desk, want(A, B, sticky="1", parallel=1)) > NONE
    put(desk, lent)
    assert use(desk, want(A, B, sticky="1", parallel=1)) == lent.proxy


def test_what_is_sticky_moves_on_when_its_proxy_rests_and_stays_there(desk: ProxyDesk) -> None:
    old = use(desk, want(A, B, sticky="1"), Verdict.REFUSED, SOON)
    new = use(desk, want(A, B, sticky="1"))
    assert {old, new} == {A, B}
    wait_until(lambda: rest_of(desk, old) == NONE)
    assert use(desk, want(A, B, sticky="1")) == new


def test_wants_of_several_pools_go_in_one_call(desk: ProxyDesk) -> None:
    lent = take(desk, Want("one", (A,)), Want("two", (B,)), Want("one", (A,)), Want("three", (C,), sticky="1"))
    assert [each.proxy for each in lent] == [A, B, A, C]


def test_more_wants_than_fit_in_a_call_are_served(desk: ProxyDesk) -> None:
    assert Counter(each.proxy for each in take(desk, *[want(A, B)] * 150)) == {A: 75, B: 75}


# --- caps and rates -------------------------------------------------------------------------------------------------


def test_no_proxy_is_used_by_more_at_once_than_allowed(desk: ProxyDesk) -> None:
    lent = take(desk, *[want(A, B, parallel=2)] * 4)
    assert Counter(each.proxy for each in lent) == {A: 2, B: 2}
    assert NONE < wait_of(desk, want(A, B, parallel=2)) < timedelta(seconds=1)
    put(desk, lent[0])
    assert take(desk, want(A, B, parallel=2))[0].proxy == lent[0].proxy


def test_a_cap_holds_over_all_who_borrow(server_url: str, desk: ProxyDesk, prefix: str) -> None:
    def borrow_one(_: int) -> Lent | timedelta:
        client = connect(server_url)
        try:
            return ProxyDesk(client, prefix).borrow([want(A, B, parallel=3)])[0]
        finally:
            client.close()

    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(borrow_one, range(24)))
    assert Counter(each.proxy for each in found if isinstance(each, Lent)) == {A: 3, B: 3}


def test_a_rate_holds_over_all_who_borrow(server_url: str, desk: ProxyDesk, prefix: str) -> None:
    """20 a second: in half a second no more than ten, and what a tenth of a second's burst allows."""

    def borrow_all(_: int) -> int:
        client, count = connect(server_url), 0
        mine = ProxyDesk(client, prefix)
        end = time.monotonic() + 0.5
        while time.monotonic() < end:
            (found,) = mine.borrow([want(A, rate=20)])
            count += isinstance(found, Lent)
        client.close()
        return count

    started = time.monotonic()
    with ThreadPoolExecutor(4) as threads:
        count = sum(threads.map(borrow_all, range(4)))
    allowed = (time.monotonic() - started) * 20 + 3
    assert 5 <= count <= allowed


def test_who_comes_too_early_is_told_when_to_come(desk: ProxyDesk) -> None:
    assert [use(desk, want(A, rate=0.1)) for _ in range(1)] == [A]
    assert timedelta(seconds=9) < wait_of(desk, want(A, rate=0.1)) <= timedelta(seconds=10)
    assert use(desk, want(A, B, rate=0.1)) == B


def test_a_loan_that_nobody_returns_runs_out(desk: ProxyDesk) -> None:
    (lent,) = take(desk, want(A, parallel=1, lasts=SOON))
    assert wait_of(desk, want(A, parallel=1)) > NONE
    wait_until(lambda: desk.look([A])[0].in_flight == 0)
    (again,) = take(desk, want(A, parallel=1))
    assert desk.give_back([Return(lent, Verdict.REFUSED, COOL)]) == 0
    assert rest_of(desk, A) == NONE
    put(desk, again)


# --- health ---------------------------------------------------------------------------------------------------------


def test_three_failures_in_a_row_send_a_proxy_to_rest(desk: ProxyDesk) -> None:
    fail(desk, A, 2)
    assert rest_of(desk, A) == NONE
    fail(desk, A)
    assert COOL - timedelta(seconds=5) < rest_of(desk, A) <= COOL
    assert COOL - timedelta(seconds=5) < wait_of(desk, want(A)) <= COOL
    assert {use(desk, want(A, B)) for _ in range(5)} == {B}


def test_a_success_starts_the_count_anew(desk: ProxyDesk) -> None:
    fail(desk, A, 2)
    use(desk, want(A))
    fail(desk, A, 2)
    assert rest_of(desk, A) == NONE


def test_a_proxy_that_refuses_our_login_rests_at_once(desk: ProxyDesk) -> None:
    use(desk, want(A), Verdict.REFUSED)
    assert rest_of(desk, A) > COOL / 2


def test_a_doubt_lowers_the_score_and_sends_nobody_to_rest(desk: ProxyDesk) -> None:
    for _ in range(10):
        use(desk, want(A), Verdict.DOUBTFUL)
    (state,) = desk.look([A])
    assert state.score < 0.2
    assert (state.rest, state.failures) == (NONE, 0)
    assert {use(desk, want(A, B)) for _ in range(5)} == {B}


def test_a_loan_without_a_verdict_changes_nothing_else(desk: ProxyDesk) -> None:
    fail(desk, A, 2)
    before = desk.look([A])[0].failures
    use(desk, want(A), Verdict.NONE)
    assert desk.look([A])[0].failures == before == 2


def test_the_better_proxy_is_taken_first_and_one_slip_does_not_count(desk: ProxyDesk) -> None:
    fail(desk, A)
    assert {use(desk, want(A, B)) for _ in range(4)} == {A, B}
    fail(desk, A, 2)
    use(desk, want(B))
    assert {use(desk, want(A, B)) for _ in range(4)} == {B}


def test_a_rest_doubles_each_time_up_to_ten_minutes(desk: ProxyDesk, client: redis.Redis, prefix: str) -> None:
    rests: list[float] = []
    for _ in range(8):
        use(desk, want(A), Verdict.REFUSED)
        rests.append(round(rest_of(desk, A).total_seconds() / 30) * 30)
        cast("Any", client).hset(f"{prefix}:proxy:{A}", "rest", 0)  # its rest is over
    assert rests == [30, 60, 120, 240, 480, 600, 600, 600]


def test_those_under_way_when_it_went_to_rest_do_not_make_it_longer(desk: ProxyDesk) -> None:
    lent = take(desk, *[want(A)] * 10)
    for each in lent:
        put(desk, each, Verdict.FAILED)
    assert rest_of(desk, A) <= COOL


def test_after_a_rest_one_request_tries_it_and_its_success_ends_it(desk: ProxyDesk) -> None:
    fail(desk, A, 3, SOON)
    wait_until(lambda: rest_of(desk, A) == NONE)
    (trial,) = take(desk, want(A))
    assert wait_of(desk, want(A)) > NONE
    put(desk, trial)
    assert len(take(desk, *[want(A)] * 5)) == 5


def test_a_trial_that_fails_ends_in_a_longer_rest(desk: ProxyDesk) -> None:
    fail(desk, A, 3, SOON)
    wait_until(lambda: rest_of(desk, A) == NONE)
    fail(desk, A, 1, COOL)
    assert rest_of(desk, A) > COOL * 1.5


def test_a_success_of_a_request_under_way_ends_a_rest(desk: ProxyDesk) -> None:
    (early,) = take(desk, want(A))
    use(desk, want(A), Verdict.REFUSED)
    assert rest_of(desk, A) > NONE
    put(desk, early)
    assert rest_of(desk, A) == NONE


def test_a_score_recovers_with_time(desk: ProxyDesk, client: redis.Redis, prefix: str) -> None:
    for _ in range(10):
        use(desk, want(A), Verdict.DOUBTFUL)
    cast("Any", client).hincrby(f"{prefix}:proxy:{A}", "scored", -600_000)  # ten minutes ago
    assert desk.look([A])[0].score > 0.99
    assert {use(desk, want(A, B)) for _ in range(4)} == {A, B}


# --- the whole ------------------------------------------------------------------------------------------------------


def test_returning_twice_counts_once(desk: ProxyDesk) -> None:
    (lent,) = take(desk, want(A))
    back = Return(lent, Verdict.FAILED, COOL)
    assert [desk.give_back([back]), desk.give_back([back]), desk.give_back([back, back])] == [1, 0, 0]
    assert desk.look([A])[0].failures == 1


def test_a_large_pool_costs_a_call_no_more_than_a_sample(desk: ProxyDesk, monkeypatch: pytest.MonkeyPatch) -> None:
    pool = tuple(f"{number:06x}" for number in range(10_000))
    sent: list[int] = []
    call: Callable[[str, Sequence[Any]], Any] = desk._scripts.call  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(desk._scripts, "call", lambda name, args: (sent.append(len(args)), call(name, args))[1])  # pyright: ignore
    assert {each.proxy for each in take(desk, Want("g", pool))} <= set(pool)
    lent = take(desk, *[Want("g", pool)] * 64)
    assert len({each.proxy for each in lent}) == 64
    assert sent[0] <= SAMPLE + 10
    assert sent[1] <= 2 * 64 + 64 * 3 + 10


def test_over_time_all_of_a_large_pool_are_used(desk: ProxyDesk) -> None:
    pool = tuple(f"{number:03x}" for number in range(200))
    used = {each.proxy for _ in range(40) for each in take(desk, *[Want("g", pool)] * 20)}
    assert len(used) > 190


def test_looking_tells_of_each_in_order_and_of_the_unknown_that_it_is_well(desk: ProxyDesk) -> None:
    fail(desk, A)
    take(desk, want(B), want(B))
    a, b, c = desk.look([A, B, C])
    assert (a.name, a.failures, a.in_flight) == (A, 1, 0)
    assert 0.75 < a.score < 0.85
    assert (b.in_flight, b.score) == (2, 1.0)
    assert (c.name, c.score, c.in_flight, c.rest) == (C, 1.0, 0, NONE)


def test_nothing_stays_for_good(desk: ProxyDesk, client: redis.Redis, prefix: str) -> None:
    take(desk, want(A, sticky="1", rate=1, parallel=1))
    use(desk, want(B), Verdict.REFUSED)
    keys = cast("Any", client).keys(f"{prefix}:*")
    assert sorted(key.removeprefix(prefix) for key in keys) == [
        *(":loans:aaa", ":proxy:aaa", ":proxy:bbb", ":sticky:1"),
    ]
    assert all(0 < cast("Any", client).ttl(key) <= 86_400 for key in keys)
