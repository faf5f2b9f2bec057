"""Secrets in every place that takes one, all that can go wrong with them, and a search through everything that is left.

Where a secret has to be: the headers of a job stand in the job's row of the database, since workers need them. The
passwords of servers and of the operator's proxies stay in the settings; of API keys the database has a hash.
"""

from __future__ import annotations

import json
import socket
import sqlite3
import subprocess
import threading
import urllib.error
import urllib.request
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import cast
from urllib.parse import urlsplit

import pytest
from redis import Redis

from tests import servers
from tests.command import Shoal, wait_for_nobody
from tests.proxies import http_proxy
from tests.waiting import wait_until

SOON = timedelta(seconds=60)
PLACES = ("authorization", "cookie", "custom", "proxy", "wrongproxy", "redis", "postgres", "link", "jobfile", "flag")
SECRETS = {place: f"c4nary-{place}-x7q" for place in PLACES}
IN_JOBS = {SECRETS[place] for place in ("authorization", "cookie", "custom")}
IN_A_URL = "c4nary-query-x7q"
"""Part of an address, which pages, dead letters and exports have to tell; logs do not."""
HEADERS = {
    "Authorization": f"Bearer {SECRETS['authorization']}",
    "Cookie": f"sid={SECRETS['cookie']}",
    "X-Anything": SECRETS["custom"],
    "Accept-Language": "de",
}


class _Site(ThreadingHTTPServer):
    """Leads to another host in three ways, and repeats what it was sent where it refuses."""

    def __init__(self, host: str, other: str = "") -> None:
        super().__init__((host, 0), _Handler)
        self.other = other
        self.heard: list[tuple[str, str]] = []
        """(path, all headers)"""

    @property
    def place(self) -> str:
        host, port = self.server_address[:2]
        return f"{host!s}:{port}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        site = cast(_Site, self.server)
        site.heard.append((self.path, str(self.headers)))
        body = b""
        if site.other and self.path == "/":
            links = ("/gone?token=" + IN_A_URL, "/away", "/login", f"http://{site.other}/linked")
            body = ("<title>\x1b[31mred</title>" + "".join(f'<a href="{link}">x</a>' for link in links)).encode()
            self.send_response(200)
        elif self.path == "/away":
            self.send_response(302)
            self.send_header("Location", f"http://{site.other}/redirected")
        elif self.path == "/login":
            self.send_response(302)
            self.send_header("Location", f"http://user:{SECRETS['link']}@{site.other}/login")
        elif self.path.startswith("/gone"):
            self.send_response(404, f"Not with {self.headers['Authorization']} and {self.headers['X-Anything']}")
        else:
            self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - http.server's name
        """Say nothing."""


@contextmanager
def _serving(host: str, other: str = "") -> Generator[_Site]:
    with _Site(host, other) as site:
        thread = threading.Thread(target=site.serve_forever)
        thread.start()
        try:
            yield site
        finally:
            site.shutdown()
            thread.join()


@contextmanager
def _redis_with_a_password(folder: Path) -> Generator[str]:
    """Its URL; it writes all that it is told to a file in the folder."""
    folder.mkdir()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    options = ("--port", str(port), "--bind", "127.0.0.1", "--dir", str(folder), "--appendonly", "yes", "--save", "")
    command = [servers.valkey(), *options, "--requirepass", SECRETS["redis"]]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as process:
        url = f"redis://:{SECRETS['redis']}@127.0.0.1:{port}"
        try:
            wait_until(lambda: _answers(url), within=SOON)
            yield url
        finally:
            process.terminate()


def _answers(url: str) -> bool:
    try:
        with closing(Redis.from_url(url, socket_timeout=2)) as client:  # pyright: ignore[reportUnknownMemberType]
            return bool(client.ping())  # pyright: ignore[reportUnknownMemberType]
    except OSError:
        return False
    except Exception as exc:
        if "Connection" in type(exc).__name__ or "Loading" in type(exc).__name__:
            return False
        raise


