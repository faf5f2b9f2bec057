"""A trial of one page: found among those of earlier trials, or fetched by a job; then read here, from the archive."""

from __future__ import annotations

import json
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import field, replace
from typing import Any

from shoal.again.archived import ArchivedPages
from shoal.cli.crew import Crew
from shoal.cli.interrupts import Interrupts, noted_interrupts
from shoal.cli.run import make_ready
from shoal.cli.talk import say
from shoal.cli.tried import Tried, print_tried
from shoal.cli.view import View
from shoal.core.access import DEFAULT_TENANT
from shoal.core.frozen import frozen
from shoal.core.spec import JobSpec
from shoal.core.url import Url, parse
from shoal.core.values import STORED
from shoal.errors import FetchError, ShoalError
from shoal.extract.companion import Companion
from shoal.home import prepare_home
from shoal.intake.reach import read_urls
from shoal.redis_url import is_here
from shoal.settings import Settings
from shoal.store.archive import ArchiveReader
from shoal.store.jobs import JobFilter, JobStore
from shoal.store.page_rows import PageRow
from shoal.store.pages import PageStore
from shoal.upgrades import open_store

LABEL = "try"
KEEP = "1d"
FRESH_MS = 3_600_000
"""A page that was fetched by a trial this long ago is taken from the archive."""
LOOKED_AT = 200
"""Earlier trials, the newest first."""
MAX_HOPS = 20

_DECIDES = ("engine", "browser", "headers", "proxies", "robots", "drop_tracking")
"""Settings on which depends what comes for a URL, or whether it is asked for."""
_FETCHING = (*_DECIDES, "urls", "trusted", "local", "rate", "parallel", "retries", "timeout", "max_body")
"""All settings of a job that are about fetching a single page."""
_HINTS = {
    "robots_disallowed": "its robots.txt refuses it; when the site is yours: --no-robots",
    "http_404": "there is no such page: check the address",
    "http_401": "it wants a login: see --header",
    "http_403": "the site refuses it; some want a browser (--browser) or a login (--header)",
}


@frozen
class Trial:
    """What is tried, on which page."""

    spec: JobSpec
    settings: Settings
    callback: str
    meta: Mapping[str, Any]
    quiet: bool
    json: bool
    companion: Companion = field(default_factory=Companion)
    """Reads what is not read in place."""

    def run(self, workers: int, *, fresh: bool) -> int:
        """Find the page or fetch it, read it, show what came out; the exit code."""
        prepare_home(self.settings.home)
        if self.spec.spider or (self.spec.contract and self.spec.contract.model):
            self.companion.begin()  # it starts while the page is looked for
        fetching = fetching_of(self.spec)
        (url,) = read_urls(fetching, self.settings.egress, here=is_here(self.settings.redis_url))
        if not fresh:
            with _shelf(self.settings) as shelf:
                if (page := shelf.find(url, fetching)) is not None:
                    return self._show(page, shelf.archive, stored=True)
        return self._fetch(url, fetching, workers)

    def _fetch(self, url: Url, fetching: JobSpec, workers: int) -> int:
        spec, settings = make_ready(fetching, lambda: [""], workers=workers)
        with noted_interrupts() as interrupts, Crew(settings, workers) as crew:
            return self._follow(url, spec, settings, crew, interrupts)

    def _follow(self, url: Url, spec: JobSpec, settings: Settings, crew: Crew, interrupts: Interrupts) -> int:
        # Imported while the workers start: both take about as long.
        from shoal.cli.follow import INTERRUPTED, follow
        from shoal.wiring import open_platform

        with open_platform(settings, rings=crew.absent) as platform:
            interrupts.check()
            platform.recovery.look()
            job = platform.intake.submit(spec).job
            if not self.quiet:
                say(f"fetching {url} …")
            code = follow(platform, job, crew, View(quiet=True), interrupts)
            if code == INTERRUPTED:
                platform.control.cancel(job)
                return code
            page = page_of(platform.pages, job, url)
            if page is None:
                raise _not_fetched(platform.pages, job, url)
            shown = self._show(page, platform.archive, stored=False)
            crew.stop()  # before the platform goes: the workers still write to it
            return shown

    def _show(self, page: PageRow, archive: ArchiveReader, *, stored: bool) -> int:
        began = time.perf_counter()
        asked = replace(page, callback=self.callback, meta=json.dumps(self.meta) if self.meta else None)
        try:
            found = ArchivedPages(self.spec, archive, self.companion.find, links=True).read(asked)
        except FetchError as exc:
            raise ShoalError(f"{page.url} cannot be read: {exc.detail}") from exc
        tried = Tried.of(self.spec, page, found, read_ms=(time.perf_counter() - began) * 1000, stored=stored)
        print_tried(tried, json=self.json, quiet=self.quiet)
        return 1 if found.failed else 0


def fetching_of(spec: JobSpec) -> JobSpec:
    """The job that fetches the page, and takes nothing from it."""
    own = spec.model_dump(mode="json", include=set(_FETCHING), exclude_defaults=True)
    return JobSpec.model_validate({**own, "follow": False, "keep": KEEP, "labels": [LABEL]}, context=STORED)


def page_of(pages: PageStore, job: str, url: Url) -> PageRow | None:
    """What a job has stored for a URL, behind redirects."""
    for _ in range(MAX_HOPS):
        page = pages.page(job, url.fingerprint)
        if page is None or not page.redirect:
            return page
        url = parse(page.redirect)
    return None


@frozen
class _Shelf:
    """What earlier trials have stored; nothing but the database and the archive is needed for it."""

    jobs: JobStore
    pages: PageStore
    archive: ArchiveReader

    def find(self, url: Url, fetching: JobSpec) -> PageRow | None:
        """The page, if a trial has fetched it lately in the same way."""
        since_ms = time.time_ns() // 1_000_000 - FRESH_MS
        for row in self.jobs.newest(LOOKED_AT, JobFilter(tenant=DEFAULT_TENANT, label=LABEL, since_ms=since_ms)):
            if all(getattr(row.spec, name) == getattr(fetching, name) for name in _DECIDES):
                page = page_of(self.pages, row.id, url)
                if page is not None and page.archive is not None:
                    return page
        return None


@contextmanager
def _shelf(settings: Settings) -> Generator[_Shelf]:
    from shoal.wiring import open_archive

    engine = open_store(settings)
    try:
        yield _Shelf(JobStore(engine), PageStore(engine), open_archive(settings))
    finally:
        engine.dispose()


def _not_fetched(pages: PageStore, job: str, url: Url) -> ShoalError:
    for letter in pages.dead_letters(job):
        detail = f" ({letter.detail})" if letter.detail else ""
        hint = _HINTS.get(letter.reason, f"more about it: shoal dead {job}, docs/guides/errors.md")
        return ShoalError(f"{letter.url} was not fetched: {letter.reason}{detail}\n{hint}")
    return ShoalError(f"{url} was not fetched; see why: shoal status {job}")
