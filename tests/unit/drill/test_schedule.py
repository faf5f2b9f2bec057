"""The schedule follows from the plan alone, and leaves no kind of fault out."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from shoal.drill.kind import DECK, LOSSES, Kind, kinds_for, kinds_named
from shoal.drill.plan import Plan
from shoal.drill.schedule import FIRST, LAST, make_schedule
from shoal.errors import InputError

PLAN = Plan(faults=6)


def test_the_same_seed_has_the_same_faults() -> None:
    assert make_schedule(replace(PLAN, seed=7)) == make_schedule(replace(PLAN, seed=7))


def test_another_seed_has_other_faults() -> None:
    assert make_schedule(replace(PLAN, seed=7)) != make_schedule(replace(PLAN, seed=8))


@pytest.mark.parametrize("seed", range(20))
def test_faults_come_in_order_while_there_is_work_before_and_after_them(seed: int) -> None:
    schedule = make_schedule(replace(PLAN, seed=seed))
    moments = [fault.at for fault in schedule]
    assert len(schedule) == PLAN.faults
    assert moments == sorted(moments)
    assert moments[0] >= FIRST
    assert moments[-1] <= LAST
    assert {fault.worker for fault in schedule} <= set(range(PLAN.workers))


def test_every_kind_comes_once_before_any_comes_twice() -> None:
    once = make_schedule(replace(PLAN, faults=len(DECK)))
    assert sorted(fault.kind for fault in once) == sorted(DECK)
    counts = Counter(fault.kind for fault in make_schedule(replace(PLAN, faults=2 * len(DECK))))
    assert counts == dict.fromkeys(DECK, 2)


def test_frozen_workers_stay_so_beyond_their_lease() -> None:
    faults = [fault for seed in range(50) for fault in make_schedule(replace(PLAN, seed=seed, lease_s=3.0))]
    freezes = [fault.seconds for fault in faults if fault.kind in (Kind.FREEZE_WORKER, Kind.FREEZE_CHILD)]
    assert freezes
    assert 3.0 <= min(freezes) <= max(freezes) <= 6.0


def test_redis_loses_data_in_every_run_and_in_both_ways() -> None:
    schedules = [make_schedule(replace(PLAN, seed=seed)) for seed in range(20)]
    losses = [{fault.kind for fault in schedule} & set(LOSSES) for schedule in schedules]
    assert all(losses)
    assert set().union(*losses) == set(LOSSES)


def test_redis_loses_nothing_when_that_was_not_wanted() -> None:
    kinds = kinds_for([], losses=False)
    assert set(kinds) == set(DECK) - set(LOSSES)
    for seed in range(20):
        schedule = make_schedule(replace(PLAN, seed=seed, kinds=kinds, flush=False))
        assert not {fault.kind for fault in schedule} & set(LOSSES)
    with pytest.raises(InputError, match="no fault is left"):
        kinds_for(["FLUSHALL"], losses=False)


@pytest.mark.parametrize("seed", range(40))
def test_no_rebuild_comes_after_a_kill_under_a_lock_whose_traces_it_would_cover(seed: int) -> None:
    kinds = [fault.kind for fault in make_schedule(replace(PLAN, seed=seed))]
    if Kind.KILL_UNDER_LOCK in kinds:
        assert not set(LOSSES) & set(kinds[kinds.index(Kind.KILL_UNDER_LOCK) :])


def test_every_kind_of_the_deck_comes_within_twenty_seeds() -> None:
    assert {fault.kind for seed in range(1, 21) for fault in make_schedule(replace(PLAN, seed=seed))} == set(Kind)


def test_a_plan_without_faults_has_an_empty_schedule() -> None:
    assert make_schedule(replace(PLAN, faults=0, flush=True)) == []


def test_faults_can_be_chosen_by_words_of_their_names() -> None:
    chosen = kinds_named(["redis"])
    assert set(chosen) == {Kind.KILL_REDIS, Kind.FREEZE_REDIS}
    assert {fault.kind for fault in make_schedule(replace(PLAN, kinds=chosen, flush=False))} == set(chosen)
    assert kinds_named([]) == DECK


def test_a_fault_that_nobody_knows_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(InputError, match="earthquake; there are kill -9 worker"):
        kinds_named(["redis", "earthquake"])
