"""What fields look like in numbers."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from shoal.core.tally import KEPT, KEPT_OF_HOST, MAX_FIELDS, MAX_HOSTS, Tally, describe

URL = "http://h.example/a"


def tally_of(*items: dict[str, Any], url: str = URL) -> Tally:
    tally = Tally()
    for item in items:
        tally.add(url, item)
    return tally


def test_empty_values_are_not_filled() -> None:
    whole = tally_of({"a": "x"}, {"a": None}, {"a": ""}, {"a": []}, {"a": 0}, {"a": False}, {}).whole
    assert (whole.items, whole.fields["a"].filled) == (7, 3)
    assert whole.fill_rate("a") == pytest.approx(3 / 7)
    assert whole.fill_rate("nothing") == 0


@pytest.mark.parametrize(
    ("values", "kind", "low", "high"),
    [
        ([3, 1, 2], "integer", 1.0, 3.0),
        ([1.5, -2.5], "number", -2.5, 1.5),
        (["abc", "a"], "text", 1.0, 3.0),
        (["2026-01-02", "2025-12-31T10:00:00Z"], "date", "2025-12-31T10:00:00Z", "2026-01-02"),
        ([True], "bool", 1.0, 1.0),
        ([["a", "b"], ["c"]], "list", 1.0, 2.0),
    ],
)
def test_types_and_ranges(values: list[Any], kind: str, low: object, high: object) -> None:
    field = tally_of(*({"a": value} for value in values)).whole.fields["a"]
    assert (field.main_type, field.low, field.high) == (kind, low, high)


def test_a_value_of_another_type_does_not_spoil_the_range() -> None:
    field = tally_of({"a": 5}, {"a": 7}, {"a": "n/a"}).whole.fields["a"]
    assert (field.main_type, field.low, field.high, field.types) == ("integer", 5.0, 7.0, {"integer": 2, "text": 1})


def test_the_range_is_that_of_the_type_which_is_the_most_frequent_in_the_end() -> None:
    field = tally_of({"a": "abc"}, {"a": "ab"}, {"a": 1000}, {"a": 2000}, {"a": 3000}).whole.fields["a"]
    assert (field.main_type, field.low, field.high) == ("integer", 3000.0, 3000.0)


def test_few_different_values_are_counted_exactly() -> None:
    field = tally_of(*({"a": number % 50} for number in range(1_000))).whole.fields["a"]
    assert field.distinct(KEPT) == 50


def test_many_are_estimated_within_a_fifth() -> None:
    field = tally_of(*({"a": f"value {number % 20_000}"} for number in range(40_000))).whole.fields["a"]
    assert 16_000 < field.distinct(KEPT) < 24_000
    assert len(field.hashes) == KEPT


def test_objects_are_counted_by_their_fields() -> None:
    whole = tally_of({"price": {"amount": 3, "currency": "EUR"}}).whole
    assert set(whole.fields) == {"price.amount", "price.currency"}


def test_hosts_have_tallies_of_their_own_up_to_a_number() -> None:
    tally = Tally()
    for number in range(MAX_HOSTS + 50):
        tally.add(f"http://h{number}.example/", {"a": 1})
    assert (len(tally.hosts), tally.whole.items) == (MAX_HOSTS, MAX_HOSTS + 50)


def test_names_of_strangers_do_not_make_it_grow_without_end() -> None:
    tally = tally_of(*({f"name {number}" * 50: 1} for number in range(1_000)))
    assert len(tally.whole.fields) == MAX_FIELDS
    assert len(tally.to_json()) < 200_000


VALUES = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False) | st.text(max_size=30)
ITEMS = st.dictionaries(st.sampled_from("abc"), VALUES | st.lists(VALUES, max_size=3), max_size=3)


@settings(max_examples=100, deadline=None)
@example(items=[{"a": float("inf")}], cut=1)
@given(items=st.lists(ITEMS, max_size=20), cut=st.integers(0, 20))
def test_counting_in_two_steps_comes_to_the_same(items: list[dict[str, Any]], cut: int) -> None:
    whole = tally_of(*items)
    part = Tally.of_json(tally_of(*items[:cut]).to_json())
    for item in items[cut:]:
        part.add(URL, item)
    assert part.to_json() == whole.to_json()
    assert describe(part.whole, KEPT) == describe(whole.whole, KEPT)
    assert describe(part.hosts["h.example"], KEPT_OF_HOST)["items"] == len(items) if items else True
