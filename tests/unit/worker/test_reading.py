"""A page that was fetched: what is said of what could not be taken."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import structlog

from shoal.core.model import Lease, Request
from shoal.core.spec import JobSpec
from shoal.core.url import parse
from shoal.extract.page import MAX_JOINED_CHARS
from shoal.fetch.port import Response
from shoal.worker.context import JobContext
from shoal.worker.reader import Reader
from shoal.worker.reading import read_page
from shoal.worker.result import Result


async def _read(url: str, body: bytes) -> Result:
    page, reader = parse(url), Reader()
    context = JobContext.of("job", JobSpec(hosts=(page.host,)))
    response = Response(page, 200, "OK", ((b"content-type", b"text/html"),), body, timedelta())
    try:
        return await read_page(context, Lease(1, 1, "job", Request(page)), response, reader)
    finally:
        await reader.end()


def test_links_that_lead_to_too_much_in_all_are_left_out_and_that_is_said() -> None:
    body = b"".join(b"<a href=%d>" % number for number in range(6_000))
    with structlog.testing.capture_logs() as logs:
        result = asyncio.run(_read(f"http://h.example/{'x' * 1_900}/", body))
    assert MAX_JOINED_CHARS <= sum(candidate.url.chars for candidate in result.candidates) < MAX_JOINED_CHARS * 1.1
    assert [(line["event"], line["cut"]) for line in logs] == [("page_cut", "links")]
