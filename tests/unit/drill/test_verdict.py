"""A verdict that cannot fail proves nothing: here a good run is spoilt in every way that matters."""

from __future__ import annotations

from dataclasses import replace

import pytest

from shoal.core.job_status import Counters
from shoal.drill.evidence import Evidence, Held, Injected
from shoal.drill.kind import Kind
from shoal.drill.plan import Plan
from shoal.drill.site import Hit
from shoal.drill.verdict import judge

ORIGINS = ("http://127.0.0.2:8000", "http://127.0.0.3:8000")
URLS = tuple(f"{origin}/page/{number}" for number in range(10) for origin in ORIGINS)
PLAN = Plan(urls=20, hosts=2, workers=2, faults=1, lease_s=5.0, rate=4.0)
STEP_S = 0.25


def _hit(url: str, at: float) -> Hit:
    origin, page = url.split("/page/")
    return Hit(at, origin, f"/page/{page}")


ARRIVALS = {url: 100 + number // 2 * STEP_S for number, url in enumerate(URLS)}
KILL = Injected(Kind.KILL_WORKER, 0, began=101.0, ended=102.0, held=frozenset(), progress=0.4)
STOP = Injected(Kind.STOP_WORKER, 1, began=101.0, ended=102.0, held=frozenset(), progress=0.4, exit_code=0)
GOOD = Evidence(
    plan=PLAN,
    urls=frozenset(URLS),
    finished=True,
    hits=tuple(_hit(url, at) for url, at in ARRIVALS.items()),
    rows=URLS,
    stored_at={url: at + 0.1 for url, at in ARRIVALS.items()},
    unreadable=(),
    dead=(),
    counters=Counters(seen=20, admitted=20, done=20),
    faults=(KILL,),
    began=99.0,
    ended=104.0,
)


def _held(url: str, lease: str = "1:1") -> frozenset[Held]:
    return frozenset((Held(url, lease),))


def _again(url: str, at: float) -> tuple[Hit, ...]:
    return (*GOOD.hits, _hit(url, at))


def test_a_run_in_which_everything_holds_has_no_problems() -> None:
    verdict = judge(GOOD)
    assert verdict.problems == ()
    assert verdict.holds
    assert (verdict.urls, verdict.stored, verdict.refetched) == (20, 20, 0)


# --- pages ----------------------------------------------------------------------------------------------------------


def test_a_lost_url_is_found() -> None:
    verdict = judge(replace(GOOD, rows=URLS[1:], counters=Counters(seen=20, admitted=20, done=19, dropped=1)))
    assert verdict.lost == (URLS[0],)
    assert not verdict.holds


def test_a_doubled_row_is_found() -> None:
    verdict = judge(replace(GOOD, rows=(*URLS, URLS[3])))
    assert verdict.doubled == (URLS[3],)
    assert not verdict.holds


def test_a_row_of_a_page_that_the_site_does_not_have_is_found() -> None:
    stranger = f"{ORIGINS[0]}/elsewhere"
    verdict = judge(replace(GOOD, rows=(*URLS, stranger), counters=Counters(seen=20, admitted=20, done=20)))
    assert any(stranger in problem for problem in verdict.problems)


def test_a_url_fetched_again_without_a_fault_is_found() -> None:
    verdict = judge(replace(GOOD, hits=_again(URLS[3], 110.0)))
    assert verdict.refetched == 1
    assert verdict.unexplained == (URLS[3],)
    assert not verdict.holds


def test_a_url_that_was_leased_at_a_fault_may_be_fetched_again() -> None:
    verdict = judge(replace(GOOD, hits=_again(URLS[3], 110.0), faults=(replace(KILL, held=_held(URLS[3])),)))
    assert verdict.refetched == 1
    assert verdict.holds


def test_but_only_once_for_each_lease() -> None:
    hits = (*_again(URLS[3], 110.0), _hit(URLS[3], 120.0))
    hit = replace(KILL, held=_held(URLS[3]))
    twice = replace(KILL, kind=Kind.KILL_REDIS, began=101.5, held=_held(URLS[3]))
    plan = replace(PLAN, faults=2)
    assert judge(replace(GOOD, plan=plan, hits=hits, faults=(hit, twice))).unexplained == (URLS[3],)
    other_lease = replace(twice, held=_held(URLS[3], "2:1"))
    found = judge(replace(GOOD, plan=plan, hits=hits, faults=(hit, other_lease)))
    assert (found.unexplained, found.leased_anew, found.leased) == ((), (), found.refetched)


@pytest.mark.parametrize("spoilt", [{"unreadable": (URLS[0],)}, {"dead": (f"{URLS[0]} (internal_error)",)}])
def test_a_row_without_bytes_and_a_dead_letter_are_found(spoilt: dict[str, tuple[str]]) -> None:
    (problem,) = judge(replace(GOOD, **spoilt)).problems
    assert URLS[0] in problem


def test_a_worker_that_was_told_to_stop_is_forgiven_no_fetch() -> None:
    hits = _again(URLS[3], 110.0)
    stop = replace(STOP, held=_held(URLS[3]))
    assert judge(replace(GOOD, hits=hits, faults=(stop,))).unexplained == (URLS[3],)
    outage = Injected(Kind.KILL_REDIS, None, began=101.5, ended=102.0, held=_held(URLS[3]), progress=0.5)
    both = replace(GOOD, plan=replace(PLAN, faults=2), hits=hits, faults=(stop, outage))
    assert judge(both).holds


def test_a_redis_that_is_older_by_a_moment_may_lease_anew_what_was_settled_and_no_more() -> None:
    cut = Injected(Kind.CUT_REDIS, None, began=103.0, ended=103.1, held=frozenset(), progress=0.9)
    again = tuple(_hit(url, 110.0 + number) for number, url in enumerate(URLS))
    most = PLAN.most_leased
    few = replace(GOOD, hits=(*GOOD.hits, *again[:most]), faults=(cut,))
    assert judge(few).unexplained == ()
    assert (judge(few).leased, len(judge(few).leased_anew)) == (0, most)
    assert len(judge(replace(few, hits=(*GOOD.hits, *again[: most + 2]))).unexplained) == 2
    assert len(judge(replace(few, faults=(replace(cut, began=99.0),))).unexplained) == most  # all were asked after it
    assert judge(replace(few, hits=(*few.hits, _hit(URLS[0], 130.0)))).unexplained == (URLS[0],)


# --- workers --------------------------------------------------------------------------------------------------------


def test_a_worker_that_ends_well_when_it_is_told_to_has_no_problem() -> None:
    assert judge(replace(GOOD, faults=(STOP,))).holds


def test_a_worker_that_ends_with_another_code_than_0_is_found() -> None:
    (problem,) = judge(replace(GOOD, faults=(replace(STOP, exit_code=7),))).problems
    assert problem == "worker 2, told to stop, ended with code 7"


def test_a_worker_that_does_not_end_when_it_is_told_to_is_found() -> None:
    (problem,) = judge(replace(GOOD, faults=(replace(STOP, exit_code=None),))).problems
    assert problem == "worker 2, told to stop, did not end"


def test_a_worker_that_ends_without_having_been_told_to_is_found() -> None:
    ended = "worker 1 ended by itself with code 1"
    assert judge(replace(GOOD, unasked=(ended,))).problems == (ended,)


# --- sums -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "counters",
    [
        None,
        Counters(seen=20, admitted=20, done=19),
        Counters(seen=21, admitted=20, done=20),
        Counters(seen=20, admitted=20, done=19, leased=1),
        Counters(seen=21, admitted=21, done=21),
    ],
    ids=["none", "one in no place", "one seen and not taken", "one never given back", "one that is no row"],
)
def test_sums_that_do_not_reconcile_are_found(counters: Counters | None) -> None:
    verdict = judge(replace(GOOD, counters=counters))
    assert not verdict.reconciles
    assert not verdict.holds


