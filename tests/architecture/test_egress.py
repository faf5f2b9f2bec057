"""Nothing opens a connection around the egress guard: who can make one is named here, with the reason."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.architecture.ways_out import ways_out

SOURCE = Path(__file__).parent.parent.parent / "src" / "shoal"


@dataclass(frozen=True, slots=True)
class Leave:
    """What some files may use although connections can be made with it, and why."""

    files: str
    """A file, or all in a folder."""
    ways: frozenset[str]
    reason: str

    def covers(self, file: str) -> bool:
        return file == self.files or (self.files.endswith("/") and file.startswith(self.files))


def leave(files: str, ways: str, reason: str) -> Leave:
    return Leave(files, frozenset(ways.split()), reason)


LEAVES = (
    leave("fetch/guard.py", "aiohappyeyeballs create_connection socket getaddrinfo ssl", "the guard itself"),
    leave("fetch/http.py", "ssl", "the HTTP client: its connections are the guard's"),
    leave("fetch/lines.py", "ssl", "keeps connections, which the guard makes"),
    leave("fetch/line.py", "httptools", "reads what comes on one, and makes none"),
    leave("fetch/outcomes.py", "socket ssl", "knows what connections raise"),
    leave("fetch/session_outcomes.py", "aiohttp aiohttp_socks python_socks", "knows what sessions raise"),
    leave("fetch/connectors.py", "aiohttp aiohttp_socks socket", "connectors that ask the guard"),
    leave("fetch/sessions.py", "aiohttp ssl", "sessions: their connectors ask the guard"),
    leave(
        "fetch/proxied.py", "aiohttp aiohttp_socks socket ssl", "ways through proxies: the connectors are the guard's"
    ),
    leave("fetch/answers.py", "aiohttp", "refines what connections read, and makes none"),
    leave(
        "spans.py", "importlib import_module find_spec", "loads OpenTelemetry, which speaks to the operator's collector"
    ),
    leave("worker/flower.py", "importlib import_module", "loads Flower, which listens and speaks to the broker"),
    leave("worker/runtime.py", "select", "looks whether its worker stops"),
    leave("worker/aside.py", "create_subprocess_exec", "starts the process in which pages are read apart"),
    leave("extract/markup.py", "html", "writes markup anew, from bytes"),
    leave("extract/markdown.py", "html_to_markdown", "writes markup as markdown"),
    leave("extract/metadata.py", "dateutil", "reads dates"),
    leave("core/noise.py", "unicodedata", "knows letters that are written in two ways"),
    leave("core/json_schema.py", "jsonschema_rs", "holds items against schemas, and is told to fetch nothing for one"),
    leave("render/browser.py", "playwright", "starts the browser, whose every byte goes through the gate"),
    leave("render/renderer.py", "playwright", "knows what the browser raises"),
    leave("render/troubles.py", "playwright", "likewise"),
    leave("render/page.py", "playwright", "steers a page, which the gate lets out"),
    leave("render/actions.py", "playwright", "likewise"),
    leave("render/shots.py", "playwright", "takes pictures of it"),
    leave("render/notebook.py", "playwright", "listens to it"),
    leave("render/lookup.py", "importlib find_spec", "sees whether Playwright is there, and where its browser is"),
    leave("render/processes.py", "psutil", "counts and ends processes of this machine"),
    leave("api/server.py", "gunicorn socket prometheus_client", "listens"),
    leave("api/serve.py", "socket getaddrinfo", "listens, and looks up where"),
    leave("api/metrics.py", "prometheus_client", "writes metrics down, and sends none"),
    leave("cli/up.py", "http", "asks the API that it has started whether it answers"),
    leave("cli/run.py", "socket getaddrinfo", "looks names up, to tell of misspelt ones before anything starts"),
    leave("cli/top_keys.py", "select termios tty", "reads keys of the terminal"),
    leave("cli/children.py", "subprocess", "starts workers and the API"),
    leave("cli/forked.py", "subprocess import_module importlib traceback", "forks workers, and imports for them first"),
    leave("worker/__main__.py", "execv", "becomes the supervisor of a worker, on this machine"),
    leave("cli/patience.py", "sqlalchemy", "names the type of a database"),
    leave("doctor/ground.py", "redis", "asks Redis and the broker, which the operator has named, what is wrong"),
    leave("doctor/broker.py", "redis", "likewise"),
    leave("doctor/redis.py", "redis", "likewise"),
    leave("doctor/sentinels.py", "redis", "likewise"),
    leave("doctor/browser.py", "subprocess", "asks the browser of this machine for its version"),
    leave("doctor/network.py", "socket", "knows what look-ups of names raise"),
    leave("drill/site.py", "socket", "listens on this machine, for the drill"),
    leave("drill/redis_server.py", "subprocess", "starts the drill's own Redis"),
    leave("drill/tether.py", "execv", "becomes a program of the drill, on this machine"),
    leave("embedded.py", "subprocess", "starts the embedded Redis"),
    leave("guardian.py", "subprocess ctypes", "starts what ends with its parent"),
    leave("heap.py", "ctypes", "tells the allocator what to keep"),
    leave("store/bulk.py", "operator", "takes values of rows by their names"),
    leave("store/page_rows.py", "operator", "likewise"),
    leave("core/frozen.py", "operator", "takes fields of values by their names"),
    leave("core/expressions.py", "lxml jmespath", "compiles expressions, and parses nothing"),
    leave("core/convert.py", "babel", "knows how numbers are written"),
    leave("core/dates.py", "babel", "knows the names of months"),
    leave("extract/finders.py", "lxml", "parses texts, with no_network"),
    leave("extract/takers.py", "lxml", "writes elements out"),
    leave(
        "extract/companion.py", "subprocess weakref", "starts that process for stored pages, and ends it with its owner"
    ),
    leave(
        "spiders/finder.py",
        "import_module importlib exec_module traceback",
        "imports the spiders that the operator has named",
    ),
    leave("companions.py", "find_spec exec_module importlib", "imports libraries without what they can do without"),
    leave("cli/commands.py", "import_module importlib", "imports the commands of its own list"),
    leave("__init__.py", "import_module importlib", "imports what spiders are made of when they are used"),
    leave("spiders/page.py", "lxml", "parses pages, and is given no addresses"),
    leave("spiders/selection.py", "lxml", "likewise"),
    leave("spiders/mirror.py", "lxml", "makes elements, and parses nothing"),
    leave("spiders/run.py", "pydantic_core", "makes plain values of items"),
    leave("testing.py", "mimetypes", "knows types of files by their names"),
    leave("extract/apart.py", "subprocess ctypes", "parses pages in another process, which it shuts in"),
    leave("extract/elements.py", "xml", "a parser that is given bytes, and asked for nothing outside of them"),
    leave("extract/next_by_xpath.py", "lxml", "parses bytes, without a network"),
    leave("core/pagination.py", "lxml", "compiles a selector"),
    leave("worker/outage.py", "socket", "knows this machine's name"),
    leave("worker/supervisor.py", "socket", "knows this machine's name"),
    leave("observe.py", "atexit", "says how many log lines were left out"),
    leave("frontier/away.py", "ssl", "knows what TLS with Redis can fail of"),
    leave("frontier/", "redis", "Redis, which the operator has named"),
    leave("redis_check.py", "redis", "likewise"),
    leave("store/", "sqlalchemy alembic psycopg", "the database, which the operator has named"),
    leave("redis_check.py", "redis", "asks Redis and the broker, which the operator has named, whether they let us in"),
    leave("output/parquet.py", "pyarrow", "writes files of this machine"),
    leave(
        "output/table.py",
        "psycopg",
        "the table that a job names: of the operator's, by SHOAL_OUTPUTS, or the command line's",
    ),
    leave("store/obstore_whole.py", "obstore", "imports the library of object stores for these"),
    leave("output/bucket.py", "shoal.store.obstore_whole", "the operator's, by the environment and SHOAL_OUTPUTS"),
    leave("store/object_store.py", "obstore shoal.store.obstore_whole", "opens them"),
    leave("store/objects.py", "obstore shoal.store.obstore_whole", "the archive's, of the operator: SHOAL_ARCHIVE_URL"),
    leave("worker/apart.py", "subprocess select", "starts the process that keeps house, and waits for its answers"),
    leave("upgrades.py", "sqlalchemy", "asks the database who is connected"),
    leave("wiring.py", "sqlalchemy", "opens the database"),
    leave("webhooks/assembly.py", "sqlalchemy", "names the type of a database"),
    leave(
        "webhooks/mail.py", "smtplib ssl", "the mail server, which the operator has named; whom mail is for is checked"
    ),
    leave("worker/arrival.py", "sqlalchemy", "waits for the database"),
    leave("worker/", "celery kombu billiard", "the broker, which the operator has named"),
    leave("worker/amqp.py", "amqp", "likewise"),
    leave("rabbitmq.py", "amqp ssl", "asks RabbitMQ, which the operator has named, whether it lets us in"),
)


def _files() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(SOURCE.rglob("*.py")):
        yield path.relative_to(SOURCE).as_posix(), ast.parse(path.read_text(encoding="utf-8"))


def _called(node: ast.AST) -> str:
    if not isinstance(node, ast.Call):
        return ""
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def test_only_these_can_make_connections() -> None:
    """Whoever adds one adds it here, with the reason; whoever takes one away takes it away here."""
    found = {(file, way) for file, tree in _files() for way in ways_out(tree)}
    left = {(file, way) for file, way in found if not any(each.covers(file) and way in each.ways for each in LEAVES)}
    assert left == set()
    unused = {
        (each.files, way)
        for each in LEAVES
        for way in each.ways
        if not any(each.covers(file) for file, used in found if used == way)
    }
    assert unused == set()


@pytest.mark.parametrize(
    ("source", "way"),
    [
        ("import socket", "socket"),
        ("import socket as harmless\nharmless.create_connection(('h', 1))", "create_connection"),
        ("from socket import create_connection as look", "create_connection"),
        ("def late():\n    import _socket", "_socket"),
        ("from asyncio import open_connection", "open_connection"),
        ("from asyncio import open_connection as read", "open_connection"),
        ("import asyncio\nget = asyncio.open_connection", "open_connection"),
        ("import asyncio.streams as s\ns.open_connection('h', 1)", "open_connection"),
        ("async def f(loop):\n    await loop.create_connection(p, 'h', 1)", "create_connection"),
        ("async def f(loop, s):\n    await loop.sock_connect(s, ('h', 1))", "sock_connect"),
        ("def f(loop):\n    return getattr(loop, 'create_connection')", "create_connection"),
        ("def f(loop):\n    return loop.create_datagram_endpoint", "create_datagram_endpoint"),
        ("import redis", "redis"),
        ("from redis import Redis", "redis"),
        ("from redis.asyncio import Redis", "redis"),
        ("import subprocess", "subprocess"),
        ("from asyncio import create_subprocess_exec", "create_subprocess_exec"),
        ("import os\nos.system('curl h')", "system"),
        ("from os import popen", "popen"),
        ("import aiohttp\naiohttp.request('GET', 'http://h/')", "aiohttp"),
        ("from aiohttp import request", "aiohttp"),
        ("from aiohttp.abc import AbstractResolver\nfrom aiohttp import ClientSession", "aiohttp"),
        ("import requests", "requests"),
        ("import urllib.request", "urllib"),
        ("from urllib import request", "urllib"),
        ("from urllib.request import urlopen", "urllib"),
        ("import http.client", "http"),
        ("from http import client", "http"),
        ("__import__('socket')", "__import__"),
        ("import importlib\nimportlib.import_module('socket')", "import_module"),
        ("from importlib import import_module", "import_module"),
        ("exec('import socket')", "exec"),
        ("eval(text)", "eval"),
        ("from logging import handlers", "logging.handlers"),
        ("import logging.handlers", "logging.handlers"),
        ("import ctypes", "ctypes"),
        ("import a_library_of_next_year", "a_library_of_next_year"),
        ("import multiprocessing.connection", "multiprocessing"),
    ],
)
def test_a_way_around_the_guard_is_seen(source: str, way: str) -> None:
    assert way in ways_out(ast.parse(source))


@pytest.mark.parametrize(
    "source",
    [
        "import re\nre.compile('x')",
        "import asyncio\nasyncio.run(f())",
        "from urllib.parse import urlsplit",
        "from http import HTTPStatus",
        "from redis import exceptions\nfrom redis.exceptions import RedisError",
        "from aiohttp.abc import AbstractResolver",
        "from importlib.resources import files",
        "from . import sibling\nfrom shoal.fetch.guard import Guard",
        "engine.connect()\n'socket'",
        "import logging\nlogging.getLogger().handlers",
    ],
)
def test_what_leads_nowhere_is_no_way(source: str) -> None:
    assert ways_out(ast.parse(source)) == set()


def test_only_the_guard_makes_connectors() -> None:
    makers = {
        name for name, tree in _files() for node in ast.walk(tree) if _called(node).endswith(("Connector", "socket"))
    }
    assert makers - {"api/server.py", "drill/site.py"} == {"fetch/guard.py", "fetch/connectors.py"}  # those two listen


def test_every_session_has_a_connector_of_the_guards() -> None:
    sessions = [
        (name, {keyword.arg for keyword in node.keywords})
        for name, tree in _files()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and _called(node) == "ClientSession"
    ]
    assert [name for name, _ in sessions] == ["fetch/sessions.py"]
    assert all("connector" in given for _, given in sessions)


def test_nobody_asks_without_a_session_or_makes_a_connector_in_passing() -> None:
    found = {(file, name) for file, tree in _files() for node in ast.walk(tree) for name in _shortcuts(node)}
    assert {(file, name) for file, name in found if not file.startswith("frontier/")} == set()  # Redis has one, too
    for source in ("aiohttp.request('GET', url)", "from aiohttp import request", "SocksConnector.from_url(url)"):
        assert any(_shortcuts(node) for node in ast.walk(ast.parse(source)))


def _shortcuts(node: ast.AST) -> set[str]:
    if isinstance(node, ast.ImportFrom):
        return {alias.name for alias in node.names} & {"request"} if node.module == "aiohttp" else set()
    if not isinstance(node, ast.Attribute):
        return set()
    is_aiohttp = isinstance(node.value, ast.Name) and node.value.id == "aiohttp"
    return {node.attr} & ({"request", "from_url"} if is_aiohttp else {"from_url"})
