"""Pages read in place or apart, with the same findings; what reads apart is bounded, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import gzip
import os
import signal
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any, TypeVar

import psutil
import pytest
import uvloop

from shoal.core.url import parse
from shoal.errors import FetchError, Unavailable
from shoal.extract import apart
from shoal.extract.findings import Findings, Wanted, find
from shoal.extract.weight import LIGHT_BYTES
from shoal.fetch.port import Response
from shoal.worker import reader as reader_module
from shoal.worker.reader import UNPACKED_IN_PLACE, Reader

T = TypeVar("T")

WANTED = Wanted(
    "http://h.example/a/b",
    "utf-8",
    links=True,
    directives=True,
    extraction='{"fields": {"title": "h1", "all[]": "p", "none": "q", "image": "img@src"}}',
)
PAGE = (
    "<base href=/z/><link rel=canonical href=c><meta name=robots content=nofollow><h1>Übergröße \udc80 \x01</h1>"
    "<p>1<p>2<img src=i.png><a href=x><a href='ü'>"
).encode("utf-8", "replace")
LARGE = PAGE + b" " * LIGHT_BYTES
NESTED = b"<div>" * 100_000


def run(work: Coroutine[Any, Any, T]) -> T:
    return uvloop.run(work)


async def read(*bodies: bytes, wanted: Wanted = WANTED) -> tuple[list[Findings], int]:
    reader = Reader()
    try:
        return [await reader.read(body, wanted) for body in bodies], reader.apart
    finally:
        await reader.end()


def helpers() -> list[psutil.Process]:
    return [child for child in psutil.Process().children() if "shoal.extract.apart" in child.cmdline()]


def test_in_place_and_apart_find_the_same() -> None:
    (small, large, again), read_apart = run(read(PAGE, LARGE, LARGE))
    assert small == large == again == find(PAGE, WANTED)
    assert (small.base, small.canonical, small.metas, small.hrefs) == ("/z/", "c", ("nofollow",), ("x", "ü", "c"))
    assert small.items[0]["image"] == "http://h.example/z/i.png"
    assert read_apart == 2


def test_who_cannot_wait_in_a_loop_reads_apart_too() -> None:
    assert apart.find_apart(LARGE, WANTED) == find(LARGE, WANTED)


def test_a_page_in_another_charset_is_read_apart_as_well() -> None:
    body = "<h1>Übergröße</h1>".encode("utf-16") + " ".encode("utf-16-le") * LIGHT_BYTES
    wanted = Wanted(WANTED.url, "utf-16", extraction=WANTED.extraction)
    (found,), read_apart = run(read(body, wanted=wanted))
    assert (found.items[0]["title"], read_apart) == ("Übergröße", 1)


def test_a_page_that_takes_too_long_is_given_up_and_the_next_one_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apart, "WALL_S", 0.3)

    async def work() -> Findings:
        reader = Reader()
        await reader.read(LARGE, WANTED)  # it has come up by now
        with pytest.raises(FetchError, match="too_complex"):
            await reader.read(NESTED, WANTED)
        assert helpers() == []
        monkeypatch.undo()
        found = await reader.read(LARGE, WANTED)
        await reader.end()
        return found

    assert run(work()) == find(PAGE, WANTED)
    assert helpers() == []


def test_the_process_ends_itself_when_a_page_takes_too_much_of_the_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apart, "CPU_S", 0.5)
    with pytest.raises(FetchError, match=r"took more than 0\.5 s"):
        apart.find_apart(NESTED, WANTED)


def test_a_page_that_takes_too_much_memory_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tag takes about 150 bytes, and so do so many more than the process may have."""
    monkeypatch.setattr(apart, "MEMORY", 200 << 20)
    with pytest.raises(FetchError, match="too_complex") as caught:
        apart.find_apart(b"<p>x" * 2_000_000, Wanted(WANTED.url, "utf-8", links=True))
    assert "took more than" in caught.value.detail or "ended with" in caught.value.detail


def of_host(host: str) -> Wanted:
    return replace(WANTED, url=f"http://{host}/a/b")


async def _ends(*pages: tuple[bytes, str]) -> list[str]:
    """Hosts in the order in which their pages, brought all at once, are done."""
    reader, ended = Reader(), list[str]()

    async def one(body: bytes, host: str) -> None:
        with suppress(FetchError):
            await reader.read(body, of_host(host))
        ended.append(host)

    async with asyncio.TaskGroup() as group:
        for body, host in pages:
            group.create_task(one(body, host))
    await reader.end()
    return ended


