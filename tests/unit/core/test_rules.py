"""Rules from short texts and mappings, and everything that can be wrong with them."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.core.field import MAX_JOB_FIELDS
from shoal.core.rules import MAX_FIELD_DEPTH, BadRules, Rule, read_rules


def flaws(fields: Any, each: Any = None) -> dict[str, str]:
    with pytest.raises(BadRules) as caught:
        read_rules(fields, each)
    return dict(caught.value.flaws)


@pytest.mark.parametrize(
    ("key", "value", "rule"),
    [
        ("t", "h1", Rule("t", "css", "h1")),
        ("t[]:number", "li", Rule("t", "css", "li", type="number", many=True)),
        ("t", {"css": "img", "attribute": "SRC"}, Rule("t", "css", "img", attribute="src")),
        ("t", {"css": "p", "as": "html", "many": True}, Rule("t", "css", "p", take="html", many=True)),
        ("t", {"css": "script", "json": "a.b"}, Rule("t", "css", "script", path="a.b")),
        ("t", {"xpath": "//a", "required": True}, Rule("t", "xpath", "//a", required=True)),
        ("t", {"css": "a", "default": 0}, Rule("t", "css", "a", default=0)),
        ("t", {"const": None}, Rule("t", const=None)),
        (
            "t",
            {"each": ".card", "fields": {"n": "h2"}},
            Rule("t", "css", ".card", many=True, fields=(Rule("n", "css", "h2"),)),
        ),
        (
            "t",
            {"jsonld": "Product", "fields": {"n": "name"}},
            Rule("t", "jsonld", "Product", fields=(Rule("n", "json", "name"),)),
        ),
    ],
)
def test_a_rule_is_read(key: str, value: Any, rule: Rule) -> None:
    assert read_rules({key: value}).fields == (rule,)


@pytest.mark.parametrize(
    ("value", "place", "words"),
    [
        (":::", "x", "not a CSS selector"),
        ("//a[", "x", "not an XPath"),
        ("//a[foo()]", "x", "no function foo()"),
        ("//svg:a", "x", "namespace"),
        ("xpath:$y", "x", "variables"),
        ("json:a..b", "x", "not a JMESPath"),
        ("json:lenght(a)", "x", "did you mean length()?"),
        ("jsonld:a[0]", "x", "write a type"),
        ("opengraph:a b", "x", "write a property"),
        ("", "x", "write a selector"),
        (7, "x", "write a selector"),
        ({}, "x", "write a selector"),
        ({"css": "h1", "tpye": "number"}, "x.tpye", "did you mean 'type'?"),
        ({"css": "h1", "type": "mony"}, "x.type", "did you mean 'money'?"),
        ({"css": "h1", "as": "markup"}, "x.as", "there are text"),
        ({"css": 7}, "x.css", "a text is needed"),
        ({"css": "h1", "many": "yes"}, "x.many", "true or false"),
        ({"css": "h1", "xpath": "//h1"}, "x", "one of them"),
        ({"css": "h1", "regex": "("}, "x.regex", "not a regular expression"),
        ({"css": "h1", "locale": "de"}, "x.locale", "types that depend on it"),
        ({"css": "h1", "type": "number", "locale": "xx"}, "x.locale", "no locale"),
        ({"css": "h1", "format": "%Y"}, "x.format", "type: date"),
        ({"css": "h1", "type": "date", "format": "x"}, "x.format", "strptime"),
        ({"css": "h1", "attribute": "id", "as": "html"}, "x.as", "leave one of them out"),
        ({"json": "a", "attribute": "id"}, "x.attribute", "for elements"),
        ({"css": "h1", "as": "exists", "type": "bool"}, "x.as", "bool already"),
        ({"css": "h1", "required": True, "default": 1}, "x.required", "never missing"),
        ({"css": "h1", "default": {1, 2}}, "x.default", "JSON value"),
        ({"css": "h1", "default": "y" * 2_000}, "x.default", "1000 characters"),
        ({"const": 1, "css": "h1"}, "x.css", "leave this out"),
        ({"required": True}, "x", "what is to be taken?"),
        ({"each": ".card"}, "x", "each needs fields"),
        ({"each": ".card", "css": "a", "fields": {"n": "h2"}}, "x.css", "says already"),
        ({"each": {"css": ".c", "type": "number"}, "fields": {"n": "h2"}}, "x.each.type", "belongs to its fields"),
        ({"css": "a", "fields": {"n": "h2["}}, "x.fields.n", "not a CSS selector"),
        ({"css": "a", "fields": {}}, "x.fields", "no fields in it"),
        ({"css": "a", "type": "number", "fields": {"n": "h2"}}, "x.type", "for values"),
        ({"json": "a", "fields": {"n": "css:h2"}}, "x.fields.n", "only json here"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(value: Any, place: str, words: str) -> None:
    found = flaws({"x": value, "fine": "h1"})
    assert words in found[f"fields.{place}"], found


def test_everything_is_told_at_once() -> None:
    found = flaws({"a b": "h1", "c": ":::", "url": "h1", "d:mony": "h1"}, ".c[")
    assert sorted(found) == ["each", "fields", "fields.c", "fields.d.type", "fields.url"]


def test_each_needs_fields_and_finds_something() -> None:
    assert "add fields" in flaws({}, ".card")["each"]
    assert "write what there is an object for" in flaws({"a": "b"}, "@id")["each"]
    assert flaws({"a": "b"}, 7)["each"]


def test_there_is_an_end_to_nesting_and_to_numbers() -> None:
    rule: Any = "h1"
    for _ in range(MAX_FIELD_DEPTH):
        rule = {"css": "div", "fields": {"x": rule}}
    assert "5 deep" in next(iter(flaws({"x": rule}).values()))
    half = {f"f{number}": "p" for number in range(MAX_JOB_FIELDS // 2)}
    assert "at most 200" in next(iter(flaws({**half, "o": {"css": "p", "fields": half}}).values()))
    assert "1000 characters" in flaws({"x": "a" * 1_001})["fields.x"]
    assert "100 characters" in flaws({"x" * 101: "a"})["fields"]
