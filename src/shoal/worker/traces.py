"""Traces of pages: a span for each job in a slice, and for some of its pages one from their lease to their settlement.

Which pages these are is decided by their fingerprint, so that every attempt of one is traced, whoever makes it.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext

from shoal import spans
from shoal.core.model import Lease
from shoal.core.redact import visible, without_secrets
from shoal.spans import Span
from shoal.worker.context import JobContext
from shoal.worker.result import Result

MAX_UNDER_WAY = 2_000
"""Traced pages that are not settled yet."""
MAX_URL = 500
_PARTS = 1_000_000
_NOTHING = nullcontext()


class Traces:
    """The spans of one process."""

    def __init__(self) -> None:
        self._jobs: dict[str, Span] = {}
        self._visits: dict[tuple[int, int], Span] = {}

    def visit(self, context: JobContext, lease: Lease) -> AbstractContextManager[None]:
        """One page, if it is one of those that are traced."""
        span = self._begin(context, lease)
        if span is None:
            return _NOTHING
        self._visits[lease.group, lease.index] = span
        return spans.within(span)

    @contextmanager
    def batch(self, name: str, results: Sequence[Result], *, last: bool = False) -> Generator[None]:
        """Something that is done for many pages at once; after the last, they are settled."""
        start = time.time_ns()
        yield
        end = time.time_ns()
        for result in results if self._visits else ():
            settlement = result.settlement
            key = (settlement.lease.group, settlement.lease.index)
            if span := self._visits.get(key):
                span.child(name, start).end(end)
                if last:
                    del self._visits[key]
                    reason = {"shoal__reason": settlement.reason} if settlement.reason else {}
                    span.note(shoal__outcome=settlement.outcome.value, **reason)
                    span.end(end)

    def end(self) -> None:
        """The slice is over; what was given back is not traced to its end."""
        for span in (*self._visits.values(), *self._jobs.values()):
            span.end()
        self._visits.clear()
        self._jobs.clear()

    def _begin(self, context: JobContext, lease: Lease) -> Span | None:
        plan = spans.plan()
        if plan is None or not context.trace or len(self._visits) >= MAX_UNDER_WAY:
            return None
        if lease.request.url.fingerprint % _PARTS >= plan.share * _PARTS:
            return None
        job = self._jobs.get(context.job)
        if job is None:
            job = spans.begin(f"slice {lease.queue}", context.trace, shoal__job=context.job)
            if job is None:
                return None
            self._jobs[context.job] = job
        span = job.child("visit")
        url = visible(without_secrets(str(lease.request.url)))[:MAX_URL]
        span.note(url__full=url, server__address=lease.request.url.host, shoal__attempt=lease.request.attempt)
        return span
