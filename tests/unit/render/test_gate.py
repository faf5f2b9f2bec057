"""The gate: what it lets pass, whom it leads to, and what it counts."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from datetime import timedelta
from itertools import cycle
from typing import Any, TypeVar

import pytest
import uvloop

from shoal.render import call
from shoal.render import gate as gates
from shoal.render.account import Tally
from shoal.render.gate import Terms
from shoal.render.pace import Pace
from tests.canary import canary
from tests.unit.render.hosts import Browser, Host, ask, gate, host, reason_in, until

T = TypeVar("T")


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"], autouse=True)
def each_loop(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers run on the faster one, where it is installed."""
    monkeypatch.setitem(globals(), "_new_loop", request.param)


_new_loop: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop


def _run(work: Coroutine[Any, Any, T]) -> T:
    with asyncio.Runner(loop_factory=_new_loop) as runner:
        return runner.run(work)


def _terms(found: Host, **more: Any) -> Terms:
    return Terms(local=frozenset({found.place}), **more)


def _get(found: Host, path: str = "/", *fields: str) -> tuple[str, ...]:
    return (f"GET http://{found.place}{path} HTTP/1.1", f"Host: {found.place}", *fields)


def test_a_plain_request_reaches_its_host_without_what_is_for_proxies() -> None:
    async def main() -> Host:
        async with host() as found, gate(_terms(found)) as made:
            asked = _get(found, "/a?b=%41&c=", "Proxy-Connection: keep-alive", "Connection: x-own", "X-Own: 1", "Y: 2")
            assert (await ask(made, *asked)).endswith(b"GET /a?b=%41&c= HTTP/1.1")
            return found

    found = _run(main())
    assert found.heads == [f"GET /a?b=%41&c= HTTP/1.1\r\nHost: {found.place}\r\nY: 2\r\n\r\n"]


def test_the_host_is_told_the_name_of_the_target_and_no_other() -> None:
    async def main() -> list[str]:
        async with host() as found, gate(_terms(found)) as made:
            await ask(made, f"GET http://{found.place}/ HTTP/1.1", "Host: bank.example", "Host: other.example")
            return found.heads

    assert "example" not in _run(main())[0]


