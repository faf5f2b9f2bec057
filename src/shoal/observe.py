"""Logs: a static event name and fields, pretty on a terminal, JSON elsewhere. Talk goes to standard error."""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import MutableMapping
from typing import Any

import structlog

from shoal.errors import InputError

LEVELS = ("debug", "info", "warning", "error")
_CREDENTIALS = re.compile(r"(://)[^/@\s]+@")


def redact(_logger: object, _name: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """No user names or passwords of URLs in any field."""
    for key, value in event.items():
        if isinstance(value, str) and "@" in value:
            event[key] = _CREDENTIALS.sub(r"\1***@", value)
    return event


def set_up_logs(level: str = "info") -> None:
    """Configure structlog for this process."""
    if level not in LEVELS:
        raise InputError(f"--log-level {level!r}: there are {', '.join(LEVELS)}")
    pretty = sys.stderr.isatty()
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso"),
            structlog.processors.StackInfoRenderer(),
            *([] if pretty else [structlog.processors.format_exc_info]),
            redact,
            structlog.dev.ConsoleRenderer() if pretty else structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(getattr(logging, level.upper())),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
