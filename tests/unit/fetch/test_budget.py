"""Large bodies share a room: who finds none waits, and nobody for ever."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from shoal.core.url import parse
from shoal.fetch.budget import SMALL_BODY, Budget
from shoal.fetch.http import HttpClient
from shoal.fetch.port import FetchLimits
from tests.guards import guard_of_loopback
from tests.raw_answers import Ending, RawAnswer
from tests.raw_server import RawServer

LARGE = b"x" * (SMALL_BODY + 1)
WITH_LENGTH = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(LARGE) + LARGE
WITHOUT = b"HTTP/1.1 200 OK\r\n\r\n" + LARGE
SMALL = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nsmall"


class Visits:
    """Tasks that hold what they have got until the test lets them end."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._ends: dict[str, asyncio.Event] = {}
        self.inside: list[str] = []

    async def begin(self, name: str, *sizes: int) -> None:
        self._ends[name] = asyncio.Event()
        self._tasks[name] = asyncio.create_task(self._visit(name, sizes))
        await _let_run()

    async def end(self, name: str) -> None:
        self._ends[name].set()
        await _let_run()

    async def interrupt(self, name: str) -> None:
        self._tasks[name].cancel()
        await _let_run()

    async def _visit(self, name: str, sizes: tuple[int, ...]) -> None:
        for size in sizes:
            await self._budget.hold(size)
        self.inside.append(name)
        try:
            await self._ends[name].wait()
        finally:
            self.inside.remove(name)


async def _let_run() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def test_who_finds_no_room_waits_in_line() -> None:
    async def main() -> None:
        visits = Visits(Budget(100))
        await visits.begin("a", 60)
        await visits.begin("b", 60)
        await visits.begin("c", 10)  # there would be room, but b was first
        assert visits.inside == ["a"]
        await visits.end("a")
        assert visits.inside == ["b", "c"]
        await visits.end("b")
        await visits.end("c")

    asyncio.run(main())


def test_who_wants_more_than_there_is_gets_all_of_it() -> None:
    async def main() -> None:
        visits = Visits(Budget(100))
        await visits.begin("a", 10)
        await visits.begin("b", 1_000)
        assert visits.inside == ["a"]
        await visits.end("a")
        assert visits.inside == ["b"]
        await visits.end("b")

    asyncio.run(main())


def test_who_holds_some_does_not_wait_for_more() -> None:
    async def main() -> None:
        visits = Visits(Budget(100))
        await visits.begin("a", 60, 60)
        assert visits.inside == ["a"]
        await visits.begin("b", 1)
        assert visits.inside == ["a"]
        await visits.end("a")
        assert visits.inside == ["b"]
        await visits.end("b")

    asyncio.run(main())


def test_who_is_interrupted_leaves_the_line_and_the_room() -> None:
    async def main() -> None:
        visits = Visits(Budget(100))
        for name in "abc":
            await visits.begin(name, 80)
        await visits.interrupt("b")
        await visits.interrupt("a")
        assert visits.inside == ["c"]
        await visits.interrupt("c")
        await visits.begin("d", 100)
        assert visits.inside == ["d"]
        await visits.end("d")

    asyncio.run(main())


@pytest.mark.parametrize("answer", [WITH_LENGTH, WITHOUT], ids=["with a length", "without"])
def test_a_large_body_waits_for_room_and_its_deadline_with_it(answer: bytes) -> None:
    answers = {"/large": RawAnswer((answer,), Ending.CLOSES), "/small": RawAnswer((SMALL,), Ending.STAYS)}
    limits = FetchLimits(total=timedelta(seconds=1))

    async def main() -> None:
        budget = Budget(len(LARGE))
        async with RawServer(answers.__getitem__).listening() as server:
            client = HttpClient("Shoal-Test/1.0", guard_of_loopback(), budget=budget)
            visits = Visits(budget)
            await visits.begin("first", len(LARGE))
            large = asyncio.create_task(client.fetch(parse(server.link("/large")), {}, limits))
            small = await client.fetch(parse(server.link("/small")), {}, limits)
            assert small.wire_body == b"small"
            await asyncio.wait({large}, timeout=1.5)
            assert not large.done()
            await visits.end("first")
            assert (await large).wire_body == LARGE
            await client.close()

    asyncio.run(main())
