"""Results into a file or onto standard output, as they come."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from shoal.cli.output import Writer, open_writer
from shoal.errors import InputError
from shoal.store.export import encoder


class Flushes(io.StringIO):
    """Remembers what could be read from outside after each flush."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def flush(self) -> None:
        self.seen.append(self.getvalue())


def test_each_batch_is_flushed_so_that_others_can_follow_it() -> None:
    lines, table = Flushes(), Flushes()
    Writer(lines, encoder("jsonl", [])).write([{"a": 1}])
    Writer(table, encoder("csv", ["a"])).write([{"a": 1}])
    assert lines.seen[-1] == '{"a":1}\n'
    assert table.seen == ["a\r\n", "a\r\n1\r\n"]


def test_records_follow_one_another() -> None:
    file = io.StringIO()
    writer = Writer(file, encoder("csv", ["b", "a"]))
    writer.write([{"a": 1, "b": 2}, {"a": 3, "other": 4}])
    writer.write([])
    writer.write([{}])
    assert file.getvalue() == "b,a\r\n2,1\r\n,3\r\n,\r\n"


@pytest.mark.parametrize("text", ["größer", "表紙の美しい本", "\u2028", "\ufeffx", "two\r\nlines", "nul\x00nul"])
def test_any_character_survives_the_way_into_a_file(tmp_path: Path, text: str) -> None:
    for kind in ("csv", "jsonl"):
        with open_writer(str(tmp_path / kind), kind, ["x"]) as writer:
            writer.write([{"x": text}])
    with (tmp_path / "csv").open(encoding="utf-8", newline="") as file:
        assert list(csv.reader(file)) == [["x"], [text]]
    (line,) = (tmp_path / "jsonl").read_bytes().rstrip(b"\n").split(b"\n")
    assert json.loads(line) == {"x": text}


@pytest.mark.parametrize(("kind", "written"), [("csv", "x\r\n1\r\n"), ("jsonl", '{"x":1}\n')])
def test_a_dash_is_standard_output(capsys: pytest.CaptureFixture[str], kind: str, written: str) -> None:
    with open_writer("-", kind, ["x"]) as writer:
        writer.write([{"x": 1}])
    with open_writer("-", "jsonl", []) as writer:
        writer.write([{}])
    assert capsys.readouterr().out == written + "{}\n"


class Screen(io.StringIO):
    """A terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_a_terminal_gets_nothing_that_it_would_obey(kind: str) -> None:
    screen = Screen()
    Writer(screen, encoder(kind, ["x"])).write([{"x": "\x1b]0;owned\x07 \x9b31m \u202e\r\x7f"}])
    assert {char for char in screen.getvalue() if not char.isprintable()} == {"\n"}
    assert "owned" in screen.getvalue()


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
