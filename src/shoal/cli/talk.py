"""Talking to people: everything that is not data goes to standard error."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from shoal.core.frozen import values_of
from shoal.core.json_line import json_line
from shoal.core.redact import visible, without_secrets

if TYPE_CHECKING:
    from rich.text import Text

    from shoal.core.job_status import JobStatus


def say(text: str, *, ours: bool = False) -> None:
    """Lines for people, without secrets (unless they are `ours` word for word) and without what a terminal obeys."""
    print(visible(text if ours else without_secrets(text), lines=True), file=sys.stderr, flush=True)


def show(text: str) -> None:
    """Lines for people on standard output: what they asked for."""
    print(visible(text, lines=True), flush=True)


def cells(texts: Iterable[str]) -> list[Text]:
    """Of a table: no markup, nothing that a terminal would obey, one line each."""
    from rich.text import Text

    return [Text(visible(text)) for text in texts]


def print_json(value: Mapping[str, Any] | list[Any]) -> None:
    """One JSON document on standard output."""
    sys.stdout.write(json_line(value))
    sys.stdout.flush()


def status_json(status: JobStatus) -> dict[str, Any]:
    """A job's state and sums for programs."""
    counters = status.counters
    seconds = status.elapsed.total_seconds()
    return {
        "job": status.job,
        "state": status.state.value,
        "pages": counters.done - status.redirects,
        "redirects": status.redirects,
        "seconds": round(seconds, 3),
        "pages_per_second": round(counters.done / seconds, 2) if seconds else 0.0,
        "totals": status.totals.as_json,
        "reconciles": status.reconciles,
        "carried": status.carried,
        "counters": values_of(counters),
        "reasons": status.reasons,
        "slowest_hosts": [{"host": h.host, "latency_ms": h.latency_ms} for h in status.slowest],
        "troubles": [asdict(trouble) for trouble in status.troubles],
    }


def counted(number: int, noun: str) -> str:
    """1 page, 2,000 pages"""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def human_bytes(size: float) -> str:
    """1.5 MB"""
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000 or unit == "GB":
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"


def human_seconds(seconds: float, *, whole: bool = False) -> str:
    """3 min 20 s"""
    if seconds < 10 and not whole:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02d} min"
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"
