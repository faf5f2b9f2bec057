"""No connection leaves but to an address that was judged. A canary listens where nobody may go."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Generator
from datetime import timedelta
from itertools import cycle
from typing import TypeVar

import aiohttp
import pytest

from shoal.core.egress import Egress
from shoal.core.proxies import read_proxy
from shoal.core.url import Base, Url, parse
from shoal.errors import FetchError
from shoal.fetch import connectors, lookups
from shoal.fetch import guard as guards
from shoal.fetch.guard import Guard, Names
from shoal.fetch.http import HttpClient
from shoal.fetch.lookups import AT_ONCE_OF_DOMAIN, Lookups
from shoal.fetch.port import FetchLimits
from tests.canary import Canary, canary
from tests.proxies import http_proxy, socks_proxy

FREE, CAGE = "127.0.0.5", "127.0.0.6"
"""The one address that may be asked, and one that may not."""
LIMITS = FetchLimits()
T = TypeVar("T")


@pytest.fixture
def bird() -> Generator[Canary]:
    """Answers on several addresses of this machine; only FREE may be asked."""
    with canary("127.0.0.1", FREE, CAGE) as found:
        yield found


def _client(lookup: Callable[[str], list[str]] = lambda _: [CAGE]) -> HttpClient:
    return HttpClient("Shoal-Test/1.0", Guard(Egress.read(FREE), lookup))


async def _reason(client: HttpClient, url: Url | None, proxy: str = "", *, local: bool = False) -> str:
    """What becomes of a fetch: a status, or a reason."""
    assert url is not None
    try:
        through = read_proxy(proxy) if proxy else None
        return str((await client.fetch(url, {}, LIMITS, through, local=local)).status)
    except FetchError as exc:
        return exc.reason


def _run(client: Callable[[], HttpClient], what: Callable[[HttpClient], Awaitable[T]]) -> T:
    async def main() -> T:
        made = client()
        try:
            return await what(made)
        finally:
            await made.close()

    return asyncio.run(main())


HOSTS = (
    *("127.0.0.1", "127.0.0.6", "127.1", "2130706433", "0x7f000001", "0177.0.0.1", "127.0.0.1.", "0", "0.0.0.0"),
    *("①②⑦.⓪.⓪.①", "127。0。0。1", "%31%32%37.0.0.1", "[::1]", "[::]", "[::ffff:127.0.0.1]", "[::127.0.0.1]"),
    *("[64:ff9b::7f00:1]", "[2002:7f00:1::]", "[2001:0:808:808::80ff:fffe]", "[::ffff:0:127.0.0.1]"),
    *("localhost", "LOCALHOST", "localhost.", "shop.localhost", "books.example", "BOOKS.example."),
)
"""All the ways to write this machine, and names that lead there."""


@pytest.mark.parametrize("host", HOSTS)
def test_no_way_to_write_this_machine_leads_there(host: str, bird: Canary) -> None:
    url = Base("http://start.example/").join(f"http://{host}:{bird.port}/")
    assert _run(_client, lambda client: _reason(client, url)) == "blocked_address"
    assert bird.asked == []


@pytest.mark.parametrize("scheme", ["http", "socks5", "socks5h"])
@pytest.mark.parametrize("host", ["127.0.0.1", "[::ffff:127.0.0.1]", "books.example", "localhost"])
def test_nor_through_a_proxy(scheme: str, host: str, bird: Canary) -> None:
    make = http_proxy if scheme == "http" else socks_proxy
    with make(hosts={"books.example": bird.port}) as proxy:
        url = Base("http://start.example/").join(f"http://{host}:{bird.port}/")
        assert _run(_client, lambda client: _reason(client, url, proxy.url(scheme))) == "blocked_address"
        assert (proxy.passed, bird.asked) == ([], [])


@pytest.mark.parametrize("scheme", ["http", "socks5h"])
def test_a_proxy_that_looks_names_up_gets_none_of_which_one_address_is_forbidden(scheme: str, bird: Canary) -> None:
    make = http_proxy if scheme == "http" else socks_proxy
    with make(hosts={"mixed.example": bird.port}) as proxy:
        url = parse(f"http://mixed.example:{bird.port}/")
        assert (
            _run(lambda: _client(lambda _: [FREE, CAGE]), lambda it: _reason(it, url, proxy.url(scheme)))
            == "blocked_address"
        )
        assert (proxy.passed, bird.asked) == ([], [])


@pytest.mark.parametrize("scheme", ["http", "socks5", "socks5h"])
def test_a_proxy_is_nowhere_where_nobody_is(scheme: str, bird: Canary) -> None:
    url = parse(f"http://{FREE}:{bird.port}/")
    assert _run(_client, lambda it: _reason(it, url, f"{scheme}://0.0.0.0:{bird.port}")) == "blocked_address"
    assert bird.asked == []


def test_a_socks_proxy_that_is_not_to_look_names_up_gets_a_judged_address(bird: Canary) -> None:
    with socks_proxy() as proxy:
        url = parse(f"http://books.example:{bird.port}/")
        answer = _run(lambda: _client(lambda _: [CAGE, FREE]), lambda it: _reason(it, url, proxy.url("socks5")))
    assert (answer, bird.asked) == ("200", [FREE])
    assert proxy.passed == [f"CONNECT {FREE}:{bird.port}"]


def test_of_several_addresses_only_those_that_may_be_asked_are(bird: Canary) -> None:
    url = parse(f"http://books.example:{bird.port}/")
    assert _run(lambda: _client(lambda _: [CAGE, FREE, "10.0.0.1"]), lambda it: _reason(it, url)) == "200"
    assert bird.asked == [FREE]


@pytest.mark.parametrize("keep_s", [60.0, 0.0])
def test_a_name_that_changes_between_look_and_leap_leads_nowhere_else(
    keep_s: float, bird: Canary, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rebinding: each time that it is asked, the name server says something else."""
    monkeypatch.setattr(guards, "KEEP_S", keep_s)
    answers = cycle([[FREE], [FREE], [CAGE], [CAGE, FREE], ["127.0.0.1"]])
    url = parse(f"http://rebind.example:{bird.port}/")

    async def often(client: HttpClient) -> set[str]:
        return {await _reason(client, url) for _ in range(40)}

    found = _run(lambda: _client(lambda _: next(answers)), often)
    assert found <= {"200", "blocked_address"}
    assert set(bird.asked) == {FREE}


