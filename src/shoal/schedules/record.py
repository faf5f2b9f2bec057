"""Schedules and runs as JSON for clients, the same over the API and on the command line."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from shoal.core.schedule import Timing
from shoal.schedules.book import Listed
from shoal.store.export import iso
from shoal.store.schedule_runs import RunRow


def schedule_record(listed: Listed) -> dict[str, Any]:
    row = listed.row
    return {
        "name": row.name,
        "tenant": row.tenant,
        "state": row.state,
        **timing_record(row.timing),
        "next_at": _at(row.next_ms),
        "next_slot": _at(row.next_slot_ms),
        "last": None if listed.last is None else run_record(listed.last),
        "created_at": iso(row.created_ms),
        "changed_at": iso(row.changed_ms),
    }


def timing_record(timing: Timing) -> dict[str, Any]:
    return {
        "words": timing.words,
        "cron": timing.cron or None,
        "every": timing.every,
        "timezone": timing.timezone,
        "jitter": timing.jitter,
        "start": timing.start,
        "end": timing.end,
        "catch_up": timing.catch_up.value,
        "overlap": timing.overlap.value,
    }


def run_record(run: RunRow) -> dict[str, Any]:
    return {
        "id": run.id,
        "slot": iso(run.slot_ms),
        "slots": run.slots,
        "last_slot": iso(run.last_ms),
        "kind": run.kind.value,
        "state": run.state.value,
        "reason": run.reason or None,
        "detail": run.detail or None,
        "job": run.job or None,
        "other": run.other or None,
        "previous": run.previous or None,
        "due_at": iso(run.due_ms),
        "started_at": _at(run.started_ms),
        "late_seconds": None if run.started_ms is None else round((run.started_ms - run.due_ms) / 1000, 3),
        "ended_at": _at(run.ended_ms),
        "pages": run.sums.pages if run.sums else None,
        "failed": run.sums.failed if run.sums else None,
        "items": run.sums.items if run.sums else None,
        "seconds": round(run.sums.seconds, 3) if run.sums else None,
    }


def slot_record(slot_ms: int, due_ms: int | None, timing: Timing) -> dict[str, Any]:
    """A slot that is to come: in UTC, and on the clock of the schedule's time zone."""
    return {"slot": iso(slot_ms), "local": local(slot_ms, timing), "due_at": _at(due_ms)}


def local(at_ms: int, timing: Timing) -> str:
    return datetime.fromtimestamp(at_ms / 1000, timing.zone).isoformat(timespec="seconds")


def _at(ms: int | None) -> str | None:
    return None if ms is None else iso(ms)
