"""The short form of a field, as it stands on the command line and in job files."""

from __future__ import annotations

import pytest

from shoal.core.field import MAX_SELECTOR_CHARS, Field, parse_field, parse_fields, split_option
from shoal.errors import BadSpec


@pytest.mark.parametrize(
    ("name", "expression", "field"),
    [
        ("title", "h1", Field("title", "h1")),
        ("tags[]", ".tag", Field("tags", ".tag", many=True)),
        ("image", "img@src", Field("image", "img", "src")),
        ("images[]", "img@src", Field("images", "img", "src", many=True)),
        (" title ", "  h1 ", Field("title", "h1")),
        ("x", " img @SRC ", Field("x", "img", "src")),
        ("x", "a@data-some.thing", Field("x", "a", "data-some.thing")),
        ("x", "use@xlink:href", Field("x", "use", "xlink:href")),
        ("x", "a[href='mailto:x@y']", Field("x", "a[href='mailto:x@y']")),
        ("x", "a[href='mailto:x@y']@href", Field("x", "a[href='mailto:x@y']", "href")),
        ("x", "h1, h2", Field("x", "h1, h2")),
        ("x", "p:has(> a)", Field("x", "p:has(> a)")),
        ("a.b-c_1", "h1", Field("a.b-c_1", "h1")),
        ("_", "*", Field("_", "*")),
    ],
)
def test_a_field_is_a_name_a_selector_and_perhaps_an_attribute(name: str, expression: str, field: Field) -> None:
    assert parse_field(name, expression) == field


@pytest.mark.parametrize("name", ["", "[]", " ", "a b", "1a", "é", "a[][]", "a[", "a[0]", "=a", "-a", "a\nb"])
def test_a_name_is_letters_digits_and_underscores(name: str) -> None:
    with pytest.raises(BadSpec) as caught:
        parse_field(name, "h1")
    assert str(caught.value) == (f"field name {name!r}: use letters, digits and _ (and [] at the end for a list)")


@pytest.mark.parametrize(
    ("expression", "selector"),
    [
        ("", ""),
        ("@href", ""),
        (" @href", ""),
        (":::", ":::"),
        ("div[", "div["),
        ("h1 >", "h1 >"),
        ("p:nonsense", "p:nonsense"),
        ("p::text", "p::text"),
        ("//h1", "//h1"),
        ("a@b@c", "a@b"),
        ("a@", "a@"),
    ],
)
def test_a_selector_that_cannot_be_parsed_is_named(expression: str, selector: str) -> None:
    with pytest.raises(BadSpec) as caught:
        parse_field("x", expression)
    assert str(caught.value) == f"field 'x': {selector!r} is not a CSS selector that can be parsed"


def test_fields_keep_their_order() -> None:
    assert [field.name for field in parse_fields({"z": "h1", "a[]": "p", "m": "i"})] == ["z", "a", "m"]


@pytest.mark.parametrize(
    ("option", "parts"),
    [
        ("title=h1", ("title", "h1")),
        ("image=img@src", ("image", "img@src")),
        ("tags[]=.tag", ("tags[]", ".tag")),
        ("link=a[rel=next]@href", ("link", "a[rel=next]@href")),
        ("  title =  h1  ", ("title", "h1")),
    ],
)
def test_an_option_is_split_at_its_first_equals_sign(option: str, parts: tuple[str, str]) -> None:
    assert split_option(option) == parts


@pytest.mark.parametrize("option", ["title", "title=", "title=  ", "", "="])
def test_an_option_without_a_selector_is_refused(option: str) -> None:
    with pytest.raises(BadSpec) as caught:
        split_option(option)
    assert str(caught.value) == (f"--field {option!r}: write NAME=SELECTOR, for example title=h1 or image=img@src")


def test_a_selector_has_an_end() -> None:
    assert parse_field("x", "a" * MAX_SELECTOR_CHARS).selector
    with pytest.raises(BadSpec, match="at most 1000"):
        parse_field("x", "a" * (MAX_SELECTOR_CHARS + 1))