def test_the_last_gate_stops_whoever_went_around_the_others(bird: Canary) -> None:
    async def around() -> None:
        guard = Guard(Egress.read(FREE), lambda _: [FREE])
        async with aiohttp.ClientSession(connector=connectors.to_hosts(guard)) as session:
            async with session.get(f"http://books.example:{bird.port}/") as answer:
                assert answer.status == 200
            with pytest.raises(FetchError, match="blocked_address"):
                await session.get(f"http://{CAGE}:{bird.port}/")
        guard.close()

    asyncio.run(around())
    assert bird.asked == [FREE]


def test_who_may_ask_this_machine_shares_no_connection_with_who_may_not(bird: Canary) -> None:
    url = parse(f"http://127.0.0.1:{bird.port}/")

    async def both(client: HttpClient) -> list[str]:
        return [await _reason(client, url, local=local) for local in (True, False, True)]

    assert _run(_client, both) == ["200", "blocked_address", "200"]
    assert bird.asked == ["127.0.0.1"] * 2


def test_a_refusal_says_what_is_wrong_and_who_can_change_it() -> None:
    async def main() -> FetchError:
        with pytest.raises(FetchError) as caught:
            await Guard(Egress(), lambda _: ["10.1.2.3"]).check("wiki.example")
        return caught.value

    detail = asyncio.run(main()).detail
    assert "wiki.example (10.1.2.3) is not on the internet (private)" in detail
    assert "SHOAL_EGRESS_ALLOW" in detail


# --- names ----------------------------------------------------------------------------------------------------------


class _Book:
    """Knows names, and counts who asks."""

    def __init__(self, answer: list[str] | Exception) -> None:
        self.answer = answer
        self.asked = 0

    def __call__(self, _name: str) -> list[str]:
        self.asked += 1
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


