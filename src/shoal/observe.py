"""Logs: a static event name and fields, pretty on a terminal, JSON elsewhere. Talk goes to standard error."""

from __future__ import annotations

import atexit
import logging
import os
import sys
from collections.abc import MutableMapping
from typing import Any, cast

import structlog

from shoal.core.redact import HIDDEN, is_secret_name, visible, without_secrets
from shoal.errors import InputError, ShoalError
from shoal.log_file import LogFile
from shoal.log_limit import LineLimit
from shoal.log_names import add_process_names, add_visit_names
from shoal.settings import LOG_LEVELS, LOG_LINES, Settings

_STANDARD_ERROR = 2
_OF_SEVERAL_LINES = ("exception", "stack")


def redact(_logger: object, _name: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """No secrets, and no control characters, in any field; however deep, and in the texts of errors too."""
    for key, value in list(event.items()):
        if key in _OF_SEVERAL_LINES and isinstance(value, str):
            event[key] = visible(without_secrets(value), lines=True)
        else:
            event[key] = HIDDEN if is_secret_name(key) and value else _clean(value)
    return event


def _clean(value: Any) -> Any:
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, str):
        return visible(without_secrets(value))
    if isinstance(value, dict):
        fields = cast("dict[Any, Any]", value).items()
        return {_clean(str(key)): HIDDEN if is_secret_name(str(key)) else _clean(part) for key, part in fields}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_clean(part) for part in cast("list[Any]", value)]
    return visible(without_secrets(repr(value)))


def _indent(_logger: object, _name: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """On a screen a text of several lines is set apart: none of them looks like a line of the log."""
    for key in _OF_SEVERAL_LINES:
        if isinstance(text := event.get(key), str):
            event[key] = "\n".join(f"    {line}" for line in text.split("\n"))
    return event


def _on_a_screen() -> structlog.dev.ConsoleRenderer:
    """Errors without the values of variables: these may be secrets."""
    return structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)


class Lines:
    """Standard error, a line at a time in one write, since processes share it; nobody fails because a disk is full.

    There is no lock that a fork could find taken, and no buffer that could be full at the end.
    """

    def __init__(self, file: LogFile | None = None) -> None:
        self._file = file

    def msg(self, line: str) -> None:
        if self._file:
            self._file.look()
        left = f"{line}\n".encode(errors="backslashreplace")
        try:
            while left:
                left = left[os.write(_STANDARD_ERROR, left) :]
        except OSError:
            return

    debug = info = warning = error = critical = exception = fatal = log = msg


_limits: list[LineLimit] = []
"""The one of this process, once its logs are set up."""


def set_up_served_logs(settings: Settings, level: str) -> None:
    """Of a process that stays: into a file, if it is to have one."""
    file = None
    if settings.log_file:
        file = LogFile(settings.log_file, settings.log_bytes)
        try:
            file.begin()
        except OSError as exc:
            raise ShoalError(f"SHOAL_LOG_FILE: {settings.log_file} cannot be written: {exc.strerror or exc}") from exc
    set_up_logs(level, lines=settings.log_lines, file=file)


def set_up_logs(level: str = "info", *, lines: int = LOG_LINES, file: LogFile | None = None) -> None:
    """Configure structlog for this process; `lines` of an event a minute, for each job, and 0 for all of them."""
    if level not in LOG_LEVELS:
        raise InputError(f"--log-level {level!r}: there are {', '.join(LOG_LEVELS)}")
    pretty = file is None and sys.stderr.isatty()
    flush_logs()
    limit = LineLimit(lines)
    _limits[:] = [limit]
    structlog.configure(
        processors=[
            add_visit_names,
            structlog.contextvars.merge_contextvars,
            limit,
            add_process_names,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso"),
            structlog.processors.StackInfoRenderer(),
            structlog.processors.format_exc_info,
            redact,
            *([_indent, _on_a_screen()] if pretty else [structlog.processors.JSONRenderer()]),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(getattr(logging, level.upper())),
        logger_factory=lambda *_: Lines(file),
        cache_logger_on_first_use=True,
    )


def flush_logs() -> None:
    """Tell how many lines were left out so far; for who ends the process without Python's own end."""
    for limit in _limits:
        limit.flush()


atexit.register(flush_logs)