def test_pages_of_one_site_that_all_take_long_keep_others_waiting_for_one_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(apart, "CPU_S", 1.5)
    evil = [(NESTED, f"www{number}.evil.example") for number in range(6)]
    ended = run(_ends(*evil, (LARGE, "a.example"), (LARGE, "b.example"), (LARGE, "a.example")))
    assert ended[:3] == ["a.example", "b.example", "a.example"]
    assert len(ended) == 9


def test_many_sites_whose_pages_all_take_long_keep_others_waiting_for_a_moment_of_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And those that are known to take long not even for that."""
    monkeypatch.setattr(reader_module, "SOON_CPU_S", 0.1)

    async def work() -> list[str]:
        reader, ended = Reader(), list[str]()

        async def one(body: bytes, host: str) -> None:
            with suppress(FetchError):
                await reader.read(body, of_host(host))
            ended.append(host)

        async with asyncio.TaskGroup() as group:
            evil = [group.create_task(one(NESTED, f"www.evil{number % 4}.example")) for number in range(8)]
            await asyncio.sleep(0)
            await one(LARGE, "a.example")
            await one(LARGE, "b.example")
            for task in evil:
                task.cancel()
        await reader.end()
        return ended

    assert run(work()) == ["a.example", "b.example"]
    assert helpers() == []


def test_a_page_beyond_all_bounds_is_not_even_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apart, "MAX_READ", len(LARGE))
    reader = Reader()
    with pytest.raises(FetchError, match="too_complex: a page of"):
        run(reader.read(LARGE + b" ", WANTED))
    assert reader.apart == 0
    with pytest.raises(FetchError, match="too_complex: a page of"):
        apart.find_apart(LARGE + b" ", WANTED)
    assert apart.find_apart(LARGE, WANTED) == find(PAGE, WANTED)


def test_a_process_that_is_killed_in_the_middle_of_a_page_is_replaced() -> None:
    async def work() -> Findings:
        reader = Reader()
        await reader.read(LARGE, WANTED)
        (helper,) = helpers()
        asyncio.get_running_loop().call_later(0.2, helper.kill)
        with pytest.raises(FetchError, match="too_complex: its reader ended with -9"):
            await reader.read(NESTED, WANTED)
        found = await reader.read(LARGE, WANTED)
        await reader.end()
        return found

    assert run(work()) == find(PAGE, WANTED)
    assert helpers() == []


def test_who_is_interrupted_leaves_no_answer_for_the_next_one() -> None:
    async def work() -> Findings:
        reader = Reader()
        await reader.read(LARGE, WANTED)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reader.read(NESTED, WANTED), 0.2)
        found = await reader.read(LARGE, WANTED)
        await reader.end()
        return found

    assert run(work()) == find(PAGE, WANTED)


def test_signals_for_the_worker_do_not_end_the_process() -> None:
    async def work() -> None:
        reader = Reader()
        await reader.read(LARGE, WANTED)
        (helper,) = helpers()
        assert os.getsid(helper.pid) != os.getsid(0)
        helper.send_signal(signal.SIGINT)
        helper.send_signal(signal.SIGTERM)
        await reader.read(LARGE, WANTED)
        assert helpers() == [helper]
        await reader.end()

    run(work())


def test_the_process_is_told_nothing_but_where_the_modules_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOAL_SECRET", "x")

    async def work() -> dict[str, str]:
        reader = Reader()
        await reader.read(LARGE, WANTED)
        (helper,) = helpers()
        told = helper.environ()
        await reader.end()
        return told

    assert "SHOAL_SECRET" not in run(work())


def test_a_process_that_cannot_be_started_is_trouble_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apart, "COMMAND", ("/nonexistent",))
    with pytest.raises(Unavailable):
        run(read(LARGE))
    monkeypatch.setattr(apart, "COMMAND", ("/bin/true",))
    with pytest.raises(Unavailable):
        run(read(LARGE))


def _response(size: int) -> Response:
    headers = ((b"content-encoding", b"gzip"), (b"content-type", b"text/html"))
    return Response(parse("http://h.example/"), 200, "OK", headers, gzip.compress(b"x" * size), timedelta())


def test_large_bodies_are_unpacked_under_the_same_cap() -> None:
    large = UNPACKED_IN_PLACE * 2
    assert run(Reader().unpack(_response(10), 20)) == (b"x" * 10, "utf-8")
    assert run(Reader().unpack(_response(large), large)) == (b"x" * large, "utf-8")
    for size, cap in ((21, 20), (large + 1, large)):
        with pytest.raises(FetchError, match="too_large"):
            run(Reader().unpack(_response(size), cap))