async def _find(names: Names, name: str = "books.example") -> str:
    try:
        return ",".join(await names.find(name))
    except FetchError as exc:
        return exc.reason


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        (["8.8.8.8"], "8.8.8.8"),
        (socket.gaierror(socket.EAI_NONAME, "unknown"), "dns_not_found"),
        (socket.gaierror(socket.EAI_AGAIN, "later"), "dns_failed"),
        (OSError("broken"), "dns_failed"),
        (UnicodeError("label too long"), "dns_not_found"),
    ],
)
def test_a_name_is_looked_up_once_for_all_who_ask(answer: list[str] | Exception, found: str) -> None:
    async def main() -> tuple[set[str], int]:
        book = _Book(answer)
        names = Names(book)
        together = await asyncio.gather(*(_find(names) for _ in range(20)))
        return {*together, await _find(names)}, book.asked

    assert asyncio.run(main()) == ({found}, 1)


@pytest.mark.parametrize(
    ("setting", "answer"),
    [("KEEP_S", ["8.8.8.8"]), ("KEEP_MISS_S", socket.gaierror(socket.EAI_NONAME, "unknown"))],
)
def test_it_is_looked_up_again_after_a_while(
    setting: str, answer: list[str] | Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guards, setting, 0.0)

    async def main() -> int:
        book = _Book(answer)
        names = Names(book)
        await _find(names)
        await _find(names)
        return book.asked

    assert asyncio.run(main()) == 2


