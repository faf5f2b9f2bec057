"""A connection is used again, but not after its server has said more than it was asked for."""

from __future__ import annotations

import asyncio

import pytest

from shoal.core.proxies import Proxy, read_proxy
from shoal.core.url import parse
from shoal.fetch.http import HttpClient
from shoal.fetch.port import FetchLimits
from tests.guards import guard_of_loopback
from tests.proxies import socks_proxy
from tests.raw_answers import SECOND, Ending, RawAnswer
from tests.raw_server import LATE_S, RawServer

FIRST = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nfirst"
GOOD = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngood"


def bodies(late: bytes, proxy: Proxy | None = None, first: bytes = FIRST) -> tuple[list[bytes], int]:
    """Of `/first`, behind which the late bytes come, and of `/good`; and how many connections that took."""
    answers = {"/first": RawAnswer((first,), Ending.STAYS, late), "/good": RawAnswer((GOOD,), Ending.STAYS)}

    async def main() -> tuple[list[bytes], int]:
        async with RawServer(answers.__getitem__).listening() as server:
            client = HttpClient("Shoal-Test/1.0", guard_of_loopback())
            found: list[bytes] = []
            for target in answers:
                response = await client.fetch(parse(server.link(target)), {}, FetchLimits(), proxy)
                found.append(response.wire_body)
                while server.sending:
                    await asyncio.sleep(LATE_S)
                await asyncio.sleep(0.05)  # and everything has come
            await client.close()
            return found, server.connections

    return asyncio.run(main())


def test_a_connection_is_used_again() -> None:
    assert bodies(b"") == ([b"first", b"good"], 1)


@pytest.mark.parametrize("late", [SECOND, b"HTTP/1.1 100 Continue\r\n\r\n", SECOND * 3, b"\0nonsense\r\n\r\n"])
def test_an_answer_that_nobody_asked_for_answers_nothing(late: bytes) -> None:
    assert bodies(late) == ([b"first", b"good"], 2)


@pytest.mark.parametrize("begun", [SECOND[:1], SECOND[:4], SECOND[:9], SECOND[:-1]])
def test_neither_does_the_beginning_of_one(begun: bytes) -> None:
    assert bodies(b"", first=FIRST + begun) == ([b"first", b"good"], 2)


@pytest.mark.parametrize("line", [b"Content-Length: 5", b"Transfer-Encoding: chunked"])
def test_nor_is_a_connection_used_again_on_which_a_body_was_promised_that_cannot_be(line: bytes) -> None:
    assert bodies(b"", first=b"HTTP/1.1 204 No Content\r\n" + line + b"\r\n\r\n") == ([b"", b"good"], 2)


def test_neither_does_it_through_a_proxy() -> None:
    with socks_proxy() as proxy:
        assert bodies(b"", read_proxy(proxy.url("socks5"))) == ([b"first", b"good"], 1)
        assert bodies(SECOND, read_proxy(proxy.url("socks5"))) == ([b"first", b"good"], 2)