def test_a_job_that_does_not_end_is_found() -> None:
    assert not judge(replace(GOOD, finished=False)).holds


def test_faults_that_did_not_come_are_found() -> None:
    assert not judge(replace(GOOD, faults=())).holds


# --- rates ----------------------------------------------------------------------------------------------------------


def test_a_broken_rate_is_found() -> None:
    crowd = tuple(Hit(101.0, ORIGINS[0], "/robots.txt") for _ in range(3))
    verdict = judge(replace(GOOD, hits=(*GOOD.hits, *crowd)))
    assert not verdict.rates_kept
    assert not verdict.holds
    assert verdict.worst is not None
    assert verdict.worst.origin == ORIGINS[0]


def test_a_rate_that_is_a_tenth_too_high_is_found() -> None:
    hits = tuple(Hit(100 + number / 4.4, ORIGINS[0], f"/page/{number}") for number in range(100))
    assert not judge(replace(GOOD, hits=hits)).rates_kept


def test_a_request_that_was_delayed_on_its_way_is_forgiven() -> None:
    (first, *others) = (hit for hit in GOOD.hits if hit.origin == ORIGINS[0])
    verdict = judge(replace(GOOD, hits=(replace(first, at=first.at + 0.24), *others)))
    assert verdict.rates_kept
    assert verdict.worst is not None
    assert verdict.worst.excess > 0


