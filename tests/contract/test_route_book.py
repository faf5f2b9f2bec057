"""Which way pages of an `auto` job go: what one process learns, another one hears, and nobody asks in vain for long."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Generator
from contextlib import AsyncExitStack
from uuid import uuid4

import pytest

from shoal.core.model import Engine, Rejected, Request
from shoal.core.routes import CHECK_EVERY, PLAIN_PAGES
from shoal.core.spec import JobSpec
from shoal.core.url import Url, parse
from shoal.errors import RedisUnavailable
from shoal.frontier.frontier import Frontier
from shoal.worker import routes
from shoal.worker.routes import PROBES, RouteBook

JOB = "job"


def item(number: int) -> Url:
    return parse(f"http://shop.example/item/{number}")


@pytest.fixture
def frontier(valkey_url: str) -> Generator[Frontier]:
    frontier = Frontier.at(f"{valkey_url}?db=2", f"routes-{uuid4().hex[:8]}")
    frontier.create(JOB, JobSpec.model_validate({"engine": "auto"}))
    yield frontier
    frontier.close_connections()


def test_what_one_process_learns_another_one_hears(frontier: Frontier) -> None:
    one, other = RouteBook(frontier), RouteBook(frontier)
    assert (one.way(JOB, item(1)), other.way(JOB, item(1))) == (None, None)
    one.note(JOB, item(1), needed=True)
    assert one.way(JOB, item(2)) is Engine.BROWSER, "at once in the same process"
    assert one.is_due([JOB])
    one.sync([JOB])
    assert not one.is_due([JOB])
    assert one.is_due([JOB, "another"]), "who is new to a process may be known to others"
    other.sync([JOB])
    assert other.way(JOB, item(3)) is Engine.BROWSER
    assert other.way(JOB, parse("http://other.example/item/3")) is None
    one.sync([JOB])
    ((route,),) = [frontier.routes(JOB).values()]
    assert (route.browser, route.http) == (1, 0), "nothing is told twice"


def test_what_could_not_be_told_is_told_later(frontier: Frontier, monkeypatch: pytest.MonkeyPatch) -> None:
    book = RouteBook(frontier)
    book.note(JOB, item(1), needed=True)

    def down(*_: object) -> None:
        raise RedisUnavailable("down on purpose")

    with monkeypatch.context() as patch:
        patch.setattr(frontier, "note_routes", down)
        with pytest.raises(RedisUnavailable):
            book.sync([JOB])
    assert book.way(JOB, item(2)) is Engine.BROWSER
    book.sync([JOB])
    assert len(frontier.routes(JOB)) == 1


def test_a_job_that_is_not_worked_for_any_more_is_told_about_and_forgotten(frontier: Frontier) -> None:
    book = RouteBook(frontier)
    book.note(JOB, item(1), needed=True)
    book.sync([])
    assert len(frontier.routes(JOB)) == 1
    assert not book.is_due([]), "there is nobody to hear about"
    book.sync([JOB])
    assert book.way(JOB, item(2)) is Engine.BROWSER


def test_links_are_marked_whose_pages_need_it(frontier: Frontier) -> None:
    book = RouteBook(frontier)
    book.note(JOB, item(1), needed=True)
    about, out = Request(parse("http://shop.example/about")), Rejected(item(3), "denied")
    marked = book.marked(JOB, [Request(item(2), 4), about, out])
    assert marked == [Request(item(2), 4, render=True), about, out]


@pytest.mark.parametrize("hours", [-48, 48])
def test_a_worker_whose_clock_is_wrong_looks_at_no_page_again_before_its_time(
    frontier: Frontier, monkeypatch: pytest.MonkeyPatch, hours: int
) -> None:
    right = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: right() + hours * 3_600 * 10**9)
    one, other = RouteBook(frontier), RouteBook(frontier)
    one.note(JOB, item(1), needed=True)
    one.sync([JOB])
    other.sync([JOB])
    assert (one.way(JOB, item(2)), other.way(JOB, item(2))) == (Engine.BROWSER, Engine.BROWSER)


@pytest.mark.parametrize("hours", [0, -48, 48])
def test_after_an_hour_of_redis_clock_a_page_is_looked_at_again(
    frontier: Frontier, monkeypatch: pytest.MonkeyPatch, hours: int
) -> None:
    book, right, now = RouteBook(frontier), time.time_ns, frontier.audit.now_ms()
    monkeypatch.setattr(time, "time_ns", lambda: right() + hours * 3_600 * 10**9)
    book.note(JOB, item(1), needed=True)
    book.sync([JOB])
    assert book.way(JOB, item(2)) is Engine.BROWSER
    monkeypatch.setattr(frontier.audit, "now_ms", lambda: now + 3_600_001 + 60_000)
    book.sync([JOB])
    assert book.way(JOB, item(2)) is None


class Visits:
    """Visits to pages of one pattern, all at once; each ends when the test says so."""

    def __init__(self, book: RouteBook) -> None:
        self._book = book
        self.asked: list[int] = []
        """Without a browser."""
        self.handed: list[int] = []
        self._ends: dict[int, asyncio.Event] = {}
        self._tasks: list[asyncio.Task[None]] = []

    async def begin(self, count: int) -> None:
        self._tasks += [asyncio.create_task(self._visit(number)) for number in range(count)]
        await self.settle()

    async def _visit(self, number: int) -> None:
        async with self._book.turn(JOB, item(number)) as way:
            if way is Engine.BROWSER:
                self.handed.append(number)
                return
            self.asked.append(number)
            self._ends[number] = asyncio.Event()
            await self._ends[number].wait()

    async def end(self, number: int, *, needed: bool) -> None:
        self._book.note(JOB, item(number), needed=needed)
        self._ends[number].set()
        await self.settle()

    async def give_up(self, number: int) -> None:
        self._tasks[number].cancel()
        await self.settle()

    async def settle(self) -> None:
        for _ in range(100):
            await asyncio.sleep(0)

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def _with_visits(frontier: Frontier, test: Callable[[Visits, RouteBook], object]) -> None:
    async def run() -> None:
        book = RouteBook(frontier)
        async with AsyncExitStack() as stack:
            visits = Visits(book)
            stack.push_async_callback(visits.close)
            found = test(visits, book)
            if asyncio.iscoroutine(found):
                await found

    asyncio.run(run())


def test_of_pages_that_nobody_knows_a_few_go_first_and_the_others_follow_what_they_find(frontier: Frontier) -> None:
    async def test(visits: Visits, _book: RouteBook) -> None:
        await visits.begin(50)
        assert visits.asked == list(range(PROBES))
        await visits.end(0, needed=True)
        assert len(visits.handed) == 50 - PROBES, "nobody waits for the second"
        assert len(visits.asked) == PROBES

    _with_visits(frontier, test)


def test_once_pages_are_known_to_need_none_nobody_waits_any_more(frontier: Frontier) -> None:
    async def test(visits: Visits, _book: RouteBook) -> None:
        await visits.begin(50)
        for number in range(PLAIN_PAGES - 1):
            await visits.end(number, needed=False)
            assert len(visits.asked) == PROBES + number + 1
        await visits.end(PLAIN_PAGES - 1, needed=False)
        assert len(visits.asked) == 50

    _with_visits(frontier, test)


def test_a_page_that_came_to_nothing_leaves_its_turn_to_the_next(frontier: Frontier) -> None:
    async def test(visits: Visits, _book: RouteBook) -> None:
        await visits.begin(5)
        await visits.give_up(0)
        await visits.give_up(4)
        assert visits.asked == [0, 1, 2]

    _with_visits(frontier, test)


def test_when_pages_are_looked_at_again_it_is_a_few_of_them(frontier: Frontier) -> None:
    async def test(visits: Visits, book: RouteBook) -> None:
        for number in range(CHECK_EVERY):
            book.note(JOB, item(number), needed=True)
        await visits.begin(50)
        assert visits.asked == list(range(PROBES))
        await visits.end(0, needed=True)
        assert len(visits.handed) == 50 - PROBES

    _with_visits(frontier, test)


def test_pages_of_both_kinds_are_all_looked_at_without_waiting(frontier: Frontier) -> None:
    async def test(visits: Visits, book: RouteBook) -> None:
        book.note(JOB, item(1), needed=True)
        book.note(JOB, item(2), needed=False)
        await visits.begin(50)
        assert len(visits.asked) == 50

    _with_visits(frontier, test)


def test_nobody_waits_for_others_for_ever(frontier: Frontier, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routes, "PATIENCE_S", 0.05)

    async def test(visits: Visits, _book: RouteBook) -> None:
        await visits.begin(5)
        await asyncio.sleep(0.3)
        assert sorted(visits.asked) == list(range(5))
        for number in range(5):
            await visits.end(number, needed=False)
        await visits.begin(3)
        assert len(visits.asked) == 8

    _with_visits(frontier, test)


def test_a_site_of_nothing_but_strange_pages_leaves_no_turns_behind(frontier: Frontier) -> None:
    async def test(_visits: Visits, book: RouteBook) -> None:
        for first in "abcdefghij":
            for second in "abcdefghij":
                async with book.turn(JOB, parse(f"http://shop.example/{first}{second}")):
                    pass
        assert book.waiting == 0

    _with_visits(frontier, test)
