"""The access log: an append-only list of `Hit`s in order of arrival, optionally mirrored to a file.

In the file each hit is one JSON line, written at once and whole, so that another process may read the
file at any moment. `at_monotonic` is CLOCK_MONOTONIC, which all processes of a machine share.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import orjson


@dataclass(frozen=True, slots=True)
class Hit:
    """One request as it arrived; a dropped connection has status 0."""

    at_monotonic: float
    host_header: str
    target: str
    status: int
    in_flight: int  # unanswered requests for the same host at that moment, this one included
    agent: str = ""  # User-Agent


class HitLog:
    """Written by the server's thread only; other threads take snapshots."""

    def __init__(self, path: Path | str | None = None) -> None:
        self._hits: list[Hit] = []
        self._file = Path(path).open("ab", buffering=0) if path else None  # noqa: SIM115

    def __enter__(self) -> HitLog:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file:
            self._file.close()

    def record(self, hit: Hit) -> None:
        self._hits.append(hit)
        if self._file:
            self._file.write(orjson.dumps(hit, option=orjson.OPT_APPEND_NEWLINE))

    def snapshot(self) -> list[Hit]:
        return self._hits.copy()


def read_hits(path: Path | str) -> list[Hit]:
    """The hits in a log file so far; a line still being written is left for the next reading."""
    lines = Path(path).read_bytes().splitlines(keepends=True)
    return [Hit(**orjson.loads(line)) for line in lines if line.endswith(b"\n")]
