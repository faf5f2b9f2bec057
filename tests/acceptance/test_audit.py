"""Every connection that a crawl makes, as Python itself reports them: none is made around the guard.

What goes past Python's sockets, as event loops written in C can, is not reported; so what servers were connected to is
counted there as well.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.command import REPOSITORY, Shoal
from tests.proxies import http_proxy, socks_proxy
from tests.raw_answers import Ending, RawAnswer
from tests.raw_server import serve_raw

AUDITED = REPOSITORY / "tests" / "audited"
GUARDS = (
    " shoal.fetch.connectors.DirectConnector",
    " shoal.fetch.connectors.SocksConnector",
    "/shoal/fetch/guard.py:_dial",
)
"""Who connects to judged addresses only."""
KNOWN = {
    "/redis/connection.py:_connect": "the frontier and the broker",
    "/amqp/transport.py:_connect": "another broker",
    "/shoal/fetch/guard.py:ask_system": "the guard looks names up",
    "/shoal/cli/run.py:_trouble": "the command looks names up, to tell of misspelt ones",
}
"""The end of a frame → who that is."""


@dataclass(frozen=True, slots=True)
class Report:
    """One thing that Python reported."""

    event: str
    place: Any
    program: list[str]
    stack: list[str]

    @property
    def port(self) -> int:
        return int(self.place[1]) if self.event == "socket.connect" and not isinstance(self.place, str) else 0

    @property
    def is_guarded(self) -> bool:
        return any(frame.endswith(GUARDS) for frame in self.stack)

    @property
    def is_explained(self) -> bool:
        plain = [frame.partition(" ")[0] for frame in self.stack]
        return self.is_guarded or any(frame.endswith(tuple(KNOWN)) for frame in plain)


def _reports(folder: Path) -> list[Report]:
    files = sorted(folder.glob("*.jsonl"))
    return [Report(**json.loads(line)) for file in files for line in file.read_text(encoding="utf-8").splitlines()]


def _environment(folder: Path) -> dict[str, str]:
    folder.mkdir()
    path = os.pathsep.join([str(AUDITED), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {"PYTHONPATH": path, "AUDITED_TO": str(folder)}


def _page(*links: str) -> RawAnswer:
    body = "".join(f'<a href="{link}">x</a>' for link in links).encode()
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n" % len(body)
    return RawAnswer((head + body,), Ending.CLOSES)


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_every_connection_of_a_crawl_is_the_guards_or_known(loop: str, shoal: Shoal, tmp_path: Path) -> None:
    given = {**_environment(tmp_path / "audit"), "AUDITED_LOOP": loop}
    audited = Shoal(shoal.home, tuple(given.items()))
    pages = {"/": _page("/a", "/b"), "/robots.txt": RawAnswer((b"HTTP/1.1 404 No\r\n\r\n",), Ending.CLOSES)}
    with serve_raw(lambda target: pages.get(target, _page())) as site, http_proxy() as plain, socks_proxy() as socks:
        ways = [(), ("--proxy", plain.url())]
        ways += [("--proxy", socks.url("socks5"))] if loop == "asyncio" else []  # which else goes past Python
        for way in ways:
            done = audited.run("crawl", site.link("/"), "--rate", "unlimited", "--json", *way)
            assert done.code == 0, done.err
            assert done.json["counters"]["done"] == 3
        made = {site.port: site.connections - plain.connections - socks.connections, plain.port: plain.connections}
        if loop == "asyncio":
            made[socks.port] = socks.connections
    reports = _reports(tmp_path / "audit")
    assert all(made.values())
    assert {port: sum(each.port == port for each in reports) for port in made} == made
    assert [each for each in reports if not each.is_explained] == []
    guarded = [each for each in reports if each.is_guarded]
    assert {each.port for each in guarded} == made.keys()
    assert all("shoal.worker" in each.program for each in guarded)


AROUND = {
    "a socket": "import socket; socket.create_connection(('127.0.0.1', PORT))",
    "a library": "import urllib.request; urllib.request.urlopen('http://127.0.0.1:PORT/')",
    "a stream": "import asyncio; asyncio.run(asyncio.open_connection('127.0.0.1', PORT))",
    "another session": """
import aiohttp, asyncio, uvloop
async def ask():
    async with aiohttp.ClientSession() as session, session.get('http://127.0.0.1:PORT/'):
        pass
uvloop.run(ask())
""",
}


@pytest.mark.parametrize("how", AROUND)
def test_a_connection_around_the_guard_would_be_found(how: str, tmp_path: Path) -> None:
    with serve_raw(lambda _: _page()) as site:
        _run(AROUND[how].replace("PORT", str(site.port)), tmp_path / "audit")
        found = [each for each in _reports(tmp_path / "audit") if each.port == site.port]
        assert site.connections == 1
    assert [each.is_explained for each in found] == [False]


def test_one_that_goes_past_python_would_be_missed_in_the_count(tmp_path: Path) -> None:
    source = """
import asyncio, uvloop
async def ask():
    await asyncio.get_running_loop().create_connection(asyncio.Protocol, '127.0.0.1', PORT)
uvloop.run(ask())
"""
    with serve_raw(lambda _: _page()) as site:
        _run(source.replace("PORT", str(site.port)), tmp_path / "audit")
        assert (site.connections, _reports(tmp_path / "audit")) == (1, [])


def _run(source: str, folder: Path) -> None:
    command = [sys.executable, "-c", source]
    subprocess.run(command, env={**os.environ, **_environment(folder)}, timeout=60, check=True)
