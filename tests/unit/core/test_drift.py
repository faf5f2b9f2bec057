"""Does a run look like the earlier ones?"""

from __future__ import annotations

from shoal.core.drift import Profile, find_drifts
from shoal.core.tally import Tally


def run(items: int = 100, quarantined: int = 0, price: float = 1.0, kind: str = "number") -> Profile:
    return Profile("j", items, quarantined, {"title": 1.0, "price": price}, {"title": "text", "price": kind})


def told(now: Profile, *earlier: Profile) -> list[str]:
    return [f"{drift.what} {drift.field}".strip() for drift in find_drifts(now, earlier)]


def test_a_first_run_has_nothing_to_differ_from() -> None:
    assert told(run(price=0.0)) == []


def test_a_run_like_the_others_has_not_drifted() -> None:
    assert told(run(103, 1, 0.97), run(100), run(98, 2, 0.99), run(105, 0, 0.98)) == []


def test_a_field_that_is_filled_less_often_is_named_with_what_was_expected() -> None:
    (drift,) = find_drifts(run(price=0.12), [run(price=0.98), run(price=1.0)])
    assert (drift.what, drift.field) == ("fill", "price")
    assert drift.told == "price: filled 12.0%; 2 earlier runs: 98.0% to 100%"
    assert drift.as_json["detail"] == drift.told


def test_a_field_that_is_gone_has_drifted() -> None:
    gone = Profile("j", 100, 0, {"title": 1.0}, {"title": "text"})
    assert told(gone, run(), run()) == ["fill price"]


def test_a_field_that_varies_may_vary() -> None:
    assert told(run(price=0.3), run(price=0.4), run(price=0.9), run(price=0.5)) == []


def test_far_fewer_and_far_more_items_are_noticed() -> None:
    assert told(run(60), run(100), run(100)) == ["volume"]
    assert told(run(160), run(100), run(100)) == ["volume"]
    assert told(run(60), run(100)) == []  # one earlier run shows no range
    assert told(run(40), run(100)) == ["volume"]


def test_an_empty_run_is_said_once() -> None:
    assert told(Profile("j", 0, 0, {}, {}), run(), run()) == ["volume"]


def test_more_in_quarantine_is_noticed_and_less_is_not() -> None:
    assert told(run(100, 30), run(), run()) == ["quarantine"]
    assert told(run(100, 0), run(100, 30), run(100, 30)) == []


def test_another_type_is_noticed_but_a_whole_number_is_a_number() -> None:
    assert told(run(kind="text"), run(), run()) == ["type price"]
    assert told(run(kind="integer"), run(), run()) == []


def test_a_profile_is_read_off_a_tally() -> None:
    tally = Tally()
    tally.add("http://h.example/", {"a": 1, "b": None})
    tally.add("http://h.example/", {"a": "x", "b": None})
    profile = Profile.of("j", tally, 2)
    assert (profile.items, profile.fill, profile.invalid) == (2, {"a": 1.0, "b": 0.0}, 0.5)
    assert "b" not in profile.types
