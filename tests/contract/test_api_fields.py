"""Fields over the API: everything that is wrong with nested ones is told at once, each with its place."""

from __future__ import annotations

from typing import Any

from tests.contract.api import Desk, flaws, told

URL = "http://shop.example/"
GOOD: dict[str, Any] = {
    "cards": {"each": ".card", "fields": {"title": "h2", "price": {"css": ".price", "type": "money", "locale": "de"}}}
}
BAD: dict[str, Any] = {
    "card": {
        "css": ".card",
        "fields": {
            "price": {"css": ".price", "type": "mony"},
            "name": {"css": "h2[["},
            "seller": {"css": ".seller", "fields": {"since": {"css": "time", "type": "date", "locale": "xx_nowhere"}}},
            "link": {"css": "a", "atribute": "href"},
            "count": {"css": ".count", "type": "text", "locale": "de"},
        },
    },
    "tags": {"each": ".tag"},
    "rows": {"each": "json:rows", "fields": {"name": {"css": "b"}}},
    "fine": "h1",
}


def test_what_is_wrong_with_nested_fields_is_told_at_once_with_its_place(each: Desk) -> None:
    found = flaws(each.post("jobs", {"urls": [URL], "fields": BAD, "depth": -1}))
    assert set(found) == {
        "depth",
        "fields.card.fields.price.type",
        "fields.card.fields.name.css",
        "fields.card.fields.seller.fields.since.locale",
        "fields.card.fields.link.atribute",
        "fields.card.fields.count.locale",
        "fields.tags",
        "fields.rows.fields.name.css",
    }
    assert found["fields.card.fields.price.type"] == "there is no 'mony'; did you mean 'money'?"
    assert found["fields.card.fields.link.atribute"] == "there is no such setting; did you mean 'attribute'?"
    assert "only json here" in found["fields.rows.fields.name.css"]
    assert list(each.rows("jobs")) == []


def test_the_same_is_told_of_a_page_to_scrape(desk: Desk) -> None:
    found = flaws(desk.post("scrape", {"url": URL, "fields": BAD}))
    assert found["fields.card.fields.price.type"] == "there is no 'mony'; did you mean 'money'?"
    assert "fields.card.fields.seller.fields.since.locale" in found


def test_fields_that_are_nested_too_deep_or_too_many_are_named(desk: Desk) -> None:
    deep: dict[str, Any] = {"css": "b"}
    for _ in range(6):
        deep = {"css": "div", "fields": {"inner": deep}}
    (place,) = flaws(desk.post("jobs", {"urls": [URL], "fields": {"outer": deep}}))
    assert place == "fields.outer" + ".fields.inner" * 4 + ".fields"
    many = {f"f{number}": "b" for number in range(201)}
    assert "at most 200" in flaws(desk.post("jobs", {"urls": [URL], "fields": many}))["fields"]


def test_nested_fields_are_kept_as_they_were_given(desk: Desk) -> None:
    job = desk.submit(URL, fields=GOOD)
    assert told(desk.get(f"jobs/{job}"))["spec"]["fields"] == GOOD
