"""Bytes that no good server sends: each becomes a page or a failure with a documented reason, and the next page comes.

The whole way is real: sockets, client, the reading of pages, archive and database.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import AsyncExitStack, ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any, cast

import psutil
import pytest
import uvloop
from hypothesis import HealthCheck, given, seed, settings

from shoal.core.model import Lease, Outcome, Request
from shoal.core.spec import JobSpec
from shoal.core.url import parse
from shoal.fetch.http import HttpClient
from shoal.fetch.port import FetchLimits
from shoal.store.archive import ArchiveWriter
from shoal.store.database import open_database
from shoal.store.pages import PageStore
from shoal.worker.context import JobContext
from shoal.worker.outbound import Outbound
from shoal.worker.result import Result
from shoal.worker.visit import Visitor
from tests.chaos.fleet import Fleet
from tests.command import REPOSITORY, Shoal, end
from tests.documents import plain, table
from tests.guards import guard_of_loopback
from tests.long import LONG
from tests.raw_answers import Ending, RawAnswer, answers_of_seed, raw_answers
from tests.raw_server import LATE_S, RawServer, serve_raw
from tests.waiting import wait_until

CASES = 20_000 if LONG else 1_000
IN_A_ROUND = 500
ENOUGH_S = 480.0
"""After so long no further round begins: one takes half a minute, on a machine that is busy a few."""
SHORT = FetchLimits(
    connect=timedelta(seconds=5),
    first_byte=timedelta(milliseconds=40),
    total=timedelta(milliseconds=120),
    max_body=20_000,
)
ANSWERS = 2_000 if LONG else 200
OF_A_HOST = 50
"""A host that answers so badly is asked more rarely: many answers come from many hosts."""
ENDS = timedelta(minutes=5 if LONG else 2)
SEED = 6
PACE = ("--rate", "unlimited", "--parallel", "16", "--no-robots", "--retries", "1", "--timeout", "1")
TAKEN = ("--field", "title=h1", "--field", "links[]=a@href")
HANGS_S = 10.0
SETTLES_S = 0.002
FIELDS = {"title": "h1", "links[]": "a@href", "prices[]": ".price"}
GOOD_BODY = b"<!doctype html><h1>Good</h1>"
GOOD = RawAnswer((b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(GOOD_BODY), GOOD_BODY),), Ending.STAYS)


@cache
def documented() -> frozenset[str]:
    return frozenset(plain(row[0]) for row in table("docs/guides/errors.md", "reason"))


def as_documented(reason: str) -> str:
    """A status stands in the guide by itself, or with others of its kind."""
    if not reason.startswith("http_") or reason in documented():
        return reason
    return "http_999" if int(reason[5:]) >= 600 else f"{reason[:6]}xx"


@dataclass
class Reader:
    """Fetches and reads what a raw server sends, and stores it, on one loop with one client."""

    folder: Path
    seen: Counter[str] = field(default_factory=Counter[str])
    unhandled: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    answer: RawAnswer = GOOD

    def __enter__(self) -> Reader:
        self._runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
        self._runner.__enter__()
        self._runner.get_loop().set_exception_handler(lambda _loop, context: self.unhandled.append(context))
        self._runner.run(self._open())
        return self

    def __exit__(self, *_exc: object) -> None:
        self._runner.run(self._stack.aclose())
        self._runner.__exit__(None, None, None)

    async def _open(self) -> None:
        self._stack = AsyncExitStack()
        self._server = await self._stack.enter_async_context(RawServer(self._answer_to).listening())
        self._client = HttpClient("Shoal-Test/1.0", guard_of_loopback())
        self._stack.push_async_callback(self._client.close)
        engine = open_database(f"sqlite:///{self.folder / 'shoal.db'}")
        self._stack.callback(engine.dispose)
        self._pages = PageStore(engine)
        self._archive = self._stack.enter_context(closing(ArchiveWriter(self.folder / "archive", 100_000_000)))
        spec = JobSpec.model_validate({"urls": [self._server.link("/")], "robots": False, "fields": FIELDS})
        self._context = replace(JobContext.of("job", spec), limits=SHORT)
        # Without proxies and without robots.txt nobody asks who lends the ones and keeps the others.
        self._visitor = Visitor(Outbound(self._client, cast("Any", None)), cast("Any", None))
        self._number = 0

    def _answer_to(self, target: str) -> RawAnswer:
        return GOOD if target == "/good" else self.answer

    def read(self, answer: RawAnswer) -> Result:
        """What came of one answer, stored; then a good page from the same server."""
        self.answer = answer
        self.unhandled.clear()
        result = self._runner.run(self._read())
        self._store(result)
        self.seen[f"{result.settlement.outcome}:{as_documented(result.settlement.reason)}"] += 1
        return result

    async def _read(self) -> Result:
        self._number += 1
        lease = Lease(1, 1, "job", Request(parse(self._server.link(f"/page/{self._number}"))))
        result = await asyncio.wait_for(self._visitor.visit(self._context, lease), HANGS_S)
        async with asyncio.timeout(HANGS_S):
            while self._server.sending:  # what comes after the next request nobody could tell from its answer
                await asyncio.sleep(LATE_S / 2)
        await asyncio.sleep(SETTLES_S if self.answer.late else 0)
        good = await asyncio.wait_for(self._client.fetch(parse(self._server.link("/good")), {}, FetchLimits()), HANGS_S)
        assert (good.status, good.wire_body) == (200, GOOD_BODY)
        return result

    def _store(self, result: Result) -> None:
        page = result.page
        if page and result.exchange:
            page = replace(page, archive=self._archive.append("job", result.exchange))
        self._pages.write([page] if page else [], result.items, [result.letter] if result.letter else [], result.asks)


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Generator[Reader]:
    with Reader(tmp_path_factory.mktemp("reader")) as made:
        yield made
    print(sum(made.seen.values()), "answers:", dict(made.seen.most_common()))


@pytest.mark.slow
def test_every_answer_is_a_page_or_has_a_documented_reason(reader: Reader) -> None:
    """In rounds, each of which makes its own: hypothesis goes on making them when there is no time left to try them."""
    until = time.monotonic() + ENOUGH_S
    for number in range(CASES // IN_A_ROUND):
        if number and time.monotonic() > until:
            break
        if settings().derandomize:  # else each would try the same ones
            seed(number)(_round)
        _round(reader)


@settings(
    max_examples=IN_A_ROUND,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
)
@given(answer=raw_answers())
def _round(reader: Reader, answer: RawAnswer) -> None:
    result = reader.read(answer)
    settlement = result.settlement
    assert not settlement.reason or as_documented(settlement.reason) in documented()
    assert settlement.reason != "internal_error"
    assert (settlement.outcome is Outcome.DONE) == (result.page is not None)
    assert (settlement.outcome is Outcome.DEAD) == (result.letter is not None)
    assert reader.unhandled == []


def test_a_worker_outlives_whatever_servers_send(fleet: Fleet, tmp_path: Path) -> None:
    """A real worker, and a list of URLs each of which is answered in a way of its own."""
    answers = [answer for answer in answers_of_seed(SEED, ANSWERS) if b"Retry-After" not in answer.wire]  # nobody waits
    shoal, listed = fleet.shoal(), tmp_path / "urls.txt"
    with ExitStack() as stack:
        urls = {
            url
            for first in range(0, len(answers), OF_A_HOST)
            for url in stack.enter_context(_answering(answers[first : first + OF_A_HOST]))
        }
        listed.write_text("\n".join(urls), encoding="utf-8")
        worker = stack.enter_context(_working(shoal, tmp_path / "worker.log"))
        fleet.wait_for_worker()
        before = _fetching(worker.pid)
        done = shoal.run("scrape", "-f", str(listed), *PACE, *TAKEN, "--detach", "--json")
        assert done.code == 0, done.err
        job = done.json["job"]
        wait_until(lambda: shoal.status(job)["state"] == "finished", within=ENDS)
        assert _fetching(worker.pid) == before
    status = shoal.status(job)
    assert status["reconciles"]
    assert status["counters"]["lost"] == 0
    pages = {row["url"] for row in shoal.run("results", job, "--pages").records}
    letters = {row["url"]: row["reason"] for row in shoal.run("dead", job, "--format", "jsonl").records}
    assert urls <= pages | set(letters)
    assert not pages & set(letters)
    assert {as_documented(reason) for reason in letters.values()} <= documented() - {"internal_error"}
    assert len(set(letters.values())) > 3, "of many kinds"
    print(len(pages), "pages,", dict(Counter(letters.values()).most_common()))


@contextmanager
def _working(shoal: Shoal, log: Path) -> Generator[subprocess.Popen[str]]:
    """A worker that writes to a file: of so many failures it says more than a pipe holds that nobody reads."""
    with log.open("w", encoding="utf-8") as told:
        worker = subprocess.Popen(
            [sys.executable, "-m", "shoal", "worker"],
            env=shoal.environment,
            cwd=REPOSITORY,
            stdin=subprocess.DEVNULL,
            stdout=told,
            stderr=told,
            text=True,
        )
        try:
            yield worker
        finally:
            end(worker)


@contextmanager
def _answering(answers: Sequence[RawAnswer]) -> Generator[list[str]]:
    """A host, and a URL of it for each answer."""
    with serve_raw(lambda target: answers[int(target[1:])] if target[1:].isdigit() else GOOD) as server:
        yield [server.link(f"/{number}") for number in range(len(answers))]


def _fetching(worker: int) -> set[int]:
    """The processes below a worker that have none below themselves."""
    return {process.pid for process in psutil.Process(worker).children(recursive=True) if not process.children()}
