"""Certificates that must not be taken, each refused for what is wrong with it; and handshakes that come to nothing."""

from __future__ import annotations

import asyncio
import gc
import os
import socket
import ssl
import struct
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from threading import Thread

import pytest
import uvloop

from shoal.core.url import parse
from shoal.errors import FetchError
from shoal.fetch.http import HttpClient
from shoal.fetch.port import FetchLimits, Response
from tests.authority import Authority
from tests.guards import guard_of_loopback

MOMENT = timedelta(milliseconds=300)
LONG = timedelta(seconds=20)
PATIENT = FetchLimits(connect=LONG, first_byte=LONG, total=LONG)
HOST = "127.0.0.1"
Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
LAST_YEAR, NEXT_YEAR = 2024, 2048


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority.make(tmp_path_factory.mktemp("authority"))


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello")
    writer.close()


def says(*parts: bytes, close: bool) -> Answer:
    """To whatever comes first; a server that does not speak TLS itself."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        for part in parts:
            writer.write(part)
        if close:
            writer.close()
        await reader.read()
        writer.close()

    return answer


def fetch(
    server: ssl.SSLContext | Answer, trusted: ssl.SSLContext | None, limits: FetchLimits = PATIENT, host: str = HOST
) -> Response:
    """From a server with a certificate, or from one that answers a handshake by itself."""
    answer, tls = (_answer, server) if isinstance(server, ssl.SSLContext) else (server, None)

    async def main() -> Response:
        listener = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=tls)
        client = HttpClient("x", guard_of_loopback(), trusted)
        try:
            return await client.fetch(parse(f"https://{host}:{listener.sockets[0].getsockname()[1]}/"), {}, limits)
        finally:
            await client.close()
            listener.close()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main())


def reason(
    server: ssl.SSLContext | Answer, trusted: ssl.SSLContext | None, limits: FetchLimits = PATIENT, host: str = HOST
) -> str:
    with pytest.raises(FetchError) as caught:
        fetch(server, trusted, limits, host)
    return caught.value.reason


def test_a_good_certificate_is_taken(authority: Authority) -> None:
    assert fetch(authority.server(), authority.client).wire_body == b"hello"


def test_a_certificate_that_is_no_longer_valid(authority: Authority) -> None:
    assert reason(authority.server(until=LAST_YEAR), authority.client) == "tls_expired"


def test_a_certificate_that_is_not_valid_yet(authority: Authority) -> None:
    assert reason(authority.server(since=NEXT_YEAR), authority.client) == "tls_expired"


@pytest.mark.parametrize(("names", "host"), [("DNS:other.example", "localhost"), ("IP:127.0.0.2", "127.0.0.1")])
def test_a_certificate_for_somebody_else(authority: Authority, names: str, host: str) -> None:
    assert reason(authority.server(names), authority.client, host=host) == "tls_wrong_host"


def test_a_certificate_that_nobody_we_trust_has_signed(authority: Authority) -> None:
    assert reason(authority.server(), None) == "tls_untrusted"


def test_a_certificate_that_has_signed_itself(tmp_path: Path) -> None:
    own = Authority.make(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "own.pem", tmp_path / "own.key")
    assert reason(context, None) == "tls_untrusted"
    assert reason(context, own.client) == "tls_wrong_host", "trusted, but made out to nobody"


def test_no_version_in_common() -> None:
    alert = bytes([21, 3, 1, 0, 2, 2, 70])
    assert reason(says(alert, close=True), None) == "tls_failed"


def test_an_answer_that_is_not_tls() -> None:
    assert reason(says(b"HTTP/1.1 400 Bad Request\r\n\r\n", close=True), None) == "tls_failed"


def test_a_server_that_hangs_up_in_the_handshake_may_do_better_next_time() -> None:
    assert reason(says(close=True), None) == "connect_failed"


def test_a_handshake_that_stalls_is_cut_at_the_deadline_for_connecting() -> None:
    limits = FetchLimits(connect=MOMENT, first_byte=LONG, total=LONG)
    assert reason(says(close=False), None, limits) == "timeout_connect"


def test_a_handshake_that_stalls_does_not_outlast_the_total_deadline() -> None:
    limits = FetchLimits(connect=LONG, first_byte=LONG, total=MOMENT)
    assert reason(says(close=False), None, limits) == "timeout_total"


class Resetting:
    """Takes connections and resets them at once, in a thread."""

    def __enter__(self) -> int:
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=200)
        self._listener.settimeout(0.1)
        self._is_over = False
        self._thread = Thread(target=self._reset)
        self._thread.start()
        return self._listener.getsockname()[1]

    def __exit__(self, *_exc: object) -> None:
        self._is_over = True
        self._thread.join()
        self._listener.close()

    def _reset(self) -> None:
        while not self._is_over:
            with suppress(TimeoutError):
                taken, _ = self._listener.accept()
                taken.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                taken.close()


def test_a_connection_that_is_reset_closes_no_other(authority: Authority, tmp_path: Path) -> None:
    """The number of its socket is free as soon as the loop has closed it, whatever still holds the socket."""

    async def main(port: int) -> None:
        client = HttpClient("x", guard_of_loopback(), authority.client)
        url = parse(f"https://{HOST}:{port}/")
        for _ in range(30):
            fetches = (client.fetch(url, {}, PATIENT) for _ in range(30))
            errors = await asyncio.gather(*fetches, return_exceptions=True)
            others = [os.open(tmp_path, os.O_RDONLY) for _ in range(60)]
            assert all(isinstance(error, FetchError) for error in errors)
            del errors
            gc.collect()
            for other in others:
                os.close(other)
        await client.close()

    with Resetting() as port, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main(port))