def test_a_tunnel_carries_bytes_both_ways() -> None:
    size = 3_000_000
    over: list[bool] = []

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(100_000):
            writer.write(data)
            await writer.drain()
        writer.close()
        over.append(True)

    async def main() -> Tally:
        server = await asyncio.start_server(echo, "127.0.0.1", 0)
        place = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with gate(Terms(local=frozenset({place}))) as made:
            browser = await Browser.connect(made)
            browser.say(f"CONNECT {place} HTTP/1.1", f"Host: {place}", body=b"first")
            assert (await browser.hear()).startswith(b"HTTP/1.1 200")
            assert await browser.reader.readexactly(5) == b"first"
            data = bytes(range(256)) * (size // 256)
            browser.writer.write(data)
            assert await browser.reader.readexactly(len(data)) == data
            browser.close()
            server.close()
            await until(lambda: bool(over))
            return made.end()

    tally = _run(main())
    assert (tally.connections, tally.requests, tally.refused) == (1, 1, 0)
    assert tally.sent == tally.received == size // 256 * 256 + 5


def test_requests_to_one_host_share_a_connection() -> None:
    async def main() -> tuple[int, list[bytes]]:
        async with host() as found, gate(_terms(found)) as made:
            browser = await Browser.connect(made)
            browser.say(
                f"POST http://{found.place}/1 HTTP/1.1", "Content-Length: 26", body=b"GET /evil HTTP/1.1\r\n\r\n1234"
            )
            await browser.hear()
            browser.say(*_get(found, "/2"))
            await browser.hear()
            browser.close()
            assert [line.split(" ")[1] for line in found.heads] == ["/1", "/2"]
            return found.connections, found.bodies

    assert _run(main()) == (1, [b"GET /evil HTTP/1.1\r\n\r\n1234", b""])


def test_a_second_request_on_a_connection_never_reaches_another_host() -> None:
    async def main() -> None:
        async with host() as first, host() as second:
            terms = Terms(local=frozenset({first.place, second.place}))
            async with gate(terms) as made:
                for line in (f"GET http://{second.place}/ HTTP/1.1", f"CONNECT {second.place} HTTP/1.1"):
                    browser = await Browser.connect(made)
                    browser.say(*_get(first))
                    await browser.hear()
                    browser.say(line)
                    assert await browser.hear_all() == b""
                    browser.close()
                assert len(first.heads) == 2
                assert second.connections == 0

    _run(main())


REFUSED = (
    *("GET / HTTP/1.1", "GET ftp://127.0.0.1/ HTTP/1.1", "GET https://127.0.0.1/ HTTP/1.1", "GET file:///etc HTTP/1.1"),
    *("GET http://user@127.0.0.1/ HTTP/1.1", "GET http://127.0.0.1\\@x/ HTTP/1.1", "GET http://127.1/ HTTP/1.1"),
    *("GET http://2130706433/ HTTP/1.1", "GET http://%31.0.0.1/ HTTP/1.1", "GET http://h:0/ HTTP/1.1"),
    *(
        "GET http://h:65536/ HTTP/1.1",
        "GET http://h:/ HTTP/1.1",
        "GET http:///x HTTP/1.1",
        "GET http://h/a\\b HTTP/1.1",
    ),
    *("CONNECT h HTTP/1.1", "CONNECT h:0 HTTP/1.1", "CONNECT h:99999 HTTP/1.1", "CONNECT u@h:443 HTTP/1.1"),
    *("CONNECT 0x7f000001:443 HTTP/1.1", "CONNECT [::1]443 HTTP/1.1", "CONNECT h:443/x HTTP/1.1"),
    *("CONNECT \u2460.0.0.1:443 HTTP/1.1", "GET http://h/ HTTP/1.0", "GET  http://h/ HTTP/1.1", "get", ""),
    *("TRACE http://h/ HTTP/1.1", "GET http://h/\x01 HTTP/1.1", "GET http://h/ HTTP/2"),
)
REFUSED_FIELDS = (
    ("Content-Length: 3", "Transfer-Encoding: chunked"),
    ("Transfer-Encoding: chunked",),
    ("Content-Length: 3", "Content-Length: 3"),
    ("Content-Length: +3",),
    ("Content-Length: 3, 3",),
    ("Connection: content-length", "Content-Length: 3"),
    ("A: 1", " folded"),
    ("A : 1",),
    ("A: 1\nB: 2",),
    ("A: 1\rB: 2",),
    ("A: \x00",),
    ("no colon",),
    tuple(f"A{n}: 1" for n in range(101)),
)


@pytest.mark.parametrize("line", REFUSED)
def test_a_request_that_can_be_doubted_reaches_nobody(line: str) -> None:
    async def main() -> str:
        with canary("127.0.0.1") as bird:
            async with gate(Terms(), allow="127.0.0.1") as made:
                line_ = line.replace("h/", f"127.0.0.1:{bird.port}/")
                answer = await ask(made, line_.encode("utf-8").decode("latin-1"))
                assert made.end().requests == 0
            assert bird.asked == []
            return reason_in(answer)

    assert _run(main()) in ("bad_url", "bad_http")


@pytest.mark.parametrize("fields", REFUSED_FIELDS)
def test_headers_that_two_could_read_differently_reach_nobody(fields: tuple[str, ...]) -> None:
    async def main() -> str:
        async with host() as found, gate(_terms(found)) as made:
            answer = await ask(made, *_get(found, "/", *fields))
            assert found.connections == 0
            return reason_in(answer)

    assert _run(main()) == "bad_http"


def test_a_head_without_an_end_is_refused_and_one_that_trickles_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call, "HEAD_S", 0.05)
    monkeypatch.setattr(gates, "LOOK_S", 0.01)

    async def main() -> None:
        async with host() as found, gate(_terms(found)) as made:
            browser = await Browser.connect(made)
            browser.writer.write(b"GET " + b"a" * 70_000)
            assert reason_in(await browser.hear_all()) in ("bad_http", "")
            await until(lambda: made.tally.refused == 1)
            slow = await Browser.connect(made)
            slow.writer.write(b"GET http://")
            assert await slow.hear_all() == b""
            browser.close()
            slow.close()

    _run(main())