class _Caller:
    """Asks the API, and keeps every answer with its headers."""

    def __init__(self, url: str, key: str, said: list[str]) -> None:
        self.url, self.key, self.said = url, key, said
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def ask(self, path: str, body: object = None, key: str | None = None) -> str:
        data = None if body is None else json.dumps(body).encode()
        sent = {"Content-Type": "application/json", "Authorization": f"Bearer {key or self.key}"}
        try:
            answer = self._opener.open(urllib.request.Request(f"{self.url}/api/v1/{path}", data, sent), timeout=30)
        except urllib.error.HTTPError as exc:
            answer = exc
        with answer:
            text = answer.read().decode()
            self.said.append(f"{path}\n{answer.headers}\n{text}")
        return text

    def finish(self, spec: dict[str, object]) -> str:
        """The id of a job that has come to its end."""
        job = json.loads(self.ask("jobs", {"rate": "unlimited", "retries": 0, **spec}))["id"]
        wait_until(lambda: json.loads(self.ask(f"jobs/{job}"))["state"] == "finished", within=SOON)
        return job

    def mumble(self) -> None:
        """Something that is not HTTP, with a key in it."""
        parts = urlsplit(self.url)
        with socket.create_connection((parts.hostname or "", parts.port or 0), timeout=20) as client:
            client.sendall(f"GET /api/v1/jobs HTTP/1.1\r\nHost: x\r\nX-API-Key {self.key}\r\n\r\n".encode())
            self.said.append(client.recv(65_536).decode())


def _look_at_everything(caller: _Caller, job: str, broken: str) -> None:
    for path in ("", "/pages", "/items", "/errors", "/dead", "/export", "/export?format=csv", "/export?what=errors"):
        caller.ask(f"jobs/{job}{path}")
    for path in ("jobs", "hosts", "proxies", "workers", "queues", "stats", f"jobs/{broken}/errors", "nothing%0d%0aX:y"):
        caller.ask(path)
    caller.ask("jobs", key="shoal_abcdefghi0_" + caller.key[-43:])
    for headers in ({HEADERS["Authorization"]: "x"}, {"Cookie": [HEADERS["Cookie"]]}, HEADERS["X-Anything"]):
        caller.ask("jobs", {"urls": ["http://a.example/"], "headers": headers})
    for url in (f"http://u:{SECRETS['link']}@a.example/", f"http://u:a/{SECRETS['link']}@a.example/"):
        caller.ask("jobs", {"urls": [url], "hosts": [f"u:{SECRETS['link']}@a.example"]})
    caller.mumble()


def _commands(shoal: Shoal, job: str, folder: Path, site: str) -> Iterator[tuple[Shoal, tuple[str, ...]]]:
    """What a user looks at, and what goes wrong."""
    yield from ((shoal, args) for args in (("jobs",), ("status", job), ("dead", job), ("proxies",)))
    yield shoal, ("page", job, f"http://{site}/", "--headers")
    given = dict(shoal.extra)
    redis = given["SHOAL_REDIS_URL"].replace(SECRETS["redis"], "wrong-" + SECRETS["redis"])
    for name, value in (
        ("SHOAL_REDIS_URL", redis),
        ("SHOAL_DATABASE_URL", f"postgresql://u:{SECRETS['postgres']}@127.0.0.1:9/db"),
    ):
        yield Shoal(shoal.home, tuple({**given, name: value}.items())), ("jobs",)
    flawed = folder / "flawed.yaml"
    flawed.write_text(
        f"urls: [http://a/]\nheaders: {{'Cookie: {SECRETS['jobfile']}': 1}}\nproxies: 'x {SECRETS['jobfile']}'\n"
        f"hosts: ['u:{SECRETS['jobfile']}@h']\n",
        encoding="utf-8",
    )
    yield shoal, ("crawl", "-j", str(flawed))
    yield shoal, ("crawl", f"http://u:{SECRETS['flag']}@a/")


def _places_of(secrets: set[str], texts: dict[str, bytes]) -> list[tuple[str, str]]:
    return [(place, secret) for place, text in texts.items() for secret in secrets if secret.encode() in text]


def _cells(database: Path) -> dict[str, bytes]:
    """Table.column → all that stands there."""
    with closing(sqlite3.connect(database)) as connection:
        tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        found: dict[str, bytes] = {}
        for table in tables:
            rows = connection.execute(f'SELECT * FROM "{table}"')
            names = [column[0] for column in rows.description]
            for row in rows:
                for name, value in zip(names, row, strict=True):
                    place = f"{table}.{name}"
                    found[place] = found.get(place, b"") + str(value).encode() + b"\n"
    return found


