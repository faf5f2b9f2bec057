"""Values of the domain as JSON for clients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shoal.core.fleet import QueueDepth, WorkerBeat
from shoal.core.frozen import values_of
from shoal.core.job_status import JobStatus
from shoal.core.likeness import hex_of
from shoal.core.model import AdmitReport
from shoal.core.proxies import ProxyPool
from shoal.core.redact import HIDDEN, without_secrets
from shoal.core.spec import JobSpec
from shoal.core.trouble import Trouble, explain
from shoal.hosts import HostReport
from shoal.staffing import Staff
from shoal.store.deliveries import Delivery
from shoal.store.export import ask_record, iso, limit
from shoal.store.extractions import Progress
from shoal.store.host_limits import HostLimit
from shoal.store.items import ItemRow, Quarantined
from shoal.store.job_rows import JobRow
from shoal.store.ledger import Entry
from shoal.store.lineage import Lineage
from shoal.store.page_rows import DeadLetter, PageRow

PREFIX = "/api/v1"


def links(job: str) -> dict[str, str]:
    base = f"{PREFIX}/jobs/{job}"
    parts = ("urls", "pages", "items", "fields", "quarantine", "errors", "dead", "export", "events")
    return {"self": base, **{part: f"{base}/{part}" for part in parts}}


def accepted(row: JobRow, report: AdmitReport, *, repeated: bool) -> dict[str, Any]:
    return {
        "id": row.id,
        "state": row.state.value,
        "accepted": report.admitted,
        "seen": report.duplicates,
        "filtered": report.filtered + report.over_budget,
        "repeated": repeated,
        "request_id": row.request_id,
        "links": links(row.id),
    }


def job(row: JobRow, waiting_for: str | None = None) -> dict[str, Any]:
    return {
        "id": row.id,
        "name": row.name,
        "labels": list(row.spec.labels),
        "state": row.state.value,
        "open": row.open and not row.state.ended,
        "lane": row.spec.lane.value,
        "engine": row.spec.engine.value,
        "request_id": row.request_id,
        "created_at": iso(row.created_ms),
        "waiting_for": waiting_for or (explain(row.status.troubles) if row.status else None),
        **(progress(row.status) if row.status else _no_progress()),
        "drift": [each.as_json for each in row.drift or ()],
        "spec": spec(row.spec),
        "links": links(row.id),
    }


def progress(status: JobStatus) -> dict[str, Any]:
    """State and sums: what changes while a job runs."""
    counters = status.counters
    return {
        "started_at": None if status.started_ms is None else iso(status.started_ms),
        "ended_at": None if status.ended_ms is None else iso(status.ended_ms),
        "elapsed_seconds": round(status.elapsed.total_seconds(), 3),
        "pages": status.pages,
        "redirects": status.redirects,
        "pending": counters.pending,
        "rate": status.rate,
        "eta_seconds": None if status.eta is None else round(status.eta.total_seconds(), 1),
        "carried": status.carried,
        "counters": values_of(counters),
        "totals": status.totals.as_json,
        "reconciles": status.reconciles,
        "errors": status.errors,
        "reasons": status.reasons,
        "slowest_hosts": [{"host": slow.host, "latency_ms": slow.latency_ms} for slow in status.slowest],
    }


def _no_progress() -> dict[str, Any]:
    """A job that its database knows and its frontier does not (yet)."""
    nothing = {"started_at": None, "ended_at": None, "elapsed_seconds": 0.0, "pages": 0, "redirects": 0, "pending": 0}
    return {
        **nothing,
        "rate": 0.0,
        "eta_seconds": None,
        "carried": {},
        "counters": None,
        "totals": None,
        "reconciles": True,
        "errors": {},
        "reasons": {},
        "slowest_hosts": [],
    }


def spec(value: JobSpec) -> dict[str, Any]:
    """The job as it was submitted, without its URLs and secrets."""
    shown = value.model_dump(mode="json", exclude={"urls", "open"})
    if isinstance(value.proxies, ProxyPool):
        shown["proxies"] = value.proxies.shown()
    if value.browser:
        shown["browser"] = value.browser.shown()
    if value.output:
        shown["output"] = value.output.shown()
    shown["headers"] = {
        name: HIDDEN if name in value.secret_headers else without_secrets(text) for name, text in value.headers.items()
    }
    return shown


def page(number: int, row: PageRow) -> dict[str, Any]:
    return {
        "id": number,
        "job": row.job,
        "url": row.url,
        "host": row.host,
        "status": row.status,
        "depth": row.depth,
        "attempt": row.attempt,
        "content_type": row.content_type,
        "charset": row.charset,
        "size": row.size,
        "elapsed_ms": row.elapsed_ms,
        "fetched_at": iso(row.fetched_ms),
        "checked_at": None if row.checked_ms is None else iso(row.checked_ms),
        "reused": row.reused,
        "redirect": row.redirect,
        "canonical": row.canonical,
        "fingerprint": hex_of(row.fingerprint),
        "duplicate_of": None if row.duplicate_of is None else hex_of(row.duplicate_of),
        "request_id": row.request_id,
        "engine": row.engine,
        "notes": dict(row.notes) if row.notes else None,
        "body": f"{PREFIX}/pages/{number}/body" if row.archive else None,
        "captures": {each.kind: f"{PREFIX}/pages/{number}/captures/{each.kind}" for each in row.captures},
    }


def item(number: int, row: ItemRow, lineage: Lineage | None = None) -> dict[str, Any]:
    shown = {"id": number, "url": row.url, "number": row.number, "data": row.data, "version": row.version}
    if lineage is None:
        return shown
    return {**shown, "lineage": {name.removeprefix("_"): value for name, value in lineage.columns.items()}}


def extraction(progress: Progress) -> dict[str, Any]:
    return {**progress.record, "spec": dict(progress.extraction.spec)}


def delivery(row: Delivery) -> dict[str, Any]:
    return {
        "id": row.id,
        "version": row.version,
        "output": row.output.shown(),
        "state": row.state.value,
        "rows": row.rows,
        "parts": len(row.parts),
        "tries": row.tries,
        "message": row.error,
        "updated_at": iso(row.updated_ms),
    }


def quarantined(number: int, row: Quarantined) -> dict[str, Any]:
    return {**item(number, row.item), "reasons": list(row.reasons)}


def error(number: int, letter: DeadLetter) -> dict[str, Any]:
    return {
        "id": number,
        "url": letter.url,
        "host": letter.host,
        "outcome": letter.outcome,
        "reason": letter.reason,
        "detail": letter.detail,
        "depth": letter.depth,
        "attempts": letter.attempts,
        "at": iso(letter.at_ms),
    }


def host(report: HostReport) -> dict[str, Any]:
    status = report.status
    return {
        "host": status.host,
        "state": status.state,
        "reason": status.reason,
        "rate": limit(status.rate),
        "parallel": limit(status.parallel),
        "paused": status.paused,
        "note": report.note,
        "rate_source": report.rate_source,
        "parallel_source": report.parallel_source,
        "pace": status.pace,
        "crawl_delay_seconds": status.crawl_delay,
        "hold_seconds": status.hold.total_seconds(),
        "next_slot_seconds": status.next_slot.total_seconds(),
        "in_flight": status.in_flight,
        "latency_ms": status.latency_ms,
        "waiting_jobs": status.waiting_jobs,
        "lane": status.lane.value if status.lane else None,
        "breaker": status.breaker.value,
        "probe_seconds": status.probe_in.total_seconds(),
        "group": status.group,
        "address": status.address,
        "decisions": [{"at": iso(each.at_ms), "what": each.what, "reason": each.reason} for each in status.decisions],
        "operator": _word(report.said),
        "file": _word(report.filed),
        "last_used_at": iso(status.seen_ms) if status.seen_ms else None,
    }


def _word(said: HostLimit | None) -> dict[str, Any] | None:
    if said is None:
        return None
    return {
        "rate": limit(said.rate),
        "parallel": limit(said.parallel),
        "paused": said.paused,
        "note": said.note,
        "set_at": iso(said.set_ms),
    }


def entry(row: Entry) -> dict[str, Any]:
    return {"id": row.id, **ask_record(row.ask)}


def trouble(met: Trouble) -> dict[str, Any]:
    return {
        "what": met.what.value,
        "message": met.message,
        "seconds": round(met.lasted_ms / 1000, 1),
        "worker": met.worker,
    }


def queue(depth: QueueDepth, workers: Sequence[WorkerBeat]) -> dict[str, Any]:
    return {
        "queue": depth.queue,
        "queued": depth.queued,
        "delayed": depth.delayed,
        "leased": depth.leased,
        "jobs_due": depth.jobs_due,
        "workers": sum(beat.processes for beat in workers if depth.queue in beat.queues),
    }


def worker(beat: WorkerBeat) -> dict[str, Any]:
    return {
        "name": beat.name,
        "queues": list(beat.queues),
        "processes": beat.processes,
        "active": beat.active,
        "slices": beat.slices,
        "memory_mb": beat.memory_mb,
        "started_at": iso(beat.started_ms),
        "version": beat.version,
        "pages": beat.pages,
        "last_progress_at": iso(beat.progress_ms) if beat.progress_ms else None,
        "browsers": beat.browsers,
        "rendering": beat.rendering,
        "sockets": beat.sockets,
        "pace": beat.pace,
    }


def staff(found: Staff) -> dict[str, Any]:
    """How many workers would be useful."""
    return {
        "queues": [
            {
                "queue": row.queue,
                "processes": row.processes,
                "busy": row.busy,
                "need": row.need,
                "useful": row.useful,
                "why": row.why,
            }
            for row in found.queues
        ],
        "kinds": [
            {"kind": kind.kind, "processes": kind.processes, "busy": kind.busy, "useful": kind.useful}
            for kind in found.kinds
        ],
    }
