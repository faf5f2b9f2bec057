"""The names in log lines: of a process in all of its lines, of a slice or a visit in those that come of it.

Threads and tasks that many share must not carry the names of the visit that happened to need them first.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from contextvars import Context, ContextVar, copy_context
from typing import Any

import structlog

_OF_VISIT = ("job", "host", "request_id")
_of_process: dict[str, str] = {}
_of_visit: ContextVar[tuple[str, str, str] | None] = ContextVar("names_of_visit", default=None)
"""A value of ours, since most visits write no line: binding names takes structlog as long as hashing a page's links."""


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
    _of_visit.set((job, host, request_id))


def name_no_visit() -> None:
    """Further lines of this task have none of these, nor those of who rang for the slice."""
    _of_visit.set(None)
    structlog.contextvars.unbind_contextvars(*_OF_VISIT)


def add_visit_names(_logger: object, _name: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """A processor for structlog; it comes before all that look at names."""
    for name, value in zip(_OF_VISIT, _of_visit.get() or (), strict=False):
        event.setdefault(name, value)
    return event


def of_no_visit() -> Context:
    """For a task that works for all visits, whichever of them starts it."""
    context = copy_context()
    context.run(name_no_visit)
    return context
