"""Real proxies on loopback, which remember what passed: one that speaks HTTP, one that speaks SOCKS5."""

from __future__ import annotations

import asyncio
import base64
import ipaddress
import shutil
import socket
import ssl
import struct
import threading
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.conftest import lack
from tests.signing import NEW_KEY, openssl

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass
class TestProxy:
    """What a proxy is like, and what it has seen."""

    __test__ = False

    login: tuple[str, str] | None = None
    status: int | None = None
    """What it says to everybody who is let in, instead of doing its work; of a SOCKS proxy the reply code."""
    resets: bool = False
    """Hangs up on everybody."""
    mumbles: bool = False
    """Says half a word and hangs up."""
    silent: bool = False
    """Takes connections and says nothing."""
    hosts: dict[str, int] = field(default_factory=dict[str, int])
    """Names that it knows, and the loopback ports that they stand for."""
    tls: ssl.SSLContext | None = None
    port: int = 0
    passed: list[str] = field(default_factory=list[str])
    """`GET http://…`, `CONNECT host:port`: what it was asked for, by those whom it let in."""
    headers: list[dict[str, str]] = field(default_factory=list[dict[str, str]])
    """Of each request that it read."""
    refused: int = 0
    connections: int = 0

    def url(self, scheme: str = "http", login: str = "") -> str:
        return f"{scheme}://{login + '@' if login else ''}127.0.0.1:{self.port}"

    async def open(self, host: str, port: int) -> Streams:
        """To the target, by its name if the proxy knows it."""
        return await asyncio.open_connection("127.0.0.1" if host in self.hosts else host, self.hosts.get(host, port))


