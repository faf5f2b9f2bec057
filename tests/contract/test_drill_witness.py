"""What the drill's witness sees in Redis of what workers hold: when it was leased, whatever its number says."""

from __future__ import annotations

import time
from collections.abc import Generator
from datetime import timedelta

import pytest

from shoal.core.model import ALL_QUEUES
from shoal.drill.owners import held_by
from shoal.drill.plan import Plan
from shoal.drill.site import Hit
from shoal.drill.witness import Witness
from tests.contract.api import Desk

ORIGIN = "http://shop.example"


@pytest.fixture
def witness(desk: Desk) -> Generator[Witness]:
    witness = Witness(desk.platform, Plan(), desk.submit(f"{ORIGIN}/page/1", f"{ORIGIN}/page/2"))
    yield witness
    witness.close()


def _lease(desk: Desk) -> None:
    assert desk.platform.frontier.lease(queues=ALL_QUEUES, limit=1, lease_for=timedelta(minutes=1)).leases


def test_a_lease_is_as_old_as_it_is_also_when_its_number_runs_ahead_of_the_clock(desk: Desk, witness: Witness) -> None:
    began = time.monotonic()
    _lease(desk)
    rebuild = desk.platform.rebuild
    rebuild.skip_leases("another run", timedelta(minutes=5))
    _lease(desk)
    ended = time.monotonic()
    first, second = sorted(witness.leased(), key=lambda held: int(held.group))
    assert int(second.group) - int(first.group) > 1_000_000  # else this shows nothing
    for held in (first, second):
        assert began - 0.1 <= held.since <= ended + 0.1


def test_after_a_fault_of_redis_a_worker_is_not_forgiven_what_another_has_asked_for(
    desk: Desk, witness: Witness
) -> None:
    desk.platform.rebuild.skip_leases("another run", timedelta(minutes=5))
    _lease(desk)
    (held,) = witness.leased()
    hit = Hit(time.monotonic(), ORIGIN, held.url.removeprefix(ORIGIN), 1)
    assert held_by(0, [held], [hit]) == set()
    assert held_by(1, [held], [hit]) == {held}
