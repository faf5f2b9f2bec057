"""Checks run beside each other: one that fails or hangs is told of, and stops no other."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

from shoal.doctor.checkup import CHECKS, Check, check_up
from shoal.doctor.environment import Reading
from shoal.doctor.finding import Area, Finding, Level, well
from shoal.doctor.ground import Ground, NotLooked
from shoal.settings import Settings


def ground(tmp_path: Path) -> Ground:
    """Of a new home."""
    return Ground.of(Reading(Settings(home=tmp_path), {}, frozenset()), frozenset)


def _well(ground: Ground) -> Iterator[Finding]:
    del ground
    yield well(Area.CLOCK, "fine")


def _broken(ground: Ground) -> Iterator[Finding]:
    del ground
    yield well(Area.REDIS, "found before")
    raise ValueError("a bug: redis://user:hunter2@host")


def _nothing(ground: Ground) -> Iterator[Finding]:
    del ground
    raise NotLooked("there is no Redis to ask")
    yield


def test_a_check_that_fails_or_has_nothing_to_look_at_stops_no_other(tmp_path: Path) -> None:
    checks = (Check(Area.CLOCK, _well), Check(Area.REDIS, _broken), Check(Area.FLEET, _nothing))
    before, redis, fleet, clock = check_up(ground(tmp_path), checks)
    assert before.what == "found before"
    assert (redis.area, redis.level, redis.code) == (Area.REDIS, Level.WARNING, "check_failed")
    assert "ValueError: a bug" in redis.what
    assert "hunter2" not in redis.what
    assert (fleet.level, fleet.what) == (Level.NOTE, "not looked at: there is no Redis to ask")
    assert clock.level is Level.OK


def test_a_check_that_hangs_is_told_of_and_not_waited_for(tmp_path: Path) -> None:
    goes_on = threading.Event()

    def hanging(ground: Ground) -> Iterator[Finding]:
        del ground
        goes_on.wait()
        yield well(Area.NETWORK, "at last")

    network, clock = check_up(ground(tmp_path), (Check(Area.NETWORK, hanging), Check(Area.CLOCK, _well)), 0.2)
    goes_on.set()
    assert (network.code, network.what) == ("check_stuck", "no answer in time: hanging")
    assert clock.what == "fine"


def test_what_several_checks_say_is_said_once(tmp_path: Path) -> None:
    assert len(check_up(ground(tmp_path), (Check(Area.FLEET, _nothing),) * 3)) == 1


def test_every_area_has_a_check() -> None:
    assert {check.area for check in CHECKS} == set(Area)
