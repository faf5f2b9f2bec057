"""A worker is forgiven what it held itself, and not what others held at the same time."""

from __future__ import annotations

from shoal.drill.evidence import Held
from shoal.drill.owners import held_by
from shoal.drill.site import Hit

ORIGIN = "http://127.0.0.2:8000"


def _held(page: int, lease: str, since: float = 100.0) -> Held:
    return Held(f"{ORIGIN}/page/{page}", lease, since)


def _hit(page: int, worker: int, at: float = 100.5) -> Hit:
    return Hit(at, ORIGIN, f"/page/{page}", worker)


def test_what_another_worker_has_asked_for_is_not_the_victims() -> None:
    mine, other = _held(1, "7:1"), _held(2, "8:1")
    assert held_by(0, [mine, other], [_hit(1, worker=0), _hit(2, worker=1)]) == {mine}


def test_one_request_tells_whose_the_whole_group_is() -> None:
    group = {_held(1, "7:1"), _held(2, "7:2")}
    assert held_by(0, group, [_hit(1, worker=0)]) == group
    assert held_by(1, group, [_hit(1, worker=0)]) == set()


def test_what_nobody_has_asked_for_may_be_the_victims() -> None:
    group = {_held(1, "7:1")}
    assert held_by(0, group, []) == group


def test_a_request_from_before_the_lease_tells_nothing() -> None:
    group = {_held(1, "7:1", since=100.0)}
    assert held_by(0, group, [_hit(1, worker=1, at=99.0)]) == group


def test_a_latecomer_does_not_take_the_group_from_its_worker() -> None:
    group = {_held(1, "7:1")}
    assert held_by(0, group, [_hit(1, worker=0), _hit(1, worker=1, at=101.0)]) == group