def test_who_gives_up_takes_the_answer_from_nobody() -> None:
    async def main() -> str:
        names = Names(lambda _: ["8.8.8.8"])
        first, second = (asyncio.create_task(_find(names)) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        return await second

    assert asyncio.run(main()) == "8.8.8.8"


class _Hanging:
    """A name server that does not answer for some names until it is let go."""

    def __init__(self, hangs: Callable[[str], bool]) -> None:
        self._hangs = hangs
        self.open = threading.Event()
        self.asked: list[str] = []

    def __call__(self, name: str) -> list[str]:
        self.asked.append(name)
        if self._hangs(name):
            assert self.open.wait(60)
        return ["8.8.8.8"]


@pytest.fixture
def hanging() -> Generator[_Hanging]:
    found = _Hanging(lambda name: not name.startswith("innocent"))
    yield found
    found.open.set()


def test_a_name_server_that_says_nothing_is_not_waited_for_for_ever(
    hanging: _Hanging, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guards, "LOOKUP_S", 0.05)

    async def main() -> list[str]:
        names = Names(hanging)
        found = [await _find(names), await _find(names)]
        hanging.open.set()
        await _until(lambda: names.good_until("books.example") > 0)
        return [*found, await _find(names)]

    assert asyncio.run(main()) == ["dns_failed", "dns_failed", "8.8.8.8"]
    assert hanging.asked == ["books.example"]  # an answer that comes late is an answer


async def _until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not true():
            await asyncio.sleep(0.01)


def test_a_domain_whose_names_hang_keeps_nobody_else_waiting(
    hanging: _Hanging, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guards, "LOOKUP_S", 1.0)

    async def main() -> tuple[str, list[str]]:
        names = Names(hanging)
        stuck = [asyncio.create_task(_find(names, f"{number}.evil.example")) for number in range(64)]
        await asyncio.sleep(0)
        found = await _find(names, "innocent.example")
        asked = list(hanging.asked)
        hanging.open.set()
        assert set(await asyncio.gather(*stuck)) == {"8.8.8.8"}
        return found, asked

    found, asked = asyncio.run(main())
    assert found == "8.8.8.8"
    assert len([name for name in asked if name.endswith(".evil.example")]) <= AT_ONCE_OF_DOMAIN
    assert len(hanging.asked) == 65


def test_many_domains_whose_names_hang_are_set_aside(hanging: _Hanging, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookups, "HANGS_S", 0.05)
    monkeypatch.setattr(lookups, "IN_LINE_S", 10.0)

    async def main() -> str:
        names = Names(hanging)
        stuck = [asyncio.create_task(_find(names, f"www.evil{number}.example")) for number in range(200)]
        await asyncio.sleep(0)
        found = await _find(names, "innocent.example")
        assert len(hanging.asked) == 201
        hanging.open.set()
        assert set(await asyncio.gather(*stuck)) == {"8.8.8.8"}
        return found

    assert asyncio.run(main()) == "8.8.8.8"


def test_lookups_that_hang_have_a_number_of_threads(hanging: _Hanging, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookups, "HANGS_S", 0.02)
    monkeypatch.setattr(lookups, "IN_LINE_S", 0.5)
    monkeypatch.setattr(lookups, "MAX_THREADS", 40)

    async def main() -> list[str]:
        names = Names(hanging)
        stuck = [asyncio.create_task(_find(names, f"www.evil{number}.example")) for number in range(50)]
        await asyncio.sleep(0)
        found = await _find(names, "innocent.example")
        asked = len(hanging.asked)
        hanging.open.set()
        await asyncio.gather(*stuck)
        return [found, str(asked)]

    assert asyncio.run(main()) == ["dns_failed", "40"]


def test_the_deadline_of_a_fetch_holds_for_its_name_too(hanging: _Hanging) -> None:
    async def main() -> tuple[str, float]:
        client = HttpClient("Shoal-Test/1.0", Guard(Egress(), hanging))
        started = time.monotonic()
        with pytest.raises(FetchError) as caught:
            await client.fetch(parse("http://hangs.example/"), {}, FetchLimits(total=timedelta(seconds=0.1)))
        took = time.monotonic() - started
        await client.close()
        return caught.value.reason, took

    reason, took = asyncio.run(main())
    assert reason == "timeout_total"
    assert took < guards.LOOKUP_S


def test_a_names_time_begins_when_it_is_asked_for_and_not_in_line(
    hanging: _Hanging, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guards, "LOOKUP_S", 0.05)
    monkeypatch.setattr(lookups, "AT_ONCE", 2)

    async def main() -> tuple[list[str], str]:
        names = Names(hanging)
        stuck = [asyncio.create_task(_find(names, f"{number}.example")) for number in range(2)]
        await asyncio.sleep(0)
        innocent = asyncio.create_task(_find(names, "innocent.example"))
        failed = await asyncio.gather(*stuck)
        hanging.open.set()
        return failed, await innocent

    assert asyncio.run(main()) == (["dns_failed"] * 2, "8.8.8.8")


def test_nobody_stands_in_line_for_ever(hanging: _Hanging, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookups, "AT_ONCE", 1)
    monkeypatch.setattr(lookups, "IN_LINE_S", 0.05)

    async def main() -> list[str]:
        names = Names(hanging)
        stuck = asyncio.create_task(_find(names, "hangs.example"))
        await asyncio.sleep(0)
        found = [await _find(names, "innocent.example")]
        hanging.open.set()
        return [*found, await stuck, await _find(names, "innocent.other")]

    assert asyncio.run(main()) == ["dns_failed", "8.8.8.8", "8.8.8.8"]
    assert hanging.asked == ["hangs.example", "innocent.other"]


def test_who_ends_while_in_line_leaves_it(hanging: _Hanging, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookups, "AT_ONCE", 1)

    async def main() -> list[str]:
        line = Lookups(hanging)
        await line.turn("hangs.example")
        first = line.ask("hangs.example")
        waiting = asyncio.create_task(line.turn("gone.example"))
        await asyncio.sleep(0)
        waiting.cancel()
        hanging.open.set()
        await first
        await asyncio.gather(waiting, return_exceptions=True)
        await line.turn("innocent.example")
        return await line.ask("innocent.example")

    assert asyncio.run(main()) == ["8.8.8.8"]


def test_a_process_that_ends_does_not_wait_for_a_name_server() -> None:
    code = """
import asyncio, time
from shoal.fetch.guard import Names
async def main():
    asyncio.create_task(Names(lambda _: time.sleep(600)).find("hangs.example"))
    await asyncio.sleep(0.1)
asyncio.run(main())
"""
    subprocess.run([sys.executable, "-c", code], timeout=60, check=True)


def test_memory_of_names_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guards, "MAX_NAMES", 5)

    async def main() -> int:
        book = _Book(["8.8.8.8"])
        names = Names(book)
        for number in [*range(6), 0]:
            await _find(names, f"{number}.example")
        return book.asked

    assert asyncio.run(main()) == 7
