"""One page, now: a job of one URL in the high lane, and a client that may wait for it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from flask import Response, g

from shoal.api import present
from shoal.api.answers.results import Scraped
from shoal.api.context import answer, api, idempotency_claim, origin, own_job, platform
from shoal.api.operations import check_proxies
from shoal.api.problems import BadValue
from shoal.api.routes import Routes
from shoal.api.schemas import Idempotency, ScrapeBody, ScrapeQuery
from shoal.core.model import Lane
from shoal.core.spec import JobSpec
from shoal.errors import BadUrls, Busy
from shoal.store.job_rows import JobRow

MAX_SCRAPED = 1_000
"""Items in one answer; the job's results have them all."""

routes = Routes("scrape", "/api/v1", "One page, now")


@routes.post("/scrape", {200: Scraped, 202: Scraped})
def scrape(header: Idempotency, query: ScrapeQuery, body: ScrapeBody) -> Response:
    """Fetch one URL in the high lane, and wait for it if asked to.

    200 with the page (or why there is none) when it came in time; else 202 without, and the job to ask about later.
    """
    values: dict[str, Any] = body.model_dump(exclude={"url"})
    spec = JobSpec.model_validate({**values, "urls": [body.url], "follow": False, "lane": Lane.HIGH})
    check_proxies(body.proxies)
    try:
        taken = platform().intake.submit(spec, origin(), idempotency_claim(header.idempotency_key))
    except BadUrls as exc:
        raise BadValue("url", exc.problems[0][1]) from exc
    g.job = taken.job
    patience = timedelta(seconds=min(query.wait, platform().settings.api_wait_seconds))
    headers = {"Location": f"{present.PREFIX}/jobs/{taken.job}"}
    ended = _ends_within(taken.job, patience)
    return answer(_scraped(own_job(taken.job), body.url), 200 if ended else 202, headers)


def _ends_within(job: str, patience: timedelta) -> bool:
    try:
        return bool(patience) and api().hub.wait_for_end(job, patience)
    except Busy:
        return False  # too many wait already; the job is accepted all the same


def _scraped(row: JobRow, url: str) -> dict[str, Any]:
    pages = platform().pages
    found = pages.pages_after(row.id, 0)
    page = next(((number, page) for number, page in found if page.redirect is None), None)
    items = [item.data for _, item in pages.items_after(row.id, 0, MAX_SCRAPED + 1)]
    return {
        "id": row.id,
        "state": row.state.value,
        "request_id": row.request_id,
        "page": present.page(*page) if page else None,
        "item": items[0] if items else None,
        "items": items[:MAX_SCRAPED],
        "more": len(items) > MAX_SCRAPED,
        "error": _partly(row, url) if page else _error(row.id, url) if row.state.ended else None,
        "links": present.links(row.id),
    }


def _partly(row: JobRow, url: str) -> dict[str, Any] | None:
    """Why a page that is there may hold more than was found in it."""
    reasons = [reason for name in (row.status.reasons if row.status else {}) if (reason := _in_part(name))]
    if not reasons:
        return None
    detail = "the page is stored, but was not read in full: links or fields of it may be missing"
    return {"url": url, "reason": reasons[0], "detail": detail, "attempts": 1}


def _in_part(name: str) -> str:
    outcome, _, reason = name.partition(":")
    return reason if outcome == "done" and reason != "redirect" else ""


def _error(job: str, url: str) -> dict[str, Any]:
    """Why there is no page; when nothing failed, redirects have led back to where they began."""
    letters = platform().pages.letters_after(job, 0, 1)
    if letters:
        letter = letters[0][1]
        return {"url": letter.url, "reason": letter.reason, "detail": letter.detail, "attempts": letter.attempts}
    return {"url": url, "reason": "redirect_loop", "detail": "its redirects lead in a circle", "attempts": 1}
