"""The names in log lines: of a process in all of its lines, of a slice or a visit in those that come of it.

Threads and tasks that many share must not carry the names of the visit that happened to need them first.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from contextvars import Context, copy_context
from typing import Any

import structlog

_OF_VISIT = ("job", "host", "request_id")
_of_process: dict[str, str] = {}


def name_process(**names: str) -> None:
    """Every further line of this process, and of those that it forks, has these, unless it says otherwise."""
    _of_process.update(names)


def add_process_names(_logger: object, _name: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """A processor for structlog."""
    for name, value in _of_process.items():
        event.setdefault(name, value)
    return event


def name_visit(job: str, host: str, request_id: str) -> None:
    """Every further line of this task has these, those of libraries too."""
    structlog.contextvars.bind_contextvars(job=job, host=host, request_id=request_id)


def of_no_visit() -> Context:
    """For a task that works for all visits, whichever of them starts it."""
    context = copy_context()
    context.run(structlog.contextvars.unbind_contextvars, *_OF_VISIT)
    return context
