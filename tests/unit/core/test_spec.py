"""A job as people write it: what is taken, and what they are told about the rest."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from shoal.core.field import MAX_JOB_FIELDS
from shoal.core.model import Engine, Lane
from shoal.core.spec import JobSpec, read_spec, with_max_body
from shoal.core.values import STORED
from shoal.errors import BadSpec


def complaints(values: dict[str, Any]) -> list[str]:
    with pytest.raises(BadSpec) as caught:
        read_spec(values)
    first, *lines = str(caught.value).split("\n")
    assert first == "job is not valid:"
    assert all(line.startswith("  - ") for line in lines)
    return [line.removeprefix("  - ") for line in lines]


def test_an_empty_job_is_polite() -> None:
    spec = read_spec({})
    assert (spec.requests_per_second, spec.requests_at_once, spec.robots) == (None, None, True)
    assert (spec.follow, spec.retries, spec.timeout, spec.max_body) == (True, 3, 30.0, 10_000_000)
    assert (spec.pages, spec.depth, spec.archive, spec.drop_tracking) == (None, None, True, False)


@pytest.mark.parametrize(
    ("rate", "per_second"),
    [
        (4, 4.0),
        (0.5, 0.5),
        ("4", 4.0),
        (" 0.5 ", 0.5),
        ("30/m", 0.5),
        ("30/min", 0.5),
        ("90 / minute", 1.5),
        ("2/s", 2.0),
        ("2.5/sec", 2.5),
        ("3/second", 3.0),
        ("36/h", 0.01),
        ("36/hour", 0.01),
        ("unlimited", 0.0),
        (100_000, 100_000.0),
    ],
)
def test_a_rate_is_a_number_a_fraction_or_unlimited(rate: object, per_second: float) -> None:
    assert read_spec({"rate": rate}).requests_per_second == per_second


@pytest.mark.parametrize(
    ("rate", "complaint"),
    [
        (0, "rate: input should be greater than or equal to 0.0001 (got 0)"),
        ("0", "rate: input should be greater than or equal to 0.0001 (got 0.0)"),
        ("0/m", "rate: input should be greater than or equal to 0.0001 (got 0.0)"),
        (-1, "rate: input should be greater than or equal to 0.0001 (got -1)"),
        ("-1", "rate: input should be greater than or equal to 0.0001 (got '-1')"),
        (100_001, "rate: input should be less than or equal to 100000 (got 100001)"),
        ("inf", "rate: input should be less than or equal to 100000 (got 'inf')"),
        ("nan", "rate: input should be less than or equal to 100000 (got 'nan')"),
        ([1], "rate: input should be a valid number (got [1])"),
    ],
)
def test_any_other_rate_is_refused(rate: object, complaint: str) -> None:
    start, got = complaint.split(" (got ")
    assert f"{start}; or input should be 'unlimited' (got {got}" in complaints({"rate": rate})


RATES = "write requests a second, minute or hour, such as 4, 30/m or 100/h; or unlimited"
SIZES = "write bytes, or a number with kB, MB, GB or TB, such as 500MB"
TIMES = "write seconds, or a number with s, m, h or d, such as 90, 15m or 2h"


@pytest.mark.parametrize(
    ("name", "text", "forms"),
    [
        *(("rate", text, RATES) for text in ("fast", "30/d", "1/x", "/m", "-30/m", "30/m/m", "")),
        *(("bytes", text, SIZES) for text in ("5XB", "lots", "MB", "")),
        *(("host_seconds", text, TIMES) for text in ("soon", "2w", "")),
    ],
)
def test_a_text_that_is_no_such_value_is_refused_with_the_forms_that_there_are(
    name: str, text: str, forms: str
) -> None:
    assert f"{name}: {forms} (got {text!r})" in complaints({name: text})


@pytest.mark.parametrize(
    ("values", "at_once"),
    [
        ({}, None),
        ({"parallel": None}, None),
        ({"parallel": 1}, 1),
        ({"parallel": "3"}, 3),
        ({"parallel": "unlimited"}, 0),
        ({"rate": "unlimited"}, 0),
        ({"rate": "unlimited", "parallel": 8}, 8),
        ({"rate": 1, "parallel": "unlimited"}, 0),
    ],
)
def test_parallel_is_left_to_others_unless_given_or_the_rate_is_unlimited(
    values: dict[str, Any], at_once: int | None
) -> None:
    assert read_spec(values).requests_at_once == at_once


@pytest.mark.parametrize("parallel", [0, -1, 2.5, "many", "0", 100_001, []])
def test_any_other_parallel_is_refused(parallel: object) -> None:
    assert complaints({"parallel": parallel})[0].startswith("parallel: ")


@pytest.mark.parametrize("name", ["rate", "parallel", "pages", "depth", "weight", "retries"])
def test_yes_is_not_a_number(name: str) -> None:
    """YAML reads `pages: yes` as true."""
    assert complaints({name: True})[0].startswith(f"{name}: ")


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("page", "pages"),
        ("url", "urls"),
        ("depht", "depth"),
        ("header", "headers"),
        ("field", "fields"),
        ("drop-tracking", "drop_tracking"),
        ("Rate", "rate"),
        ("timeouts", "timeout"),
    ],
)
def test_an_unknown_setting_gets_the_name_that_was_meant(name: str, meant: str) -> None:
    assert complaints({name: 1}) == [f"{name}: there is no such setting; did you mean {meant!r}?"]


def test_no_name_is_proposed_when_none_is_near_or_the_near_one_is_there() -> None:
    assert complaints({"colour": 1}) == ["colour: there is no such setting"]
    assert complaints({"pages": 5, "page": 5}) == ["page: there is no such setting"]


def test_everything_that_is_wrong_is_said_at_once() -> None:
    values = {"depht": 1, "pages": "x", "allow": ["("], "lane": "fast", "urls": ["http://a/", 1], "retries": -1}
    assert sorted(complaints(values)) == [
        "allow: '(' is not a regular expression: missing ): ( (got ['('])",
        "depht: there is no such setting; did you mean 'depth'?",
        "lane: input should be 'high', 'batch' or 'slow' (got 'fast')",
        "pages: input should be a valid integer, unable to parse string as an integer (got 'x')",
        "retries: input should be greater than or equal to 0 (got -1)",
        "urls.1: input should be a valid string (got 1)",
    ]


def test_the_place_of_the_job_is_named() -> None:
    with pytest.raises(BadSpec, match=r"^shop\.yaml is not valid:\n  - pages: "):
        read_spec({"pages": 0}, "shop.yaml")


@pytest.mark.parametrize("name", ["allow", "deny"])
@pytest.mark.parametrize("pattern", ["(", "[", "*", "(?P<x", "\\", "a{2,1}"])
def test_a_bad_regular_expression_is_named(name: str, pattern: str) -> None:
    (complaint,) = complaints({name: ["fine", pattern]})
    assert complaint.startswith(f"{name}: {pattern!r} is not a regular expression: ")


def test_all_bad_regular_expressions_are_named() -> None:
    told = "\n".join(complaints({"allow": ["(", "fine", "["]}))
    assert "'(' is not a regular expression" in told
    assert "'[' is not a regular expression" in told


def test_a_job_has_a_bounded_number_of_fields() -> None:
    assert JobSpec(fields={f"f{number}": "p" for number in range(MAX_JOB_FIELDS)}).fields
    (complaint,) = complaints({"fields": {f"f{number}": "p" for number in range(MAX_JOB_FIELDS + 1)}})
    assert "201 fields; at most 200 are taken from a page" in complaint


def test_all_bad_fields_are_named() -> None:
    told = "\n".join(complaints({"fields": {"a b": "h1", "fine": "h1", "c": ":::"}}))
    assert "field name 'a b': use letters" in told
    assert "fields.c: ':::' is not a CSS selector" in told


@pytest.mark.parametrize(
    "fields",
    [{"tag": "h1", "tag[]": "h2"}, {"url": "link[rel=canonical]@href"}],
    ids=["one name twice", "the name of the page's own address"],
)
def test_two_values_cannot_share_a_name(fields: dict[str, str]) -> None:
    (complaint,) = complaints({"fields": fields})
    assert complaint.startswith("fields.")
    assert complaint.endswith(": there is another value of this name")


@pytest.mark.parametrize(
    ("headers", "complaint"),
    [
        ({"A b": "c"}, "headers: the name of header 1 is empty or has characters that are not allowed"),
        ({"": "c"}, "headers: the name of header 1 is empty or has characters that are not allowed"),
        ({"A:": "c"}, "headers: the name of header 1 is empty or has characters that are not allowed"),
        ({"É": "c"}, "headers: the name of header 1 is empty or has characters that are not allowed"),
        ({"A": "b\r\nHost: evil"}, "headers: header 'A' has control characters in its value"),
        ({"A": "b\x00"}, "headers: header 'A' has control characters in its value"),
        ({"content-Length": "5"}, "headers: header 'content-Length' speaks of a body, and a GET has none"),
        ({"Transfer-Encoding": "chunked"}, "headers: header 'Transfer-Encoding' speaks of a body, and a GET has none"),
    ],
)
def test_headers_cannot_smuggle_lines(headers: dict[str, str], complaint: str) -> None:
    (told,) = complaints({"headers": headers})
    assert told.startswith(complaint)


def test_a_secret_in_the_wrong_place_of_headers_is_not_repeated() -> None:
    for headers in ({"Authorization: Bearer c4nary": ""}, {"Authorization: c4nary": 7}, {"X": ["c4nary"]}, "c4nary"):
        assert "c4nary" not in str(complaints({"headers": headers}))


def test_a_hidden_value_cannot_be_submitted() -> None:
    (told,) = complaints({"headers": {"Accept": "text/html", "X-Token": "***"}})
    assert told == "headers: *** stands for the value of 'X-Token', which is not shown; write it"


@pytest.mark.parametrize("place", ["hosts", "trusted"])
@pytest.mark.parametrize("text", ["user:c4nary@shop.example", "http://user:c4nary@shop.example", "//u:c4n@ry:c4nary@h"])
def test_a_login_in_a_host_is_not_repeated(place: str, text: str) -> None:
    told = str(complaints({place: [text]}))
    assert place in told
    assert "c4nary" not in told


def test_whatever_browsers_do_not_send_to_everybody_is_a_secret() -> None:
    plain = {
        "Accept": "a",
        "accept-language": "de",
        "User-Agent": "x",
        "Sec-Fetch-Mode": "cors",
        "REFERER": "http://a/",
    }
    secret = {"Authorization": "a", "Cookie": "b", "X-Auth": "c", "X-Anything": "d", "Private-Key": "e", "apikey": "f"}
    spec = read_spec({"headers": {**plain, **secret}})
    assert spec.secret_headers == secret.keys()
    assert "X-Anything" not in repr(spec)


def test_headers_are_kept_as_written() -> None:
    assert read_spec({"headers": {"X-Token": "a b: c", "accept": ""}}).headers == {"X-Token": "a b: c", "accept": ""}


@pytest.mark.parametrize(
    "values",
    [
        {"pages": 0},
        {"pages": -5},
        {"depth": -1},
        {"weight": 0},
        {"weight": 1001},
        {"timeout": 0},
        {"timeout": 601},
        {"max_body": 999},
        {"retries": 21},
        {"name": "x" * 201},
        {"engine": "curl"},
        {"lane": "HIGH"},
        {"robots": "maybe"},
        {"urls": "https://a/"},
        {"allow": "/books/"},
        {"fields": ["h1"]},
        {"headers": "A: b"},
    ],
)
def test_values_out_of_range_or_of_another_kind_are_refused(values: dict[str, Any]) -> None:
    (name,) = values
    (complaint,) = complaints(values)
    assert complaint.startswith(f"{name}: ")


def test_values_at_their_limits_are_taken() -> None:
    spec = read_spec({"pages": 1, "depth": 0, "timeout": 600, "max_body": 1000, "retries": 20, "name": "x" * 200})
    assert (spec.pages, spec.depth, spec.timeout, spec.max_body, spec.retries) == (1, 0, 600.0, 1000, 20)


def test_a_job_gets_bodies_up_to_what_the_operator_allows() -> None:
    modest = read_spec({"max_body": 64_000_000})
    assert with_max_body(modest, 64_000_000) is modest
    assert with_max_body(read_spec({}), 64_000_000).max_body == 10_000_000
    with pytest.raises(BadSpec, match=r"max_body: at most 64000000 .*SHOAL_MAX_BODY \(got 64000001\)"):
        with_max_body(read_spec({"max_body": 64_000_001}), 64_000_000)


def test_who_asks_for_no_size_gets_what_a_strict_operator_allows() -> None:
    spec = with_max_body(read_spec({"pages": 3}), 2_000_000)
    assert (spec.max_body, spec.pages) == (2_000_000, 3)


def test_lists_become_tuples_and_words_their_meaning() -> None:
    spec = read_spec({"urls": [" http://a/ "], "lane": "high", "engine": "http", "robots": "no", "follow": "false"})
    assert spec.urls == ("http://a/",)
    assert (spec.lane, spec.engine, spec.queue) == (Lane.HIGH, Engine.HTTP, "http.high")
    assert (spec.robots, spec.follow) == (False, False)


def test_a_job_survives_its_way_through_the_database() -> None:
    spec = read_spec({"urls": ["http://a/"], "rate": "30/m", "parallel": "unlimited", "fields": {"t[]": "p@id"}})
    assert JobSpec.model_validate_json(spec.model_dump_json()) == spec


def test_a_job_cannot_be_changed() -> None:
    spec = read_spec({})
    with pytest.raises(ValidationError):
        spec.pages = 5


def test_formats_belong_to_pages_and_not_to_each() -> None:
    values = {"each": ".card", "fields": {"title": "h2"}, "formats": ["markdown"]}
    with pytest.raises(BadSpec, match="formats: `each` makes many items of a page"):
        read_spec(values)
    assert read_spec({**values, "formats": []}).each == ".card"
    assert JobSpec.model_validate(values, context=STORED).formats == {"markdown": "main"}
