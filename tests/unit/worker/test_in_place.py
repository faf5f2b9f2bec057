"""Light pages are read together: each gets what is its own, whatever becomes of its neighbours."""

from __future__ import annotations

import asyncio

import pytest
import uvloop

from shoal.errors import FetchError
from shoal.extract.findings import Findings, Wanted
from shoal.extract.weight import Weight
from shoal.worker import in_place
from shoal.worker.in_place import TOGETHER, InPlace

WANTED = Wanted("http://h.example/a", "utf-8", links=True)
HEAVY = b"<div>" * 100_000


def page(number: int) -> bytes:
    return b"<a href=/%d>" % number


def hrefs(found: Findings | BaseException | None) -> tuple[str, ...]:
    assert isinstance(found, Findings)
    return found.hrefs


async def read_all(*bodies: bytes) -> list[Findings | BaseException | None]:
    place = InPlace()
    return await asyncio.gather(*(place.read(body, WANTED) for body in bodies), return_exceptions=True)


def test_each_of_many_pages_gets_its_own_links() -> None:
    many = 3 * TOGETHER + 1
    found = uvloop.run(read_all(*map(page, range(many))))
    assert [hrefs(each) for each in found] == [(f"/{number}",) for number in range(many)]


def test_a_heavy_page_is_left_to_others_and_its_neighbours_are_read() -> None:
    first, heavy, last = uvloop.run(read_all(page(1), HEAVY, page(2)))
    assert (hrefs(first), heavy, hrefs(last)) == (("/1",), None, ("/2",))


@pytest.mark.parametrize("error", [FetchError("too_complex", "for the test"), ValueError("a fault of ours")])
def test_a_page_that_cannot_be_read_fails_alone(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    real = in_place.find_light

    def fail_for_some(body: bytes, wanted: Wanted, *, weight: Weight) -> Findings | None:
        if body == page(1):
            raise error
        return real(body, wanted, weight=weight)

    monkeypatch.setattr(in_place, "find_light", fail_for_some)
    before, failed, after = uvloop.run(read_all(page(0), page(1), page(2)))
    assert (hrefs(before), failed, hrefs(after)) == (("/0",), error, ("/2",))


def test_a_page_that_cannot_be_weighed_fails_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_wanted: Wanted, body: bytes) -> bool:
        raise ValueError(body.decode())

    monkeypatch.setattr(Wanted, "weigh", fail)
    found = uvloop.run(read_all(page(0), page(1)))
    assert [str(each) for each in found] == [page(0).decode(), page(1).decode()]


def test_whoever_is_interrupted_holds_up_nobody() -> None:
    async def interrupt_one() -> Findings | None:
        place = InPlace()
        first, second = (asyncio.ensure_future(place.read(page(number), WANTED)) for number in (1, 2))
        await asyncio.sleep(0)
        first.cancel()
        async with asyncio.timeout(10):
            return await second

    assert hrefs(uvloop.run(interrupt_one())) == ("/2",)


def test_others_have_their_turn_between_many_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_place, "PAUSE_S", 1e-9)
    monkeypatch.setattr(in_place, "TOGETHER", 1)

    async def count_turns() -> int:
        place, turns = InPlace(), 0
        reads = asyncio.gather(*(place.read(page(number), WANTED) for number in range(20)))
        while not reads.done():
            turns += 1
            await asyncio.sleep(0)
        return turns

    assert uvloop.run(count_turns()) >= 20


def test_the_next_loop_is_not_kept_waiting_for_pages_of_the_last_one() -> None:
    place = InPlace()

    async def leave_behind() -> None:
        task = asyncio.ensure_future(place.read(page(1), WANTED))
        await asyncio.sleep(0)
        task.cancel()
        place.end()

    async def read_one() -> Findings | None:
        async with asyncio.timeout(10):
            return await place.read(page(2), WANTED)

    uvloop.run(leave_behind())
    assert hrefs(uvloop.run(read_one())) == ("/2",)
