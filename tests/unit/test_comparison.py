"""Two versions of items, row by row."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.changes.comparison import Summary, by_field, by_page, compare
from shoal.store.items import ItemRow


def _row(number: int, data: dict[str, Any], version: str = "v1") -> ItemRow:
    return ItemRow("job", 1, number, "https://h.example/", data, version)


@pytest.mark.parametrize(
    ("before", "after", "same"),
    [
        (1, 1.0, True),
        ([1, {"a": 2}], [1.0, {"a": 2.0}], True),
        (1, True, False),
        ([1], [True], False),
        ({"a": [0, {"b": 1}]}, {"a": [0, {"b": True}]}, False),
        ({"a": False}, {"a": 0}, False),
        ({"a": [1, 2]}, {"a": [1, 2, 3]}, False),
        ("1", 1, False),
        (None, "", False),
    ],
)
def test_values_are_the_same_when_they_are_in_json(before: object, after: object, same: bool) -> None:
    summary = Summary()
    changes = list(compare(by_page([_row(0, {"x": before})]), by_page([_row(0, {"x": after})]), summary))
    assert bool(changes) is not same
    assert summary.same == (1 if same else 0)


def test_rows_with_one_number_as_their_key_are_one_row_however_it_is_written() -> None:
    summary = Summary()
    with by_field([_row(0, {"id": 7, "n": "a"})], [_row(0, {"id": 7.0, "n": "b"})], "id") as (left, right):
        (change,) = compare(left, right, summary)
    assert (change.kind, list(change.fields)) == ("changed", ["n"])


def test_rows_without_a_value_of_the_key_are_known_by_their_places() -> None:
    """One that is new before them must not be taken for the next."""
    summary = Summary()
    old = [_row(1, {"n": "a"}), _row(2, {"id": None, "n": "b"})]
    with by_field(old, [_row(0, {"n": "z"}), *old], "id") as (left, right):
        (change,) = compare(left, right, summary)
    assert (change.kind, change.item.data) == ("added", {"n": "z"})
    assert (summary.same, summary.changed) == (2, 0)
