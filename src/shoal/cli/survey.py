"""Reads the pages of a map's job as they are stored, for all URLs that they name, and sees to its second part."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import timedelta

from shoal.cli.sink import Sink
from shoal.core.spec import JobSpec
from shoal.core.url import Url, parse
from shoal.errors import FetchError, NotFound
from shoal.extract.trail import Sighting, Trail
from shoal.fetch.port import Response
from shoal.store.page_rows import PageRow
from shoal.wiring import Platform

TURN_S = 0.5
"""So long pages are read before the job is looked at again."""
AT_ONCE = 20


class Survey:
    """Follows a job that is open for its start URL until the sitemaps are read."""

    def __init__(self, platform: Platform, job: str, spec: JobSpec, start: Url, pages: int, sink: Sink) -> None:
        """`pages`: how many may be fetched in both parts."""
        self._platform = platform
        self._job = job
        self._start = start
        self._sink = sink
        self._local = spec.local
        self._trail = Trail.of(spec.model_copy(update={"depth": None}))  # what the last pages link to is found as well
        self._pages = pages
        self._last = 0
        self._started = False
        sink.take(Sighting(start, "start"))

    @property
    def written(self) -> int:
        """URLs so far."""
        return self._sink.written

    def catch_up(self) -> None:
        """Read what is new, for a moment, or all of it when no more will come."""
        status = self._platform.control.status(self._job)
        ends_at = time.monotonic() + TURN_S
        while (rows := self._platform.pages.pages_after(self._job, self._last, AT_ONCE)) and not self._sink.is_full:
            for number, page in rows:
                for sighting in self._seen_on(page):
                    self._sink.take(sighting)
                self._last = number
                if time.monotonic() > ends_at and not status.state.ended:
                    break
            self._sink.flush()
            if time.monotonic() > ends_at and not status.state.ended:
                return
        if status.state.ended:
            return
        if self._sink.is_full:
            self._platform.control.cancel(self._job)
        elif not self._started and not status.counters.pending:
            self._go_on()

    def _go_on(self) -> None:
        """The sitemaps are read: the rest of the pages are for links."""
        control, row = self._platform.control, self._platform.control.job(self._job)
        control.edit(self._job, {"pages": self._pages})
        self._platform.intake.add(row, [(1, str(self._start), "")], self._local)
        control.close(self._job)
        self._started = True

    def _seen_on(self, page: PageRow) -> Iterator[Sighting]:
        url = parse(page.url)
        if page.redirect:
            target = parse(page.redirect)
            if not self._trail.links.refuses(target):
                yield Sighting(target, "link")
        elif page.archive is not None:
            try:
                kept = self._platform.archive.read(page.archive)
                response = Response(url, kept.status, kept.http_reason, kept.headers, kept.body, timedelta())
                yield from self._trail.sightings(page.depth, response)
            except (NotFound, FetchError):
                return  # what cannot be read names nothing
