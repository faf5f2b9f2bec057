"""Looks at the store and the frontier from outside while the crawl runs. It changes nothing."""

from __future__ import annotations

import time
from typing import Any

from shoal.core.job_status import JobStatus
from shoal.drill.evidence import Held
from shoal.drill.plan import Plan
from shoal.errors import ArchiveUnavailable, NotFound, Unavailable
from shoal.frontier.entry import decode_record
from shoal.frontier.scripts import connect, translated_errors
from shoal.store.page_rows import PageRow
from shoal.wiring import Platform, redis_urls

PATIENCE_S = 10.0
HOLDER_S = 86_400.0
"""What is noted about a group's holder is kept for so long from its lease on, which tells when that was. Its number
does not: after a fault of Redis numbers go on far ahead of its clock."""


class Witness:
    """Notes when which page was stored for the first time."""

    def __init__(self, platform: Platform, plan: Plan, job: str) -> None:
        self._platform = platform
        self._plan = plan
        self._job = job
        self._redis: Any = connect(redis_urls(platform.settings).frontier, timeout_s=PATIENCE_S)
        self._last_id = 0
        self.stored_at: dict[str, float] = {}

    def close(self) -> None:
        self._redis.close()

    @property
    def progress(self) -> float:
        """Share of the pages that are stored."""
        return len(self.stored_at) / self._plan.urls

    def look(self) -> None:
        """Which pages are new?"""
        rows = self._platform.pages.pages_after(self._job, self._last_id)
        now = time.monotonic()
        for number, row in rows:
            self._last_id = number
            self.stored_at.setdefault(row.url, now)

    def has_ended(self) -> bool:
        """The database is asked, since Redis may be away."""
        row = self._platform.jobs.get(self._job)
        return row is not None and row.state.ended

    def leased(self) -> set[Held]:
        """What workers hold at this moment."""
        prefix = self._platform.settings.prefix
        found: set[Held] = set()
        with translated_errors("leases"):
            for group in self._redis.zrange(f"{prefix}:leases", 0, -1):
                look = self._redis.pipeline(transaction=True)
                look.pttl(f"{prefix}:holder:{group}").hgetall(f"{prefix}:lease:{group}")
                left_ms, records = look.execute()
                since = time.monotonic() - (HOLDER_S - left_ms / 1_000)
                for index, record in records.items():
                    found.add(Held(str(decode_record(record)[1].url), f"{group}:{index}", since))
        return found

    def status(self) -> JobStatus | None:
        """The job's last sums."""
        try:
            return self._platform.control.status(self._job)
        except (NotFound, Unavailable):
            return None

    def stats(self) -> dict[str, int]:
        """The frontier's own sums; none when it cannot be asked."""
        try:
            return self._platform.watch.stats()
        except Unavailable:
            return {}

    def rows(self) -> tuple[str, ...]:
        """The URL of every row."""
        return tuple(row.url for row in self._platform.pages.pages(self._job))

    def unreadable(self) -> tuple[str, ...]:
        """Rows whose bytes are not where they should be, or are another page's."""
        return tuple(row.url for row in self._platform.pages.pages(self._job) if not self._is_archived(row))

    def _is_archived(self, row: PageRow) -> bool:
        if row.archive is None:
            return False
        try:
            exchange = self._platform.archive.read(row.archive)
        except (NotFound, ArchiveUnavailable):
            return False
        return exchange.url == row.url and len(exchange.body) == row.size

    def dead(self) -> tuple[str, ...]:
        """What was given up, and why."""
        return tuple(f"{letter.url} ({letter.reason})" for letter in self._platform.pages.dead_letters(self._job))
