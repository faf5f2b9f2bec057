"""Log lines of libraries become lines of ours."""

from __future__ import annotations

import logging

from structlog.testing import capture_logs

from shoal.stdlog import LibraryLogs


def _record(level: int, message: str, *args: object) -> logging.LogRecord:
    return logging.LogRecord("celery.worker", level, __file__, 1, message, args, None)


def test_a_librarys_line_keeps_its_level_and_says_whose_it_is() -> None:
    with capture_logs() as lines:
        LibraryLogs().emit(_record(logging.WARNING, "lost %s of %d", "one", 3))
    assert lines == [
        {"event": "library_log", "library": "celery.worker", "message": "lost one of 3", "log_level": "warning"}
    ]


def test_a_level_of_the_librarys_own_is_taken_for_the_one_below() -> None:
    with capture_logs() as lines:
        for level in (5, 25, 35, 45):
            LibraryLogs().emit(_record(level, "what"))
    assert [line["log_level"] for line in lines] == ["debug", "info", "warning", "error"]


def test_arguments_that_do_not_fit_lose_no_line() -> None:
    with capture_logs() as lines:
        LibraryLogs().emit(_record(logging.ERROR, "%d of %d", "one"))
    assert [line["message"] for line in lines] == ["%d of %d"]
