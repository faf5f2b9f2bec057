"""What a rule or a budget has left out is not kept one by one, but counted by reason. Which of them was it?

A rule that refuses a URL decides, if the job has left anything out for it. A URL that no rule refuses can only have
fallen to a budget, to `since`, or to the end of a cancelled job; where nothing of the kind was counted, nobody met it.
Of a URL that may not have been met at all, nothing more is said than what would have become of it.
"""

from __future__ import annotations

from dataclasses import replace

from shoal.core.explanation import Step, Verdict
from shoal.core.frozen import frozen
from shoal.core.job_status import JobStatus
from shoal.core.model import JobState, Outcome
from shoal.core.url import Url
from shoal.explain.rules import BUDGETS, scope_step, sitemap_step
from shoal.store.job_rows import JobRow

FOR_LINKS = ("denied", "not_allowed")
"""Rules that are not about what is submitted: who names a URL wants it."""


@frozen
class LeftOut:
    """Why a URL has no row, and whether that is certain."""

    verdict: Verdict
    step: Step
    certain: bool


def left_out(row: JobRow, url: Url, *, met: bool | None, submitted: bool) -> LeftOut | None:
    """None when nothing of the job can have left it out; `met`: was it submitted or found? None when nobody knows."""
    if row.status is None:
        return None
    if refusal := scope_step(row.spec, url):
        reason = str(refusal.detail["reason"])
        count = _count(row.status, reason) + _count(row.status, f"redirect_{reason}")
        if submitted and reason in FOR_LINKS:
            return _named(row, row.status, refusal, count)
        return _refused(refusal, reason, count, met=met) if count else None
    if about := sitemap_step(row.spec, url):
        count = _count(row.status, str(about.detail["reason"]))
        return LeftOut(Verdict.FILTERED, about, bool(met)) if count else None
    return _fallen(row, row.status, met=met)


def _refused(refusal: Step, reason: str, count: int, *, met: bool | None) -> LeftOut:
    if met:
        return LeftOut(Verdict.FILTERED, refusal, certain=True)
    told = _perhaps(f"{refusal.reason} ({_counted(count)} left out as {reason}, by whichever rule)")
    return LeftOut(Verdict.FILTERED, replace(refusal, reason=told), certain=False)


def _named(row: JobRow, status: JobStatus, refusal: Step, count: int) -> LeftOut | None:
    """Who names a URL wants it, but of an open job a link to it may have been refused before, which counts as well."""
    fallen = _fallen(row, status, met=True)
    if fallen:
        return replace(fallen, certain=fallen.certain and not (row.spec.open and count))
    told = f"a link to it was {refusal.reason} before it was submitted, and a job takes a URL once"
    return LeftOut(Verdict.FILTERED, replace(refusal, reason=told), certain=True) if count else None


def _fallen(row: JobRow, status: JobStatus, *, met: bool | None) -> LeftOut | None:
    """To a budget, to `since`, or when the job was cancelled."""
    counts = {reason: _count(status, reason) for reason in (*BUDGETS, "not_since")}
    some = {reason: count for reason, count in counts.items() if count}
    dropped = row.state is JobState.CANCELLED and status.counters.dropped > 0
    sure = bool(met) and len(some) + dropped == 1
    if dropped and not some:
        told = "it was waiting when the job was cancelled" if met else _perhaps("dropped when the job was cancelled")
        step = Step("dropped", told, status.ended_ms, {"dropped": status.counters.dropped}, recorded=False)
        return LeftOut(Verdict.DROPPED, step, sure)
    if not some:
        return None
    told = " or ".join(_told(row, reason, count) for reason, count in some.items())
    step = Step("filtered", told if met else _perhaps(told), detail={"reason": next(iter(some))}, recorded=False)
    return LeftOut(Verdict.FILTERED, step, sure)


def _told(row: JobRow, reason: str, count: int) -> str:
    if reason == "not_since":
        return f"filtered: it has not changed since {row.spec.since} ({_counted(count)} left out for this)"
    setting = BUDGETS[reason]
    return (
        f"left out beyond the budget {setting}: {getattr(row.spec, setting)} ({_counted(count)} left out as {reason})"
    )


def _perhaps(told: str) -> str:
    """The seen URLs of a job are gone with its end, so nobody knows whether this was one of them."""
    return f"if it was met at all, which is not kept: {told}"


def _counted(count: int) -> str:
    return "1 URL was" if count == 1 else f"{count:,} URLs were"


def _count(status: JobStatus, reason: str) -> int:
    return status.reasons.get(f"{Outcome.FILTERED.value}:{reason}", 0)
