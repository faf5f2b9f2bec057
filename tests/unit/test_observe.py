"""Log lines: no secret and no control character in them, on a screen and in a file, ours and those of libraries."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Generator
from contextvars import copy_context
from types import TracebackType
from typing import Any

import pytest
import structlog

from shoal import log_names
from shoal.log_names import name_process, name_visit
from shoal.observe import set_up_logs
from shoal.stdlog import LibraryLogs

SECRET = "c4nary"
FORGED = f"one\r\n2026-11-16 [info] forged \x1b[2J\u2028 http://u:{SECRET}@h/"

Error = tuple[type[BaseException], BaseException, TracebackType | None]


@pytest.fixture(autouse=True)
def _logs_as_before() -> Generator[None]:
    before = structlog.get_config()
    yield
    structlog.configure(**before)


def _error() -> Error:
    try:
        raise ValueError(FORGED)
    except ValueError as exc:
        return type(exc), exc, exc.__traceback__


def _log_all() -> None:
    structlog.configure(cache_logger_on_first_use=False)  # loggers of modules live on in other tests
    log: Any = structlog.get_logger()
    log.warning(FORGED, field=FORGED, error=ValueError(FORGED), deep={"headers": {"Cookie": SECRET, "x": [FORGED]}})
    log.warning("named", authorization=SECRET, api_key=SECRET, password=SECRET, number=1, nothing=None)
    log.error("failed", exc_info=_error())
    record = logging.LogRecord("celery", logging.ERROR, __file__, 1, "%s", (FORGED,), _error())
    LibraryLogs().emit(record)


def test_lines_for_programs_are_one_document_each(capfd: pytest.CaptureFixture[str]) -> None:
    set_up_logs()
    _log_all()
    err = capfd.readouterr().err
    lines = [json.loads(line) for line in err.splitlines()]
    assert [line["level"] for line in lines] == ["warning", "warning", "error", "error"]
    assert SECRET not in err
    assert all(char.isprintable() or char == "\n" for char in err)
    assert "\r" not in lines[0]["field"] + lines[0]["event"] + lines[3]["message"]
    assert (lines[0]["deep"]["headers"]["Cookie"], lines[1]["number"], lines[1]["nothing"]) == ("***", 1, None)
    assert "Traceback" in lines[2]["exception"]


def test_lines_on_a_screen_cannot_be_forged(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    set_up_logs()
    _log_all()
    err = capfd.readouterr().err
    assert SECRET not in err
    assert "\r" not in err
    assert "\x1b[2J" not in err
    assert "\u2028" not in err
    assert not [line for line in err.split("\n") if line.startswith("2026-11-16 [info] forged")]
    assert "Traceback" in err


def test_lines_of_libraries_have_the_names_of_process_slice_and_visit(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_names, "_of_process", {})
    set_up_logs()
    structlog.configure(cache_logger_on_first_use=False)
    name_process(worker="crawler-1:4711")
    with structlog.contextvars.bound_contextvars(slice="da688126"):
        context = copy_context()
        context.run(name_visit, "nyup5fuweh", "books.example", "nightly-42")
        record = logging.LogRecord("celery.worker", logging.ERROR, __file__, 1, "lost", (), None)
        context.run(LibraryLogs().emit, record)
    (line,) = [json.loads(line) for line in capfd.readouterr().err.splitlines()]
    assert {name: line[name] for name in ("worker", "slice", "job", "host", "request_id", "library")} == {
        "worker": "crawler-1:4711",
        "slice": "da688126",
        "job": "nyup5fuweh",
        "host": "books.example",
        "request_id": "nightly-42",
        "library": "celery.worker",
    }
