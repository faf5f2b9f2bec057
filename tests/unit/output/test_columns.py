"""Types of columns: the narrowest that holds every value, and a text where none does."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shoal.output.columns import (
    MAX_COLUMNS,
    MAX_PARTS,
    OTHERS,
    ListOf,
    Rows,
    Scalar,
    Shape,
    Struct,
    Type,
    Unfit,
    fitter,
    joined,
    type_of,
)

TEXT = st.text("aé\ud800\x00", max_size=3)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)


NAMED = Struct((("amount", Scalar.NUMBER), ("currency", Scalar.TEXT)))
KINDS: list[tuple[list[Any], Type]] = [
    ([None, None], Scalar.NOTHING),
    ([1, None, 2], Scalar.INTEGER),
    ([1, 2.5], Scalar.NUMBER),
    ([True, False], Scalar.BOOL),
    ([True, 1], Scalar.TEXT),
    ([1, "n/a"], Scalar.TEXT),
    ([2**63], Scalar.TEXT),
    ([[1], [], [2.5]], ListOf(Scalar.NUMBER)),
    ([[1], "x"], Scalar.TEXT),
    ([{"amount": 1, "currency": "EUR"}, {"amount": 2.5}], NAMED),
    ([{}], Scalar.TEXT),
    ([[[[[[1]]]]]], ListOf(ListOf(ListOf(ListOf(Scalar.TEXT))))),
    ([{str(n): n for n in range(MAX_PARTS + 1)}], Scalar.TEXT),
]


@pytest.mark.parametrize(("values", "kind"), KINDS)
def test_a_column_has_the_narrowest_type_that_holds_every_value(values: list[Any], kind: Type) -> None:
    shape = Shape()
    for value in values:
        shape.look({"a": value})
    (column,) = shape.columns()
    assert column.type == kind


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.dictionaries(st.sampled_from("abc"), JSON, max_size=3), max_size=6))
def test_every_value_that_was_looked_at_fits(records: list[dict[str, Any]]) -> None:
    shape = Shape(("a",), {"b": Scalar.TIME, "c": ListOf(Scalar.INTEGER)})
    for record in records:
        shape.look(record)
    rows = Rows(shape.columns())
    for record in records:
        assert len(rows.row(record)) == len(rows.columns)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(JSON, JSON)
def test_types_are_joined_in_any_order(one: Any, other: Any) -> None:
    left, right = joined(type_of(one), type_of(other)), joined(type_of(other), type_of(one))
    assert one is None or fitter(left)(one) is not None
    assert one is None or fitter(right)(one) is not None


def test_a_declared_type_counts_while_every_value_fits() -> None:
    shape = Shape(("at", "price"), {"at": Scalar.TIME, "price": Scalar.NUMBER})
    shape.look({"at": "2026-11-17T08:00:00+01:00", "price": 3})
    at, price = shape.columns()
    assert (at.type, price.type) == (Scalar.TIME, Scalar.NUMBER)
    assert Rows((at, price)).row({"at": "2026-11-17T08:00:00+01:00", "price": 3}) == [
        datetime(2026, 11, 17, 7, tzinfo=UTC),
        3.0,
    ]
    shape.look({"at": "soon", "price": "dear"})
    assert [column.type for column in shape.columns()] == [Scalar.TEXT, Scalar.TEXT]


def test_names_without_end_go_to_one_column_of_json() -> None:
    shape = Shape()
    for number in range(MAX_COLUMNS + 5):
        shape.look({f"n{number}": number})
    columns = shape.columns()
    assert len(columns) == MAX_COLUMNS + 1
    assert columns[-1].name == OTHERS
    assert Rows(columns).row({"n1": 1, f"n{MAX_COLUMNS + 1}": 7})[-1] == f'{{"n{MAX_COLUMNS + 1}":7}}'


def test_a_field_that_is_called_like_the_rest_keeps_its_values() -> None:
    shape = Shape()
    record = {OTHERS: 2.5, "Title": "a"}
    shape.look(record)
    assert Rows(shape.columns()).row(record) == ([2.5, "a"] if shape.columns()[0].name == OTHERS else ["a", 2.5])
    for number in range(MAX_COLUMNS):
        shape.look({f"n{number}": number})
    columns = shape.columns()
    assert columns[-1].name == f"{OTHERS}_2"
    row = dict(zip((column.name for column in columns), Rows(columns).row(record), strict=True))
    assert (row[OTHERS], row["Title"], row[f"{OTHERS}_2"]) == (2.5, "a", None)


def test_columns_that_nobody_has_named_are_all_there_in_an_order_that_does_not_depend_on_who_came_first() -> None:
    records = [
        {"url": "u", "a": 1, "z": 2},
        {"url": "u", "z": 2, "c": 3},
        {"url": "u", "late": 1},
        {"url": "u", "a": 1},
    ]
    orders: list[list[str]] = []
    for some in (records, records[::-1], [*records[2:], *records[:2]]):
        shape = Shape(("url",))
        for record in some:
            shape.look(record)
        orders.append([column.name for column in shape.columns()])
    assert orders == [["url", "a", "late", "z", "c"]] * 3
    alike = Shape(("url",))
    for _ in range(3):
        alike.look({"url": "u", "title": 1, "price": 2, "author": 3})
    assert [column.name for column in alike.columns()] == ["url", "title", "price", "author"], "as they are yielded"


def test_what_was_changed_after_the_look_is_told_with_its_column() -> None:
    shape = Shape()
    shape.look({"price": 1})
    with pytest.raises(Unfit) as caught:
        Rows(shape.columns()).row({"price": "dear"})
    assert caught.value.column == "price"
    shape.forget_type("price")
    assert Rows(shape.columns()).row({"price": 1}) == ["1"]