@pytest.mark.timeout(180)
def test_no_secret_is_found_where_it_need_not_be(shoal: Shoal, tmp_path: Path) -> None:
    said: list[str] = []
    pools = tmp_path / "pools.yaml"
    with (
        _redis_with_a_password(tmp_path / "redis") as redis,
        _serving("127.0.0.2") as other,
        _serving("127.0.0.1", other.place) as site,
        http_proxy(login=("user", SECRETS["proxy"])) as proxy,
    ):
        good, bad = (proxy.url(login=f"user:{SECRETS[place]}") for place in ("proxy", "wrongproxy"))
        pools.write_text(f"pools: {{own: {{list: ['{good}']}}, bad: {{list: ['{bad}']}}}}", encoding="utf-8")
        settings = {"SHOAL_REDIS_URL": redis, "SHOAL_PROXIES_FILE": str(pools)}
        fleet = Shoal(shoal.home, tuple(settings.items()))
        made = fleet.run("keys", "create", "--scope", "submit,read,admin", "--label", "test")
        key = made.out.strip()
        secret = key.split("_", 2)[2]
        assert secret not in made.err
        up = fleet.start("up", "--port", "0", "--json", "--workers", "1")
        try:
            assert up.stdout is not None
            caller = _Caller(json.loads(up.stdout.readline())["url"], key, said)
            urls, hosts = [f"http://{site.place}/"], [other.place]
            job = caller.finish({"urls": urls, "hosts": hosts, "headers": HEADERS, "proxies": "own"})
            refused = json.loads(caller.ask("jobs", {"urls": urls, "headers": HEADERS, "proxies": "bad"}))["id"]
            wait_until(lambda: proxy.refused > 0, within=SOON)
            _look_at_everything(caller, job, refused)
            said += [" ".join(process.cmdline()) for process in fleet.processes()]
            done = [(args, commands.run(*args)) for commands, args in _commands(fleet, job, tmp_path, site.place)]
            said += [f"{args}\n{each.out}\n{each.err}" for args, each in done]
            caller.ask(f"jobs/{refused}/cancel", {})
        finally:
            up.terminate()
            said += [str(text) for text in up.communicate(timeout=60)]
        wait_for_nobody(fleet)
    codes = [each.code for _, each in done]
    assert codes == [0, 0, 0, 0, 0, 1, 1, 2, 2], said
    _check_hosts(site, other)
    _check_what_was_left(shoal, tmp_path, said, secret)


def _check_hosts(site: _Site, other: _Site) -> None:
    """The other host was asked, by a link and by a redirect, and got nothing that was not meant for it."""
    sent = dict(site.heard)["/"]
    assert all(value in sent for value in HEADERS.values())
    assert {path for path, _ in other.heard} == {"/robots.txt", "/linked", "/redirected"}
    for path, headers in [*other.heard, *(ask for ask in site.heard if ask[0] == "/robots.txt")]:
        assert not [each for each in SECRETS.values() if each in headers], path
    assert all("Accept-Language: de" in headers for path, headers in other.heard if path != "/robots.txt")


def _check_what_was_left(shoal: Shoal, folder: Path, said: list[str], key: str) -> None:
    everything = {*SECRETS.values(), key}
    told = {f"said {number}: {text[:80]}": _without_given(text).encode() for number, text in enumerate(said)}
    assert _places_of(everything, told) == []
    database = shoal.home / "shoal.db"
    files = {str(path): path.read_bytes() for path in shoal.home.rglob("*") if path.is_file()}
    logs = {path: text for path, text in files.items() if path.endswith(".log")}
    assert _places_of({IN_A_URL}, logs) == []
    assert b"request_given_up" in b"".join(logs.values())
    others = {path: text for path, text in files.items() if not path.startswith(str(database))}
    assert _places_of(everything, others) == []
    assert not [text for text in logs.values() if b"\r" in text or b"\x1b" in text]
    kept = {path: text for path, text in files.items() if path.startswith(str(database))}
    assert {secret for _, secret in _places_of(everything, kept)} == IN_JOBS
    assert {place for place, _ in _places_of(everything, _cells(database))} == {"jobs.spec"}
    redis = {str(path): path.read_bytes() for path in (folder / "redis").rglob("*") if path.is_file()}
    assert any(b"gone" in text for text in redis.values())
    assert _places_of(everything, redis) == []


def _without_given(text: str) -> str:
    """Without the first line: what the command or the request was."""
    return text.partition("\n")[2] if text.startswith(("(", "jobs", "nothing")) else text