Speak = Callable[[TestProxy, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@contextmanager
def http_proxy(**traits: object) -> Generator[TestProxy]:
    """A proxy that takes requests openly, and makes tunnels."""
    with _running(TestProxy(**traits), _speak_http) as proxy:  # type: ignore[arg-type]
        yield proxy


@contextmanager
def socks_proxy(**traits: object) -> Generator[TestProxy]:
    """A SOCKS5 server, with a user name and a password or without."""
    with _running(TestProxy(**traits), _speak_socks) as proxy:  # type: ignore[arg-type]
        yield proxy


@contextmanager
def _running(proxy: TestProxy, speak: Speak) -> Generator[TestProxy]:
    """In a thread with an event loop of its own."""
    loop, begun = asyncio.new_event_loop(), threading.Event()
    thread = threading.Thread(target=lambda: loop.run_until_complete(_serve(proxy, speak, begun)))
    thread.start()
    try:
        assert begun.wait(10)
        yield proxy
    finally:
        loop.call_soon_threadsafe(lambda: [task.cancel() for task in asyncio.all_tasks(loop)])
        thread.join()
        loop.close()


async def _serve(proxy: TestProxy, speak: Speak, begun: threading.Event) -> None:
    open_now: set[asyncio.Task[None]] = set()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        proxy.connections += 1
        with suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            if proxy.resets:
                linger = struct.pack("ii", 1, 0)
                writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                writer.transport.abort()
            elif proxy.mumbles:
                writer.write(b"\x05")
            elif proxy.silent:
                await reader.read()
            else:
                await speak(proxy, reader, writer)
        writer.close()

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(answer(reader, writer))
        open_now.add(task)
        task.add_done_callback(open_now.discard)

    server = await asyncio.start_server(connected, "127.0.0.1", 0, ssl=proxy.tls)
    proxy.port = server.sockets[0].getsockname()[1]
    begun.set()
    with suppress(asyncio.CancelledError):
        await asyncio.Event().wait()
    server.close()
    for task in tuple(open_now):
        task.cancel()
    await asyncio.gather(*open_now, return_exceptions=True)
    await asyncio.sleep(0.01)  # for sockets to close


# --- HTTP -----------------------------------------------------------------------------------------------------------


async def _speak_http(proxy: TestProxy, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while True:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        line, *rest = head.rstrip().split("\r\n")
        headers = dict(part.split(": ", 1) for part in rest)
        proxy.headers.append(headers)
        method, target, _ = line.split(" ")
        if proxy.login and headers.get("Proxy-Authorization") != _basic(*proxy.login):
            proxy.refused += 1
            # Some repeat what they were sent.
            said = headers.get("Proxy-Authorization", "nothing")
            await _say(writer, 407, f"You said {said}", "Proxy-Authenticate: Basic realm=x\r\n")
            continue
        proxy.passed.append(f"{method} {target}")
        if proxy.status:
            await _say(writer, proxy.status, "Says the proxy")
        elif method == "CONNECT":
            await _tunnel(proxy, target, reader, writer)
            return
        else:
            await _hand_over(proxy, method, target, headers, writer)


async def _tunnel(proxy: TestProxy, target: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    host, _, port = target.rpartition(":")
    try:
        there = await proxy.open(host.strip("[]"), int(port))
    except OSError:
        await _say(writer, 502, "Bad Gateway")
        return
    writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
    await _join((reader, writer), there)


async def _hand_over(
    proxy: TestProxy, method: str, target: str, headers: dict[str, str], writer: asyncio.StreamWriter
) -> None:
    place, _, path = target.removeprefix("http://").partition("/")
    host, _, port = place.partition(":")
    try:
        back, there = await proxy.open(host, int(port or 80))
    except OSError:
        await _say(writer, 502, "Bad Gateway")
        return
    sent = {name: value for name, value in headers.items() if not name.startswith("Proxy-")} | {"Connection": "close"}
    there.write(f"{method} /{path} HTTP/1.1\r\n".encode())
    there.writelines(f"{name}: {value}\r\n".encode() for name, value in sent.items())
    there.write(b"\r\n")
    try:
        while part := await back.read(65_536):
            writer.write(part)
    finally:
        there.close()
        writer.close()


async def _say(writer: asyncio.StreamWriter, status: int, reason: str, more: str = "") -> None:
    writer.write(f"HTTP/1.1 {status} {reason}\r\n{more}Content-Length: 0\r\n\r\n".encode("latin-1"))
    await writer.drain()


def _basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


async def _join(one: Streams, other: Streams) -> None:
    try:
        await asyncio.gather(_pass_on(one[0], other[1]), _pass_on(other[0], one[1]))
    finally:
        one[1].close()
        other[1].close()


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while part := await reader.read(65_536):
            writer.write(part)
            await writer.drain()
    writer.close()


# --- SOCKS5 ---------------------------------------------------------------------------------------------------------


async def _speak_socks(proxy: TestProxy, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    _, count = await reader.readexactly(2)
    methods = await reader.readexactly(count)
    if proxy.login and 2 not in methods:
        proxy.refused += 1
        writer.write(b"\x05\xff")
        return
    writer.write(b"\x05\x02" if proxy.login else b"\x05\x00")
    if proxy.login:
        _, length = await reader.readexactly(2)
        user = (await reader.readexactly(length)).decode()
        (length,) = await reader.readexactly(1)
        good = (user, (await reader.readexactly(length)).decode()) == proxy.login
        writer.write(b"\x01\x00" if good else b"\x01\x01")
        if not good:
            proxy.refused += 1
            return
    host, port = await _read_target(reader)
    proxy.passed.append(f"CONNECT {host}:{port}")
    if proxy.status:
        writer.write(bytes([5, proxy.status, 0, 1, 0, 0, 0, 0, 0, 0]))
        return
    try:
        there = await proxy.open(host, port)
    except OSError:
        writer.write(b"\x05\x05\x00\x01\x00\x00\x00\x00\x00\x00")
        return
    writer.write(b"\x05\x00\x00\x01\x00\x00\x00\x00\x00\x00")
    await _join((reader, writer), there)


async def _read_target(reader: asyncio.StreamReader) -> tuple[str, int]:
    _, _, _, kind = await reader.readexactly(4)
    if kind == 3:
        (length,) = await reader.readexactly(1)
        host = (await reader.readexactly(length)).decode()
    else:
        host = str(ipaddress.ip_address(await reader.readexactly(4 if kind == 1 else 16)))
    return host, int.from_bytes(await reader.readexactly(2), "big")


# --- TLS ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Identity:
    """A certificate of our own for loopback and some names."""

    folder: Path

    @classmethod
    def make(cls, folder: Path, *names: str) -> Identity:
        if shutil.which("openssl") is None:
            lack("openssl is not on the PATH, and makes the certificates of some tests")
        known = ",".join(["IP:127.0.0.1", *(f"DNS:{name}" for name in names)])
        files = ("-keyout", "key.pem", "-out", "cert.pem", "-days", "2", "-subj", "/CN=test")
        openssl(folder, "req", "-x509", *NEW_KEY, *files, "-addext", f"subjectAltName={known}")
        return cls(folder)

    @property
    def server(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.folder / "cert.pem", self.folder / "key.pem")
        return context

    @property
    def client(self) -> ssl.SSLContext:
        """Trusts it, and nobody else."""
        return ssl.create_default_context(cafile=str(self.folder / "cert.pem"))
