"""The short form of a field, as it stands on the command line and in job files."""

from __future__ import annotations

import pytest

from shoal.core.field import (
    MAX_SELECTOR_CHARS,
    Key,
    check_selector,
    field_names,
    parse_expression,
    parse_key,
    split_option,
)
from shoal.errors import BadSpec


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("title", Key("title")),
        ("tags[]", Key("tags", many=True)),
        ("price:money", Key("price", type="money")),
        ("prices[]:money", Key("prices", many=True, type="money")),
        (" title ", Key("title")),
        ("a.b-c_1", Key("a.b-c_1")),
        ("_", Key("_")),
    ],
)
def test_a_key_is_a_name_and_perhaps_a_list_and_a_type(text: str, key: Key) -> None:
    assert parse_key(text) == key


@pytest.mark.parametrize(
    "name",
    ["", "[]", " ", "a b", "1a", "é", "a[][]", "a[", "a[0]", "=a", "-a", "a\nb", "a:", "a:money[]", "a:b:c", ":money"],
)
def test_a_name_is_letters_digits_and_underscores(name: str) -> None:
    with pytest.raises(BadSpec) as caught:
        parse_key(name)
    assert str(caught.value) == (
        f"field name {name!r}: use letters, digits and _ (and [] at the end for a list, :TYPE for a type)"
    )


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("h1", {"css": "h1"}),
        ("img@src", {"css": "img", "attribute": "src"}),
        (" img @SRC ", {"css": "img", "attribute": "src"}),
        ("a@data-some.thing", {"css": "a", "attribute": "data-some.thing"}),
        ("use@xlink:href", {"css": "use", "attribute": "xlink:href"}),
        ("a[href='mailto:x@y']", {"css": "a[href='mailto:x@y']"}),
        ("a[href='mailto:x@y']@href", {"css": "a[href='mailto:x@y']", "attribute": "href"}),
        ("p:has(> a)", {"css": "p:has(> a)"}),
        ("@data-id", {"attribute": "data-id"}),
        (".", {}),
        (".@id", {"attribute": "id"}),
        (".price", {"css": ".price"}),
        ("//h1", {"xpath": "//h1"}),
        ("//a/@href", {"xpath": "//a/@href"}),
        ("./td[2]", {"xpath": "./td[2]"}),
        ("../h2", {"xpath": "../h2"}),
        ("(//h1)[2]", {"xpath": "(//h1)[2]"}),
        ("xpath:count(//a)", {"xpath": "count(//a)"}),
        ("json:items[].name", {"json": "items[].name"}),
        ("jsonld: Product.name", {"jsonld": "Product.name"}),
        ("microdata:Product.name", {"microdata": "Product.name"}),
        ("opengraph:title", {"opengraph": "title"}),
        ("css:a@href", {"css": "a", "attribute": "href"}),
    ],
)
def test_a_short_text_stands_for_settings(text: str, settings: dict[str, str]) -> None:
    assert parse_expression(text) == settings


def test_within_json_a_short_text_is_a_path() -> None:
    assert parse_expression("offers.price", within_json=True) == {"json": "offers.price"}
    assert parse_expression("json:name", within_json=True) == {"json": "name"}
    assert parse_expression("//h1", within_json=True) == {"json": "//h1"}


def test_names_keep_their_order() -> None:
    assert field_names({"z": "h1", "a[]": "p", "m:number": "i"}) == ("z", "a", "m")


@pytest.mark.parametrize(
    ("option", "parts"),
    [
        ("title=h1", ("title", "h1")),
        ("image=img@src", ("image", "img@src")),
        ("tags[]=.tag", ("tags[]", ".tag")),
        ("link=a[rel=next]@href", ("link", "a[rel=next]@href")),
        ("price:money=.price", ("price:money", ".price")),
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
    check_selector("a" * MAX_SELECTOR_CHARS)
    with pytest.raises(BadSpec, match="at most 1000"):
        check_selector("a" * (MAX_SELECTOR_CHARS + 1))
