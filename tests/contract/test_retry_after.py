"""What a busy server asks for, from its bytes on the wire to the rest that its host gets."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any, cast

import pytest

from shoal.core.manners import Signal
from shoal.core.model import Lease, Outcome, Request, Settlement
from shoal.core.spec import JobSpec
from shoal.core.url import parse
from shoal.fetch.http import HttpClient
from shoal.worker.context import JobContext
from shoal.worker.outbound import Outbound
from shoal.worker.visit import Visitor
from tests.guards import guard_of_loopback
from tests.raw_answers import Ending, RawAnswer
from tests.raw_server import RawServer

NOW = datetime(2031, 5, 6, 7, 8, 9, tzinfo=UTC)
"""By the server's clock, which is not ours."""
CAP = timedelta(minutes=10)
BACKOFF = timedelta(seconds=1)
RETRIES = 3


def at(span: timedelta) -> str:
    """The date so much later."""
    return format_datetime(NOW + span, usegmt=True)


def settled(status: int, asked_for: str, attempt: int = 0) -> Settlement:
    """What becomes of a request that such an answer comes to."""
    head = f"HTTP/1.1 {status} Busy\r\nDate: {at(timedelta())}\r\nRetry-After: {asked_for}\r\nContent-Length: 0\r\n\r\n"
    answer = RawAnswer((head.encode("latin-1"),), Ending.CLOSES)

    async def main() -> Settlement:
        async with RawServer(lambda _target: answer).listening() as server:
            client = HttpClient("Shoal-Test/1.0", guard_of_loopback())
            spec = JobSpec.model_validate({"urls": [server.link("/")], "robots": False, "retries": RETRIES})
            visitor = Visitor(Outbound(client, cast("Any", None)), cast("Any", None))
            lease = Lease(1, 1, "job", Request(parse(server.link("/")), attempt=attempt))
            try:
                return (await visitor.visit(JobContext.of("job", spec), lease)).settlement
            finally:
                await client.close()

    return asyncio.run(main())


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize("asked_for", ["70", " 70 ", at(timedelta(seconds=70))])
def test_seconds_and_dates_are_honoured_by_request_and_host(status: int, asked_for: str) -> None:
    settlement = settled(status, asked_for)
    assert (settlement.outcome, settlement.reason, settlement.signal) == (Outcome.RETRY, f"http_{status}", Signal.BUSY)
    assert (settlement.delay, settlement.hold_host) == (timedelta(seconds=70), timedelta(seconds=70))


@pytest.mark.parametrize("asked_for", ["315360000", at(timedelta(days=3650)), "9" * 400])
def test_ten_years_are_cut_to_ten_minutes(asked_for: str) -> None:
    settlement = settled(429, asked_for)
    assert (settlement.outcome, settlement.delay, settlement.hold_host) == (Outcome.RETRY, CAP, CAP)


@pytest.mark.parametrize(
    "asked_for", ["soon", "-5", "", "1e9", "\xff\xfe", at(timedelta())[:-8], at(-timedelta(days=9))]
)
def test_garbage_and_the_past_leave_it_to_the_growing_pauses(asked_for: str) -> None:
    for attempt in range(RETRIES):
        settlement = settled(429, asked_for, attempt)
        assert (settlement.outcome, settlement.hold_host) == (Outcome.RETRY, timedelta())
        assert BACKOFF * 2**attempt / 2 <= settlement.delay <= BACKOFF * 2**attempt


@pytest.mark.parametrize("asked_for", ["0", "70", "soon", "315360000"])
def test_nobody_is_asked_for_ever(asked_for: str) -> None:
    settlement = settled(429, asked_for, attempt=RETRIES)
    assert (settlement.outcome, settlement.reason) == (Outcome.DEAD, "http_429")
    assert settlement.hold_host <= CAP
