"""Places in lists as opaque text."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.api import cursor
from shoal.api.problems import BadValue

_numbers = st.integers(0, 2**63 - 1)
_texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=40)


@settings(max_examples=200, deadline=None, database=None)
@given(number=_numbers, text=_texts)
def test_a_place_comes_back_as_it_was(number: int, text: str) -> None:
    assert cursor.read(cursor.write([number, text]), int, str) == [number, text]
    assert cursor.read(cursor.write([number]), int) == [number]


@settings(max_examples=200, deadline=None, database=None)
@given(number=_numbers, text=_texts)
def test_a_cursor_is_plain_enough_for_any_url(number: int, text: str) -> None:
    assert set(cursor.write([number, text])) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")


@pytest.mark.parametrize("nothing", [None, ""])
def test_no_cursor_is_the_beginning(nothing: str | None) -> None:
    assert cursor.read(nothing, int) is None


@settings(max_examples=300, deadline=None, database=None)
@given(text=st.text(min_size=1) | st.binary(min_size=1).map(lambda data: base64.urlsafe_b64encode(data).decode()))
def test_whatever_was_never_given_is_refused_and_nothing_else_happens(text: str) -> None:
    try:
        place = cursor.read(text, int)
    except BadValue as exc:
        assert exc.flaw.place == "cursor"
    else:
        assert place is not None
        assert isinstance(place[0], int)


def _encoded(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "[1]",
        "[1,2]",
        '["a",1]',
        '[1,"a",2]',
        '{"a":1}',
        "1",
        "null",
        '[1.5,"a"]',
        '[true,"a"]',
        '[null,"a"]',
        '[-1,"a"]',
        f'[{2**63},"a"]',
        '[1,"a\\u0000"]',
        "[" * 2_000,
    ],
)
def test_a_place_of_another_list_is_refused(text: str) -> None:
    with pytest.raises(BadValue):
        cursor.read(_encoded(text), int, str)