@pytest.mark.parametrize("line", ["GET http://{}/ HTTP/1.1", "CONNECT {} HTTP/1.1"])
@pytest.mark.parametrize(
    "name", ["127.0.0.1", "[::1]", "localhost", "0.0.0.0", "[::]", "[::ffff:127.0.0.1]", "books.example", "10.0.0.1"]
)
def test_what_the_guard_refuses_is_not_connected_to(line: str, name: str) -> None:
    async def main() -> tuple[str, str, list[str]]:
        with canary("127.0.0.1", "::1") as bird:
            async with gate(Terms(local=frozenset({f"127.0.0.1:{bird.port + 1}"}))) as made:
                answer = await ask(made, line.format(f"{name}:{bird.port}"))
                refusal = made.refusal_of(name, bird.port)
                assert made.refusal_of(name, bird.port + 1) is None
                assert made.end().refused == 1
            return reason_in(answer), refusal.reason if refusal else "", bird.asked

    assert _run(main()) == ("blocked_address", "blocked_address", [])


def test_a_name_that_changes_its_mind_leads_only_to_judged_addresses() -> None:
    answers = cycle([["127.0.0.5"], ["127.0.0.6"]])

    async def main() -> list[str]:
        with canary("127.0.0.5", "127.0.0.6") as bird:
            async with gate(Terms(), allow="127.0.0.5", lookup=lambda _: next(answers)) as made:
                for _ in range(5):
                    await ask(made, f"GET http://rebind.example:{bird.port}/ HTTP/1.1")
            return bird.asked

    assert _run(main()) == ["127.0.0.5"] * 5


def test_of_many_addresses_only_judged_ones_are_connected_to() -> None:
    async def main() -> list[str]:
        with canary("127.0.0.5", "127.0.0.6") as bird:
            async with gate(Terms(), allow="127.0.0.5", lookup=lambda _: ["127.0.0.6", "127.0.0.5"]) as made:
                await ask(made, f"GET http://two.example:{bird.port}/ HTTP/1.1")
            return bird.asked

    assert _run(main()) == ["127.0.0.5"]


def test_a_host_that_does_not_answer_is_named_with_the_reason() -> None:
    async def main() -> str:
        async with host() as found:
            pass
        async with gate(_terms(found)) as made:
            answer = await ask(made, *_get(found))
            refusal = made.refusal_of("127.0.0.1", found.port)
            assert refusal is not None and refusal.reason == "connect_refused"
            return reason_in(answer)

    assert _run(main()) == "connect_refused"


def test_beyond_its_bytes_a_page_gets_nothing_any_more() -> None:
    body = b"x" * 50_000
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)

    async def main() -> tuple[str, str]:
        async with host(answer) as found, gate(_terms(found, resource_bytes=120_000)) as made:
            one, other = await Browser.connect(made), await Browser.connect(made)
            for browser in (one, other):
                browser.say(*_get(found))
                await browser.hear()
            one.say(*_get(found))
            assert len(await one.hear_all()) < len(answer)
            assert await other.hear_all() == b""
            assert made.cut is not None
            for browser in (one, other):
                browser.close()
            return made.cut.reason, reason_in(await ask(made, *_get(found)))

    assert _run(main()) == ("too_large", "too_large")


def test_uploads_count_as_well() -> None:
    async def main() -> str:
        async with host() as found, gate(_terms(found, resource_bytes=1_000)) as made:
            browser = await Browser.connect(made)
            browser.say(f"POST http://{found.place}/ HTTP/1.1", "Content-Length: 5000", body=b"x" * 5_000)
            assert await browser.hear_all() == b""
            browser.close()
            assert found.bodies == []
            return made.cut.reason if made.cut else ""

    assert _run(main()) == "too_large"


def test_connections_are_capped_for_the_page_and_for_each_host() -> None:
    async def main() -> None:
        async with host() as found, gate(_terms(found, connections=4, host_connections=2)) as made:
            kept = [await Browser.connect(made) for _ in range(3)]
            for browser in kept[:2]:
                browser.say(*_get(found))
                assert not reason_in(await browser.hear())
            assert reason_in(await ask(made, *_get(found))) == "connect_failed"
            kept.append(await Browser.connect(made))
            await until(lambda: made.tally.connections == 5)
            one_more = await Browser.connect(made)
            assert reason_in(await one_more.hear_all()) == "connect_failed"
            one_more.close()
            kept[0].close()
            await until(lambda: found.open_now == 1)
            kept[2].say(*_get(found))
            assert not reason_in(await kept[2].hear())
            for browser in kept:
                browser.close()

    _run(main())


