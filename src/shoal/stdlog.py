"""Log lines of libraries, which know only the standard library's logging, as lines of ours."""

from __future__ import annotations

import logging

import structlog

log = structlog.get_logger()


class LibraryLogs(logging.Handler):
    """Hands records on to structlog."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            message = record.getMessage()
        except (TypeError, ValueError):  # the library's arguments do not fit its own format
            message = str(record.msg)
        trouble = {"exc_info": record.exc_info} if record.exc_info else {}
        log.log(_plain(record.levelno), "library_log", library=record.name, message=message, **trouble)


def adopt_library_logs() -> None:
    """From now on warnings and errors of libraries look like our own."""
    root = logging.getLogger()
    root.handlers[:] = [LibraryLogs()]
    root.setLevel(logging.WARNING)
    logging.captureWarnings(True)


def _plain(level: int) -> int:
    """Libraries make up levels of their own; structlog knows the usual ones."""
    usual = (logging.CRITICAL, logging.ERROR, logging.WARNING, logging.INFO)
    return next((known for known in usual if level >= known), logging.DEBUG)
