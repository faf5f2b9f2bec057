"""What items must be like."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import BaseModel

from shoal.core.contract import MAX_REASONS, Contract, judge_by_model
from shoal.core.json_schema import judge_by_schema
from shoal.core.spec import read_spec
from shoal.errors import BadSpec

BOOK: dict[str, Any] = {
    "type": "object",
    "required": ["title", "price"],
    "properties": {
        "title": {"type": "string", "minLength": 1},
        "price": {"type": "number", "minimum": 0},
        "tags": {"type": "array", "items": {"type": "string", "pattern": "^[a-z]+$"}},
    },
}


def flaws_of(contract: object, **settings: Any) -> str:
    with pytest.raises(BadSpec) as caught:
        read_spec({"urls": ["http://h.example/"], "fields": {"title": "h1"}, "contract": contract, **settings})
    return str(caught.value)


def test_an_item_that_keeps_it_has_no_reasons() -> None:
    assert judge_by_schema(json.dumps(BOOK))({"title": "A", "price": 1.5, "tags": ["x"]}) == ()


def test_each_flaw_is_named_with_its_place() -> None:
    reasons = judge_by_schema(json.dumps(BOOK))({"title": "", "price": -1, "tags": ["ok", "NO"]})
    assert [reason.partition(":")[0] for reason in sorted(reasons)] == ["price", "tags.1", "title"]


def test_all_that_is_missing_or_fits_nowhere_is_named_with_its_place() -> None:
    schema = {
        "required": ["title", "shop"],
        "properties": {
            "shop": {"required": ["name"]},
            "price": {"anyOf": [{"type": "number"}, {"type": "object", "required": ["amount"]}]},
        },
    }
    reasons = judge_by_schema(json.dumps(schema))({"shop": {"city": "Bonn"}, "price": "much"})
    assert set(reasons) == {
        "title: is required",
        "shop.name: is required",
        'price: fits none of anyOf: "much" is not of type "number" | "much" is not of type "object"',
    }


def test_what_is_wrong_with_a_long_value_is_said_behind_it() -> None:
    (reason,) = judge_by_schema(json.dumps({"properties": {"a": {"enum": [1, 2]}}}))({"a": "x" * 1_000})
    assert reason.startswith('a: "xxx')
    assert reason.endswith("is not one of 1 or 2")
    assert len(reason) <= 300


@pytest.mark.parametrize("draft", ["2020-12", "2019-09", "-07", "-06", "-04"])
def test_all_faults_of_a_schema_are_told_when_it_is_submitted(draft: str) -> None:
    place = (
        f"https://json-schema.org/draft/{draft}/schema"
        if len(draft) > 3
        else f"http://json-schema.org/draft{draft}/schema#"
    )
    schema = {"$schema": place, "type": "strnig", "properties": {"a": {"minimum": "x"}, "b": {"type": "nummer"}}}
    told = flaws_of({"schema": schema})
    assert 'properties.a.minimum: "x" is not of type "number"' in told
    assert "properties.b.type: " in told
    assert ' type: fits none of anyOf: "strnig" is not' in told


def test_reasons_are_few_and_short() -> None:
    reasons = judge_by_schema(json.dumps(BOOK))({"title": "x", "price": 1, "tags": ["N" * 10_000] * 50})
    assert len(reasons) == MAX_REASONS
    assert max(map(len, reasons)) <= 300


def test_a_pattern_that_would_keep_another_engine_busy_is_searched_at_once() -> None:
    judge = judge_by_schema(json.dumps({"properties": {"a": {"pattern": "^(a+)+$"}}}))
    assert judge({"a": "a" * 5_000 + "!"})


def test_a_model_says_what_is_wrong_too() -> None:
    class Book(BaseModel):
        title: str
        price: float

    judge = judge_by_model(Book)
    assert judge({"title": "A", "price": 2}) == ()
    assert judge({"price": "much"})[0].startswith("title: ")


@pytest.mark.parametrize(
    ("contract", "told"),
    [
        ({}, "give a `schema`"),
        ({"schema": {"type": "strnig"}}, "contract.schema: not a JSON Schema that can be used"),
        ({"schema": {"$ref": "http://127.0.0.1:1/x.json"}}, "contract.schema: not a JSON Schema that can be used"),
        ({"schema": {"$ref": "file:///etc/passwd"}}, "contract.schema: not a JSON Schema that can be used"),
        ({"schema": {"properties": {"a": {"pattern": "(?=x)"}}}}, "contract.schema: not a JSON Schema"),
        ({"schema": {"type": "object"}, "tolerance": "lots"}, "contract.tolerance: write a share such as 5% or 0.05"),
        ({"schema": {"type": "object"}, "tolerance": 2}, "contract.tolerance"),
        ({"schema": {"type": "object"}, "colour": 1}, "contract.colour"),
        ({"schema": {"type": "object"}, "model": "Book"}, "one of them"),
        ({"schema": {"description": "x" * 70_000}}, "at most 65536"),
    ],
)
def test_what_is_wrong_with_a_contract_is_said_when_it_is_submitted(contract: object, told: str) -> None:
    assert told in flaws_of(contract)


def test_nothing_is_as_deep_as_it_takes_to_stop_us() -> None:
    deep: dict[str, Any] = {}
    for _ in range(500):
        deep = {"not": deep}
    assert "levels" in flaws_of({"schema": deep})


def test_a_contract_survives_being_stored() -> None:
    spec = read_spec(
        {"urls": ["http://h.example/"], "fields": {"t": "h1"}, "contract": {"schema": BOOK, "tolerance": "2%"}}
    )
    again = read_spec(json.loads(spec.model_dump_json(exclude_defaults=True)))
    assert again.contract == Contract(schema=BOOK, tolerance=0.02)
    assert json.loads(again.extraction)["contract"]["schema"] == BOOK


def test_a_set_breaks_it_by_too_few_items_or_too_many_in_quarantine() -> None:
    contract = Contract(schema=BOOK, tolerance=0.1, items=10)
    assert contract.is_kept(100, 5) == ""
    assert "at least 10" in contract.is_kept(9, 0)
    assert "in quarantine" in contract.is_kept(80, 20)
    assert Contract(schema=BOOK).is_kept(0, 0) == ""