def test_after_its_end_a_page_has_no_connections_and_gets_none() -> None:
    async def main() -> None:
        async with host() as found, gate(_terms(found)) as made:
            browser = await Browser.connect(made)
            browser.say(*_get(found))
            await browser.hear()
            waiting = await Browser.connect(made)
            waiting.say(f"CONNECT {found.place} HTTP/1.1")
            await waiting.hear()
            assert made.end().connections == 2
            assert [await browser.hear_all(), await waiting.hear_all()] == [b"", b""]
            await until(lambda: found.open_now == 0)
            late = await Browser.connect(made)
            late.say(*_get(found))
            assert await late.hear_all() == b""
            for each in (browser, waiting, late):
                each.close()
            made.begin(Terms())
            assert made.tally == Tally()
            assert reason_in(await ask(made, *_get(found))) == "blocked_address"
            assert len(found.heads) == 1

    _run(main())


def test_what_is_idle_too_long_is_closed_and_so_is_everything_when_time_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gates, "LOOK_S", 0.01)

    async def main() -> str:
        brief = timedelta(seconds=0.2)
        async with host() as found:
            async with gate(_terms(found, idle=brief)) as made:
                browser = await Browser.connect(made)
                browser.say(*_get(found))
                await browser.hear()
                assert await browser.hear_all() == b""
                assert made.cut is None
                browser.close()
            async with gate(_terms(found, total=brief)) as made:
                browser = await Browser.connect(made)
                browser.say(*_get(found))
                await browser.hear()
                assert await browser.hear_all() == b""
                browser.close()
                return made.cut.reason if made.cut else ""

    assert _run(main()) == "timeout_total"


def test_a_host_is_not_asked_faster_than_its_pace_by_all_gates_together() -> None:
    async def main() -> float:
        pace = Pace()
        async with host() as found:
            terms = _terms(found, resource_rate=20)
            async with gate(terms, pace=pace) as one, gate(terms, pace=pace) as other:
                began = asyncio.get_running_loop().time()
                answers = await asyncio.gather(*(ask(made, *_get(found)) for made in (one, other) * 10))
                assert not any(map(reason_in, answers))
                return asyncio.get_running_loop().time() - began

    assert _run(main()) >= 20 / 20 - 0.5 - 0.05


def test_who_would_wait_beyond_the_page_is_refused() -> None:
    async def main() -> list[str]:
        async with host() as found, gate(_terms(found, resource_rate=0.02)) as made:
            first = reason_in(await ask(made, *_get(found)))
            return [first, reason_in(await ask(made, *_get(found)))]

    assert _run(main()) == ["", "timeout_total"]


def test_who_reads_slowly_slows_down_who_sends() -> None:
    size = 60_000_000
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (size, b"x" * size)

    async def main() -> tuple[int, int]:
        async with host(answer) as found, gate(_terms(found, resource_bytes=10 * size)) as made:
            browser = await Browser.connect(made)
            browser.say(*_get(found))
            before = -1
            while before != made.tally.received or not before:
                before = made.tally.received
                await asyncio.sleep(0.1)
            held = made.tally.received
            assert len(await browser.hear()) == len(answer)
            browser.close()
            return held, made.end().received

    held, received = _run(main())
    assert held < size / 2
    assert received == len(answer)


def test_a_page_that_ends_while_a_name_is_looked_up_reaches_nobody() -> None:
    asked, go_on = threading.Event(), threading.Event()

    def lookup(_: str) -> list[str]:
        asked.set()
        assert go_on.wait(10)
        return ["127.0.0.1"]

    async def main() -> int:
        async with host() as found, gate(Terms(), allow="127.0.0.1", lookup=lookup) as made:
            line = f"GET http://slow.example:{found.port}/ HTTP/1.1"
            browser = await Browser.connect(made)
            browser.say(line)
            await until(asked.is_set)
            made.end()
            made.begin(Terms())
            go_on.set()
            assert await browser.hear_all() == b""
            browser.close()
            for _ in range(3):
                assert reason_in(await ask(made, line)) == ""
            assert made.end().connections == 3
            return found.connections

    assert _run(main()) == 3
