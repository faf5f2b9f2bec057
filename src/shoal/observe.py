"""Logs: a static event name and fields, pretty on a terminal, JSON elsewhere. Talk goes to standard error."""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import MutableMapping
from typing import Any

import structlog

from shoal.errors import InputError
from shoal.settings import LOG_LEVELS

_STANDARD_ERROR = 2
_CREDENTIALS = re.compile(r"(://)[^/@\s]+@")


def redact(_logger: object, _name: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """No user names or passwords of URLs in any field."""
    for key, value in event.items():
        if isinstance(value, str) and "@" in value:
            event[key] = _CREDENTIALS.sub(r"\1***@", value)
    return event


def _on_a_screen() -> structlog.dev.ConsoleRenderer:
    """Errors without the values of variables: these may be secrets."""
    return structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)


class Lines:
    """Standard error, a line at a time in one write, since processes share it; nobody fails because a disk is full.

    There is no lock that a fork could find taken, and no buffer that could be full at the end.
    """

    def msg(self, line: str) -> None:
        left = f"{line}\n".encode(errors="backslashreplace")
        try:
            while left:
                left = left[os.write(_STANDARD_ERROR, left) :]
        except OSError:
            return

    debug = info = warning = error = critical = exception = fatal = log = msg


def set_up_logs(level: str = "info") -> None:
    """Configure structlog for this process."""
    if level not in LOG_LEVELS:
        raise InputError(f"--log-level {level!r}: there are {', '.join(LOG_LEVELS)}")
    pretty = sys.stderr.isatty()
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso"),
            structlog.processors.StackInfoRenderer(),
            *([] if pretty else [structlog.processors.format_exc_info]),
            redact,
            _on_a_screen() if pretty else structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(getattr(logging, level.upper())),
        logger_factory=lambda *_: Lines(),
        cache_logger_on_first_use=True,
    )