@pytest.mark.parametrize("kind", [Kind.FLUSH_REDIS, Kind.CUT_REDIS])
def test_a_redis_that_forgets_may_let_those_through_that_are_under_way(kind: Kind) -> None:
    hits = (*GOOD.hits, *(Hit(101.0, ORIGINS[0], "/robots.txt") for _ in range(3)))
    loss = Injected(kind, None, began=100.5, ended=101.0, held=frozenset(), progress=0.4)
    assert judge(replace(GOOD, hits=hits, faults=(loss,))).rates_kept
    assert not judge(replace(GOOD, hits=hits, faults=(replace(loss, ended=110.0),))).rates_kept


def test_what_a_worker_was_about_to_send_when_it_froze_may_come_when_it_thaws() -> None:
    hits = (*GOOD.hits, *(Hit(101.0, ORIGINS[0], "/robots.txt") for _ in range(3)))
    assert not judge(replace(GOOD, hits=hits)).rates_kept
    thaw = replace(KILL, kind=Kind.FREEZE_WORKER, began=95.0, ended=101.0)
    assert judge(replace(GOOD, hits=hits, faults=(thaw,))).rates_kept
    elsewhen = replace(thaw, ended=110.0)
    assert not judge(replace(GOOD, hits=hits, faults=(elsewhen,))).rates_kept


# --- recovery -------------------------------------------------------------------------------------------------------


def _stored(url: str, at: float) -> dict[str, float]:
    return {**GOOD.stored_at, url: at}


def test_recovery_lasts_until_what_was_leased_is_stored() -> None:
    killed = replace(KILL, held=_held(URLS[3]))
    verdict = judge(replace(GOOD, faults=(killed,), stored_at=_stored(URLS[3], 107.5)))
    assert verdict.longest_s == pytest.approx(6.5)
    assert verdict.holds


def test_a_recovery_beyond_lease_and_allowance_is_found() -> None:
    killed = replace(KILL, held=_held(URLS[3]))
    verdict = judge(replace(GOOD, faults=(killed,), stored_at=_stored(URLS[3], 116.5)))
    assert verdict.longest_s == pytest.approx(15.5)
    assert not verdict.holds


def test_a_worker_that_ends_by_itself_is_a_problem() -> None:
    ended = "worker 1 ended by itself with code 1"
    assert judge(replace(GOOD, unasked=(ended,))).problems == (ended,)


def test_a_page_that_never_comes_is_no_recovery() -> None:
    killed = replace(KILL, held=_held(URLS[3]))
    stored = {url: at for url, at in GOOD.stored_at.items() if url != URLS[3]}
    verdict = judge(replace(GOOD, faults=(killed,), stored_at=stored))
    assert verdict.longest_s is None
    assert not verdict.holds


def test_recovery_from_an_outage_counts_from_its_end_until_pages_are_stored_again() -> None:
    outage = Injected(Kind.FREEZE_REDIS, None, began=100.0, ended=120.0, held=frozenset(), progress=0.2)
    verdict = judge(replace(GOOD, faults=(outage,), stored_at=_stored(URLS[-1], 121.25)))
    assert verdict.longest_s == pytest.approx(1.25)


def test_recovery_of_a_worker_killed_under_a_lock_counts_from_the_end_of_the_lock() -> None:
    killed = replace(KILL, kind=Kind.KILL_UNDER_LOCK, began=100.0, ended=104.0, held=_held(URLS[3]))
    verdict = judge(replace(GOOD, faults=(killed,), stored_at=_stored(URLS[3], 109.0)))
    assert verdict.longest_s == pytest.approx(5.0)
    assert verdict.holds


def test_an_outage_in_between_is_not_held_against_a_worker() -> None:
    killed = replace(KILL, held=_held(URLS[3]))
    outage = Injected(Kind.KILL_REDIS, None, began=103.0, ended=120.0, held=_held(URLS[3]), progress=0.5)
    evidence = replace(GOOD, plan=replace(PLAN, faults=2), faults=(killed, outage))
    verdict = judge(replace(evidence, stored_at=_stored(URLS[3], 122.0)))
    assert [recovery.seconds for recovery in verdict.recoveries] == [pytest.approx(2.0), pytest.approx(2.0)]


def test_what_was_leased_anew_and_hit_again_counts_there() -> None:
    killed = replace(KILL, held=_held(URLS[3], "1:1"))
    again = replace(KILL, began=107.0, ended=108.0, held=_held(URLS[3], "2:1"))
    evidence = replace(GOOD, plan=replace(PLAN, faults=2), faults=(killed, again))
    first, second = judge(replace(evidence, stored_at=_stored(URLS[3], 113.0))).recoveries
    assert first.seconds is not None
    assert first.seconds < 1.0
    assert second.seconds == pytest.approx(6.0)
