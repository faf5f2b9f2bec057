"""Versions of a job's items, for people and for programs."""

from __future__ import annotations

import time

from shoal.cli.talk import counted, human_seconds
from shoal.store.extractions import Progress


def describe(progress: Progress) -> list[str]:
    """A version in words."""
    made = progress.extraction
    seconds = ((made.ended_ms or time.time_ns() // 1_000_000) - made.created_ms) / 1000
    speed = f", {progress.pages / seconds:.0f} pages/s" if made.ended_ms and seconds > 0 and progress.pages else ""
    took = f" in {human_seconds(seconds)}" if made.ended_ms else ""
    pages = counted(progress.pages, "page")
    read = pages if made.ended_ms else f"{progress.pages:,} of {counted(made.total, 'page')}"
    items = counted(progress.items, "item") + (
        f", {progress.quarantined:,} in quarantine," if progress.quarantined else ""
    )
    lines = [f"{made.version} {made.state.value}: {items} from {read}{took}{speed}"]
    if progress.failed:
        told = ", ".join(f"{reason} {count}" for reason, count in progress.reasons.items())
        lines.append(f"  {counted(progress.failed, 'page')} could not be read: {told}")
    if made.error:
        lines.append(f"  {made.error}")
    return lines
