"""Which pages of a job needed a browser: a memory that all workers share, as long as the job lives."""

# redis-py's hints leave gaps: what falls into them is unknown to the checker in this file only.
# pyright: reportUnknownMemberType=false
from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import redis

from shoal.core.routes import Route, RouteNote
from shoal.frontier.scripts import Arg, Scripts, translated_errors

MAX_PATTERNS = 5_000
"""Of a job; then no more are added, and pages like none of these are judged one by one."""
NOTE_AT_ONCE = 1_000


class RouteBook:
    """The routes of jobs in one frontier."""

    def __init__(self, client: redis.Redis, prefix: str, scripts: Scripts) -> None:
        self._client = client
        self._prefix = prefix
        self._scripts = scripts

    def read(self, job: str) -> dict[tuple[str, str], Route]:
        """(host, pattern) → what is known about such pages."""
        with translated_errors("routes"):
            found = cast("dict[str, str]", self._client.hgetall(f"{self._prefix}:routes:{job}"))
        return {_place(name): Route(*map(int, packed.split(" "))) for name, packed in found.items()}

    def note(self, job: str, notes: Sequence[RouteNote]) -> None:
        """Add what pages needed; of a job that the frontier does not know, nothing."""
        for start in range(0, len(notes), NOTE_AT_ONCE):
            args: list[Arg] = [job, MAX_PATTERNS]
            for note in notes[start : start + NOTE_AT_ONCE]:
                args += (f"{note.host} {note.pattern}", int(note.needed), int(note.checked))
            self._scripts.call("note_routes", args)


def _place(name: str) -> tuple[str, str]:
    host, _, pattern = name.partition(" ")
    return host, pattern
