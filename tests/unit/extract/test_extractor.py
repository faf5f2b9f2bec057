"""Items of pages: every kind of rule, in place and apart."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.core.spec import read_spec
from shoal.extract.allowance import MAX_ITEM_PARTS, MAX_VALUES, Allowance
from shoal.extract.apart import find_apart
from shoal.extract.findings import Findings, Wanted, find, find_light

PAGE = "http://h.example/a/p"
SHOP = """<html lang=en><head><title>T</title><meta property="og:title" content="OG">
<meta name="product:price:amount" content="9">
<script type="application/ld+json">{"@graph": [{"@type": ["Thing", "https://schema.org/Product"], "name": "N",
 "offers": [{"@type": "Offer", "price": "12.50"}, {"@type": "Offer", "price": 13}], "sku": {"@value": "S"}}]}</script>
<script type="application/ld+json">not json</script>
<script id=data>{"products": [{"price": 5, "tags": ["x", "y"]}, {"price": 7}]}</script></head>
<body><h1>Hello <b>you</b></h1>
<div class=card data-id=1><h2>A</h2><span class=price>1.234,56 €</span><a href=/a>x</a></div>
<div class=card data-id=2><h2>B</h2><span class=price>free</span><a href=b>x</a></div>
<div class=card data-id=3><span class=price>3 €</span></div>
<table><tr><td>k</td><td>v</td></tr></table>
<div itemscope itemtype="https://schema.org/Book"><b itemprop=name>Bk</b><i itemprop=tag>p</i><i itemprop=tag>q</i>
<i itemprop=author itemscope itemtype=Person><u itemprop=name>Al</u></i><img itemprop=image src=i.png>
<time itemprop=date datetime=2024-03-12>today</time></div>
</body></html>"""
API = json.dumps(
    {"items": [{"a": 1, "t": ["x", "y"], "u": "/x"}, {"a": 2, "n": None}], "total": "1,234", "z": "a\x00b"}
)


def wanted(*, is_json: bool = False, **settings: Any) -> Wanted:
    spec = read_spec({"urls": ["http://h.example/"], **settings})
    return Wanted(PAGE, "utf-8", extraction=spec.extraction, json=is_json)


def found(body: str = SHOP, *, is_json: bool = False, **settings: Any) -> Findings:
    return find(body.encode(), wanted(is_json=is_json, **settings))


def value(rule: Any, body: str = SHOP, *, key: str = "x", is_json: bool = False) -> Any:
    """Of one field, on a page that has another."""
    fields = {key: rule, "there": {"css": "h1"}, "total": "json:total"}
    (item,) = found(body, is_json=is_json, fields=fields).items
    return item["x"]


VALUES: list[tuple[Any, Any]] = [
    ("h1", "Hello you"),
    ("//h1/b", "you"),
    ("//a/@href", "/a"),
    ("xpath:count(//h2)", 2),
    ("xpath:boolean(//h2)", True),
    ("xpath:string((//h2)[2])", "B"),
    ("@lang", "en"),
    ("h6", None),
    ("//h6", None),
    ({"css": "h1", "as": "own"}, "Hello"),
    ({"css": "h1", "as": "html"}, "<h1>Hello <b>you</b></h1>"),
    ({"xpath": "//h1", "as": "own"}, "Hello"),
    ({"xpath": "//h1", "as": "html"}, "<h1>Hello <b>you</b></h1>"),
    ({"css": "h1", "as": "exists"}, True),
    ({"css": "h6", "as": "exists"}, False),
    ({"css": "a", "attribute": "href"}, "http://h.example/a"),
    ({"xpath": "//a", "attribute": "href"}, "http://h.example/a"),
    ({"xpath": "//a/@href", "type": "url"}, "http://h.example/a"),
    ({"css": ".card", "regex": r"(\d+),\d+"}, "234"),
    ({"css": "h2", "regex": "[B-Z]"}, "B"),
    ({"css": "h2", "regex": "[X-Z]"}, None),
    ({"css": ".card", "attribute": "data-id", "type": "integer", "many": True}, [1, 2, 3]),
    ({"css": ".price", "type": "money", "locale": "de"}, {"amount": 1234.56, "currency": "EUR"}),
    ({"css": ".price", "type": "number", "locale": "de", "many": True}, [1234.56, 3]),
    ({"css": "h1", "type": "number"}, None),
    ({"css": "h1", "type": "number", "default": 7}, 7),
    ({"css": "h6", "default": [1]}, [1]),
    ({"const": {"a": 1}}, {"a": 1}),
    ({"css": "script#data", "json": "products[0].price"}, 5),
    ({"css": "script#data", "json": "products[].price", "many": True}, [5, 7]),
    ({"xpath": "//script[@id='data']", "json": "products[1]"}, {"price": 7}),
    ({"css": "script#data", "type": "json"}, json.loads('{"products":[{"price":5,"tags":["x","y"]},{"price":7}]}')),
    ("opengraph:title", "OG"),
    ("opengraph:product:price:amount", "9"),
    ("jsonld:Product.name", "N"),
    ("jsonld:Product.sku", "S"),
    ("jsonld:Product.offers.price", "12.50"),
    ({"jsonld": "Offer.price", "many": True, "type": "number"}, [12.5, 13]),
    ("jsonld:*.name", "N"),
    ("jsonld:Nothing.name", None),
    ("microdata:Book.author.name", "Al"),
    ("microdata:Book.image", "http://h.example/a/i.png"),
    ("microdata:Book.date", "2024-03-12"),
    ({"microdata": "Book.tag", "many": True}, ["p", "q"]),
    ({"css": "tr", "fields": {"k": "./td[1]", "v": "td + td"}}, {"k": "k", "v": "v"}),
    ({"xpath": "//tr", "fields": {"k": "./td[1]", "v": "td + td"}}, {"k": "k", "v": "v"}),
    ({"fields": {"a": "h1", "b": {"fields": {"c": "h2"}}}}, {"a": "Hello you", "b": {"c": "A"}}),
    ({"css": "h6", "fields": {"a": "h1"}}, None),
    ({"each": ".card", "fields": {"n": "h2", "id": "@data-id"}},
     [{"n": "A", "id": "1"}, {"n": "B", "id": "2"}, {"n": None, "id": "3"}]),
    ({"each": ".card", "fields": {"n": {"css": "h2", "required": True}}}, [{"n": "A"}, {"n": "B"}]),
    ({"each": {"css": "script#data", "json": "products"}, "fields": {"p": "price", "t[]": "tags"}},
     [{"p": 5, "t": ["x", "y"]}, {"p": 7, "t": []}]),
    ({"each": "script#data", "fields": {"p": "json:products[0].price"}}, [{"p": 5}]),
    ({"jsonld": "Product", "fields": {"n": "name", "p:number": "offers[1].price"}}, {"n": "N", "p": 13}),
    ("json:total", None),
]  # fmt: skip
"""(rule, what it takes from the shop)"""


@pytest.mark.parametrize(("rule", "expected"), VALUES)
def test_a_rule_takes_its_value(rule: Any, expected: Any) -> None:
    assert value(rule) == expected


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("json:items[0].a", 1),
        ("json:items[].a", [1, 2]),
        ({"json": "items[].t", "many": True}, [["x", "y"]]),
        ({"json": "items[].t[]", "many": True}, ["x", "y"]),
        ({"json": "total", "type": "integer"}, 1234),
        ({"json": "items[0].u", "type": "url"}, "http://h.example/x"),
        ({"json": "items[0].t", "regex": "[y-z]"}, "y"),
        ("json:z", "ab"),
        ("json:nothing", None),
        ("json:abs(total)", None),
        ("h1", None),
        ("//h1", None),
        ({"each": "json:items", "fields": {"a": "a"}}, [{"a": 1}, {"a": 2}]),
        ({"fields": {"a": "json:items[1].a"}}, {"a": 2}),
    ],
)
def test_json_is_a_page_too(rule: Any, expected: Any) -> None:
    assert value(rule, API, is_json=True) == expected


def test_json_that_is_none_gives_nothing() -> None:
    assert found("{", is_json=True, fields={"a": "json:a"}).items == ()
    assert found("\ufeff" + API, is_json=True, fields={"a": "json:items[0].a"}).items == ({"a": 1},)


def test_each_makes_an_item_of_each_element() -> None:
    fields = {
        "n": {"css": "h2", "required": True},
        "id:integer": "@data-id",
        "title": ":root h1",
        "price:number": ".price",
    }
    got = found(each=".card", fields=fields)
    assert [item["n"] for item in got.items] == ["A", "B"]
    assert got.items[0] == {"n": "A", "id": 1, "title": "Hello you", "price": 1234.56}
    assert (got.incomplete, got.unconverted) == ({"n": 1}, {"price": 1})


def test_an_element_is_not_within_itself() -> None:
    got = found("<ul><li>a<ul><li>b</li></ul></li></ul>", each="ul > li", fields={"inner": "li", "all": "."})
    assert [item["inner"] for item in got.items] == ["b", None]


def test_a_page_without_anything_is_not_incomplete() -> None:
    got = found(
        "<p>x", fields={"t": {"css": "h1", "required": True}, "c": {"const": 1}, "d": {"css": "h2", "default": 1}}
    )
    assert (got.items, got.incomplete) == ((), {})
    got = found("<p>x", fields={"t": {"css": "h1", "required": True}, "p": "p"})
    assert (got.items, got.incomplete) == ((), {"t": 1})


@pytest.mark.parametrize(
    ("body", "settings"),
    [
        (
            SHOP,
            {"each": ".card", "fields": {"n": {"css": "h2", "required": True}, "x": ".//a/@href", "p:money": ".price"}},
        ),
        (SHOP, {"fields": {"ld": "jsonld:Product", "md": "microdata:Book", "d": {"css": "#data", "type": "json"}}}),
        (API, {"each": "json:items", "fields": {"a": "a", "t[]": "t"}, "is_json": True}),
    ],
    ids=["elements", "structured data", "JSON"],
)
def test_the_process_apart_finds_the_same(body: str, settings: dict[str, Any]) -> None:
    order = wanted(**settings)
    here = find(body.encode(), order)
    assert here.items
    assert find_apart(body.encode(), order) == here


def test_what_is_taken_of_a_page_has_an_end() -> None:
    got = found("<li>x" * (MAX_VALUES + 1), each="li", fields={"t": "."})
    assert (len(got.items), got.cut) == (MAX_VALUES, ("values",))
    deep = "[" * 100 + "]" * 100
    assert found(f'{{"a": {deep}}}', is_json=True, fields={"a": "json:a"}).cut == ("values",)
    many = json.dumps({"a": [1] * (MAX_ITEM_PARTS + 10)})
    got = found(many, is_json=True, fields={"a": "json:a"})
    assert (len(got.items[0]["a"]) <= MAX_ITEM_PARTS, got.cut) == (True, ("values",))
    doubling = " | ".join(["[@, @]"] * 30)
    assert found('{"a": 1}', is_json=True, fields={"a": f"json:{doubling}"}).cut == ("values",)


@pytest.mark.parametrize(
    ("settings", "size"),
    [
        ({"fields": {"x": "//div//div//div"}}, 300),
        ({"fields": {"x": "xpath://*[contains(., 'x')]"}}, 1_400),
        ({"each": ".card", "fields": {f"f{n}": f".x{n}" for n in range(50)}}, 1_400),
        ({"fields": {"x": "json:[a, b, c, d, e, f, g]"}, "is_json": True}, 1_000),
    ],
    ids=["XPath that roams", "XPath that reads", "fields of many elements", "JSON that grows"],
)
def test_what_may_take_long_is_read_apart(settings: dict[str, Any], size: int) -> None:
    body, order = b"<div>x</div>", wanted(**settings)
    assert find_light(body * 5, order) is not None
    assert find_light(body * size, order) is None


@pytest.mark.parametrize("rule", ["h1", ".card h2", ".card a@href", ".card@data-id", ".nosuch", "td"])
@pytest.mark.parametrize("many", [False, True])
def test_the_quick_way_gives_what_the_long_way_gives(rule: str, many: bool) -> None:
    css, _, attribute = rule.partition("@")
    plain: dict[str, Any] = {"css": css, "many": many, **({"attribute": attribute} if attribute else {})}
    slow = {**plain, "regex": r"[\s\S]*"}
    item = find(SHOP.encode(), wanted(fields={"t": "title", "quick": plain, "slow": slow})).items[0]
    assert item["quick"] == item["slow"]
    nested = {"css": "body", "fields": {"t": "h1", "quick": plain, "slow": slow}}
    inner = find(SHOP.encode(), wanted(fields={"o": nested})).items[0]["o"]
    assert inner["quick"] == inner["slow"] == item["quick"]


@given(st.text(st.sampled_from("ab \t\n\x0b\x1c\x85\xa0\u2003\u2028\u3000\u200bé"), max_size=12) | st.text(max_size=12))
def test_white_space_is_put_in_order_however_that_is_done(text: str) -> None:
    assert Allowance().read(lambda: text) == " ".join(text.split())


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (r'{"items": [{"a": "\ud83d"}, {"a": "b"}]}', ["\ufffd", "b"]),
        ('{"items": [{"a": 1e400, "b": 1}, {"a": 2}]}', [None, 2]),
        ('{"items": [{"a": NaN, "b": 1}, {"a": 2}]}', [None, 2]),
    ],
)
def test_json_that_is_not_strict_is_kept_as_far_as_it_can_be_stored(body: str, expected: list[Any]) -> None:
    findings = found(body, is_json=True, each="json:items", fields={"a": "a", "b": "b"})
    assert [item["a"] for item in findings.items] == expected
    assert not findings.unreadable
    assert not findings.unconverted


def test_an_answer_that_is_no_json_is_noted() -> None:
    for body in ("<html>not yet</html>", '{"items": [', ""):
        findings = found(body, is_json=True, each="json:items", fields={"a": "a"})
        assert findings.unreadable
        assert findings.items == ()


def test_json_in_a_page_that_is_not_strict_is_read() -> None:
    data = r'<script id=data>{"a": ["\ud83d", NaN, 5]}</script>'
    ld = '<script type="application/ld+json">{"@type": "Product", "name": "two\nlines"}</script>'
    (item,) = found(data + ld, fields={"a": {"css": "#data", "json": "a"}, "n": "jsonld:Product.name"}).items
    assert item == {"a": ["\ufffd", None, 5], "n": "two\nlines"}
