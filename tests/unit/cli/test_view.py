"""Which format a command writes, and what is found out before a job starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from shoal.cli.view import View
from shoal.errors import InputError
from shoal.output.formats import format_of


@pytest.mark.parametrize(
    ("path", "chosen", "kind"),
    [
        ("out.csv", None, "csv"),
        ("OUT.CSV", None, "csv"),
        ("out.csv", "", "csv"),
        ("out.jsonl", None, "jsonl"),
        ("out", None, "jsonl"),
        ("csv", None, "jsonl"),
        ("-", None, "jsonl"),
        ("-", "csv", "csv"),
        ("books.parquet", None, "parquet"),
        ("s3://bucket/books.db", None, "sqlite"),
        ("out.csv", "jsonl", "jsonl"),
    ],
)
def test_the_format_is_what_was_asked_for_or_what_the_name_says(path: str, chosen: str | None, kind: str) -> None:
    assert format_of(path, chosen) == kind


@pytest.mark.parametrize("chosen", ["json", "CSV", "xml"])
def test_another_format_is_refused_with_those_that_exist(chosen: str) -> None:
    with pytest.raises(InputError) as caught:
        format_of("out.csv", chosen)
    assert str(caught.value) == f"--format {chosen!r}: there are jsonl, csv, parquet and sqlite"


@pytest.mark.parametrize("view", [View(), View("-"), View("-", "csv"), View("out.csv"), View("out", "jsonl")])
def test_what_can_be_written_is_not_complained_about(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, view: View
) -> None:
    monkeypatch.chdir(tmp_path)
    view.check()
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_written_is_told_before_the_job_starts(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match=r"^cannot write .*/missing/out\.csv: no folder .*/missing that can be written$"
    ):
        View(f"{tmp_path}/missing/out.csv").check()
    with pytest.raises(InputError, match=r"^--format 'xml': there are jsonl, csv, parquet and sqlite$"):
        View(format="xml").check()
