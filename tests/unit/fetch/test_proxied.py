"""Fetching through real proxies on loopback: each kind, logins, and whose fault it is when nothing comes back."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TypeVar, cast

import aiohttp_socks
import pytest
import uvloop

from shoal.core.proxies import Proxy, Verdict, read_proxy, verdict_of
from shoal.core.retry import RETRIED_REASONS
from shoal.core.url import parse
from shoal.errors import FetchError
from shoal.fetch import proxied
from shoal.fetch.http import HttpClient
from shoal.fetch.port import FetchLimits, Response
from shoal.fetch.proxied import SOCKS_ERRORS
from tests.guards import guard_of_loopback
from tests.proxies import Identity, http_proxy, socks_proxy

T = TypeVar("T")

LIMITS = FetchLimits()
MOMENT = timedelta(milliseconds=300)
HURRIED = FetchLimits(connect=MOMENT, first_byte=MOMENT, total=MOMENT)
SECRET = "pa55word"
LOGIN = ("user", SECRET)
NAME = "shop.example"


class Target(ThreadingHTTPServer):
    """Answers with its path, and remembers what it was sent."""

    daemon_threads = True

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.port = self.server_address[1]
        self.heard: list[dict[str, str]] = []
        if tls:
            self.socket = tls.wrap_socket(self.socket, server_side=True)

    def handle_error(self, request: object, client_address: object) -> None:
        """Clients that hang up are part of the tests."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        cast(Target, self.server).heard.append(dict(self.headers.items()))
        status = int(self.path.removeprefix("/status/")) if self.path.startswith("/status/") else 200
        body = self.path.encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - http.server's name
        """Say nothing."""


@contextmanager
def a_target(tls: ssl.SSLContext | None = None) -> Generator[Target]:
    with Target(tls) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture(scope="module")
def identity(tmp_path_factory: pytest.TempPathFactory) -> Identity:
    return Identity.make(tmp_path_factory.mktemp("identity"), NAME)


@pytest.fixture
def target() -> Generator[Target]:
    with a_target() as server:
        yield server


@pytest.fixture
def secure_target(identity: Identity) -> Generator[Target]:
    with a_target(identity.server) as server:
        yield server


def run(main: Callable[[], Awaitable[T]]) -> T:
    """On the event loop that workers use."""

    async def outer() -> T:
        return await main()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(outer())


def fetch(
    url: str, proxy: str | Proxy, tls: ssl.SSLContext | None = None, limits: FetchLimits = LIMITS, times: int = 1
) -> Response:
    async def main() -> Response:
        client = HttpClient("Shoal-Test/1.0", guard_of_loopback(), tls)
        through = read_proxy(proxy) if isinstance(proxy, str) else proxy
        try:
            for _ in range(times - 1):
                await client.fetch(parse(url), {}, limits, through)
            return await client.fetch(parse(url), {}, limits, through)
        finally:
            await client.close()

    return run(main)


def failure(url: str, proxy: str, tls: ssl.SSLContext | None = None, limits: FetchLimits = LIMITS) -> FetchError:
    with pytest.raises(FetchError) as caught:
        fetch(url, proxy, tls, limits)
    error = caught.value
    assert SECRET not in f"{error} {error.detail} {error!r}"
    return error


@contextmanager
def closed_port() -> Generator[int]:
    with socket.socket() as unheard:
        unheard.bind(("127.0.0.1", 0))
        yield unheard.getsockname()[1]


# --- http and https proxies -----------------------------------------------------------------------------------------


def test_an_http_proxy_is_asked_openly_for_an_http_page(target: Target) -> None:
    with http_proxy(hosts={NAME: target.port}) as proxy:
        response = fetch(f"http://{NAME}/a?b=c", proxy.url())
    assert (response.status, response.wire_body) == (200, b"/a?b=c")
    assert proxy.passed == [f"GET http://{NAME}/a?b=c"]
    assert target.heard[0]["Host"] == NAME


def test_an_http_proxy_makes_a_tunnel_to_a_host_with_tls(secure_target: Target, identity: Identity) -> None:
    with http_proxy(hosts={NAME: secure_target.port}) as proxy:
        response = fetch(f"https://{NAME}/secret", proxy.url(), identity.client)
    assert response.wire_body == b"/secret"
    assert proxy.passed == [f"CONNECT {NAME}:443"]


def test_an_https_proxy_is_spoken_to_with_tls(target: Target, secure_target: Target, identity: Identity) -> None:
    with http_proxy(hosts={NAME: secure_target.port}, tls=identity.server, login=LOGIN) as proxy:
        through = proxy.url("https", f"user:{SECRET}")
        assert fetch(f"http://127.0.0.1:{target.port}/open", through, identity.client).wire_body == b"/open"
        assert fetch(f"https://{NAME}/inner", through, identity.client).wire_body == b"/inner"
    assert proxy.passed == [f"GET http://127.0.0.1:{target.port}/open", f"CONNECT {NAME}:443"]


def test_an_https_proxy_must_prove_who_it_is(target: Target, identity: Identity) -> None:
    with http_proxy(tls=identity.server) as proxy:
        error = failure(f"http://127.0.0.1:{target.port}/", proxy.url("https", f"user:{SECRET}"))
    assert error.reason == "proxy_failed"
    assert "certificate" in error.detail
    assert (proxy.passed, proxy.headers, target.heard) == ([], [], [])


def test_the_certificate_of_the_host_is_checked_through_a_tunnel(secure_target: Target) -> None:
    with http_proxy(hosts={NAME: secure_target.port}) as proxy:
        error = failure(f"https://{NAME}/", proxy.url())
    assert error.reason == "tls_untrusted"
    assert secure_target.heard == []


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_login_is_for_the_proxy_and_never_for_the_host(
    scheme: str, target: Target, secure_target: Target, identity: Identity
) -> None:
    server = target if scheme == "http" else secure_target
    with http_proxy(hosts={NAME: server.port}, login=("us er", "pä:ss")) as proxy:
        fetch(f"{scheme}://{NAME}/", proxy.url("http", "us%20er:p%C3%A4:ss"), identity.client)
    assert len(proxy.passed) == 1
    assert proxy.refused == 0
    assert not [name for name in server.heard[0] if "auth" in name.lower() or "proxy" in name.lower()]


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("login", ["", f"user:{SECRET}x"])
def test_a_login_that_a_proxy_does_not_take_is_refused(scheme: str, login: str, target: Target) -> None:
    with http_proxy(login=LOGIN) as proxy:
        error = failure(f"{scheme}://127.0.0.1:{target.port}/", proxy.url("http", login))
    assert error.reason == "proxy_refused"
    assert (proxy.passed, target.heard) == ([], [])
    assert verdict_of(error) is Verdict.REFUSED


def test_two_logins_do_not_share_a_connection(target: Target) -> None:
    with http_proxy(login=LOGIN) as proxy:
        fetch(f"http://127.0.0.1:{target.port}/", proxy.url("http", f"user:{SECRET}"))
        assert failure(f"http://127.0.0.1:{target.port}/", proxy.url("http", "other:pw")).reason == "proxy_refused"


@pytest.mark.parametrize("scheme", ["http", "https", "socks5", "socks5h"])
@pytest.mark.parametrize("target_scheme", ["http", "https"])
def test_a_proxy_that_is_not_there_has_failed(scheme: str, target_scheme: str) -> None:
    with closed_port() as port:
        error = failure(f"{target_scheme}://127.0.0.1:9/", f"{scheme}://user:{SECRET}@127.0.0.1:{port}")
    assert (error.reason, error.detail) == ("proxy_failed", f"cannot connect to {scheme}://***@127.0.0.1:{port}")
    assert verdict_of(error) is Verdict.FAILED


@pytest.mark.parametrize("scheme", ["http", "socks5h"])
def test_a_proxy_whose_name_leads_nowhere_has_failed(scheme: str) -> None:
    error = failure("http://127.0.0.1:9/", f"{scheme}://user:{SECRET}@nowhere.invalid:8000")
    assert error.reason == "proxy_failed"


@pytest.mark.parametrize("target_scheme", ["http", "https"])
def test_a_proxy_that_hangs_up_has_failed(target_scheme: str, target: Target) -> None:
    with http_proxy(resets=True) as proxy:
        error = failure(f"{target_scheme}://127.0.0.1:{target.port}/", proxy.url("http", f"user:{SECRET}"))
    assert error.reason == "proxy_failed"


@pytest.mark.parametrize("status", [403, 502, 503, 504])
def test_a_tunnel_that_does_not_come_about_may_be_the_fault_of_either(status: int) -> None:
    with http_proxy(status=status) as proxy:
        error = failure("https://127.0.0.1:9/", proxy.url("http", f"user:{SECRET}"))
    assert error.reason == "proxy_gateway"
    assert str(status) in error.detail
    assert verdict_of(error) is Verdict.DOUBTFUL


def test_a_dead_host_behind_an_open_proxy_is_an_answer_of_the_proxy() -> None:
    with http_proxy() as proxy, closed_port() as port:
        response = fetch(f"http://127.0.0.1:{port}/", proxy.url())
    assert response.status == 502
    assert verdict_of(FetchError("http_502")) is Verdict.NONE


@pytest.mark.parametrize("scheme", ["http", "socks5h"])
def test_a_proxy_that_makes_no_tunnel_in_time_is_doubtful(scheme: str) -> None:
    with http_proxy(silent=True) as proxy:
        error = failure("https://127.0.0.1:9/", proxy.url(scheme), limits=HURRIED)
    assert error.reason == "proxy_gateway"


def test_a_host_that_keeps_silent_behind_a_proxy_is_slow() -> None:
    with http_proxy(silent=True) as silent, http_proxy() as proxy:
        error = failure(f"http://127.0.0.1:{silent.port}/", proxy.url(), limits=HURRIED)
    assert error.reason.startswith("timeout_")
    assert verdict_of(error) is Verdict.NONE


def test_a_host_that_asks_for_a_login_itself_is_not_the_proxys_fault(secure_target: Target, identity: Identity) -> None:
    with http_proxy(hosts={NAME: secure_target.port}) as proxy:
        assert fetch(f"https://{NAME}/status/407", proxy.url(), identity.client).status == 407


@pytest.mark.parametrize("scheme", ["http", "socks5h"])
def test_a_tunnel_is_used_again(scheme: str, secure_target: Target, identity: Identity) -> None:
    start = http_proxy if scheme == "http" else socks_proxy
    with start(hosts={NAME: secure_target.port}, login=LOGIN) as proxy:
        fetch(f"https://{NAME}/", proxy.url(scheme, f"user:{SECRET}"), identity.client, times=3)
        assert (proxy.connections, len(secure_target.heard)) == (1, 3)


# --- SOCKS ----------------------------------------------------------------------------------------------------------


def test_a_socks_proxy_passes_bytes_on(target: Target) -> None:
    with socks_proxy() as proxy:
        assert fetch(f"http://127.0.0.1:{target.port}/a", proxy.url("socks5")).wire_body == b"/a"
    assert proxy.passed == [f"CONNECT 127.0.0.1:{target.port}"]


def test_socks5h_leaves_names_to_the_proxy(target: Target, secure_target: Target, identity: Identity) -> None:
    with socks_proxy(hosts={NAME: target.port}, login=LOGIN) as proxy:
        assert fetch(f"http://{NAME}/a", proxy.url("socks5h", f"user:{SECRET}")).wire_body == b"/a"
        proxy.hosts[NAME] = secure_target.port
        assert fetch(f"https://{NAME}/b", proxy.url("socks5h", f"user:{SECRET}"), identity.client).status == 200
    assert proxy.passed == [f"CONNECT {NAME}:80", f"CONNECT {NAME}:443"]


def test_socks5_looks_names_up_itself(target: Target) -> None:
    with socks_proxy() as proxy:
        fetch(f"http://localhost:{target.port}/", proxy.url("socks5"))
        assert failure("http://nowhere.invalid/", proxy.url("socks5")).reason in ("dns_not_found", "dns_failed")
    assert "localhost" not in proxy.passed[0]
    assert len(proxy.passed) == 1


@pytest.mark.parametrize("login", ["", f"user:{SECRET}x"])
def test_a_login_that_a_socks_proxy_does_not_take_is_refused(login: str, target: Target) -> None:
    with socks_proxy(login=LOGIN) as proxy:
        error = failure(f"http://127.0.0.1:{target.port}/", proxy.url("socks5", login))
    assert (error.reason, proxy.refused) == ("proxy_refused", 1)


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (1, "proxy_gateway"),
        (2, "proxy_gateway"),
        (3, "connect_failed"),
        (4, "connect_failed"),
        (5, "connect_refused"),
        (6, "connect_failed"),
        (7, "proxy_gateway"),
        (8, "proxy_gateway"),
        (99, "proxy_failed"),
    ],
)
def test_what_a_socks_proxy_says_is_believed(code: int, reason: str) -> None:
    with socks_proxy(status=code) as proxy:
        assert failure("http://127.0.0.1:9/", proxy.url("socks5", f"user:{SECRET}")).reason == reason


def test_a_socks_proxy_that_hangs_up_has_failed() -> None:
    with socks_proxy(resets=True) as proxy:
        assert failure("http://127.0.0.1:9/", proxy.url("socks5")).reason == "proxy_failed"


def test_a_socks_proxy_that_ends_in_the_middle_of_a_word_has_failed() -> None:
    with socks_proxy(mumbles=True) as proxy:
        assert failure("http://127.0.0.1:9/", proxy.url("socks5")).reason == "proxy_failed"


def test_the_certificate_of_the_host_is_checked_through_socks(secure_target: Target) -> None:
    with socks_proxy(hosts={NAME: secure_target.port}) as proxy:
        assert failure(f"https://{NAME}/", proxy.url("socks5h")).reason == "tls_untrusted"


def test_only_the_socks_sessions_used_last_are_kept(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxied, "MAX_SOCKS_SESSIONS", 2)
    url = parse(f"http://127.0.0.1:{target.port}/")

    async def main(proxies: list[Proxy]) -> None:
        client = HttpClient("x", guard_of_loopback())
        for proxy in [*proxies, proxies[-1]]:
            await client.fetch(url, {}, LIMITS, proxy)
        together = await asyncio.gather(*(client.fetch(url, {}, LIMITS, proxy) for proxy in proxies))
        assert {response.status for response in together} == {200}
        await client.close()

    with socks_proxy() as a, socks_proxy() as b, socks_proxy() as c:
        run(lambda: main([read_proxy(proxy.url("socks5")) for proxy in (a, b, c)]))
        # The first was dropped for the third, and had to be connected to once more; nobody was cut off meanwhile.
        assert [a.connections, b.connections, c.connections] == [2, 1, 1]


def test_no_exception_of_the_socks_library_is_left_out() -> None:
    kinds = {each for each in vars(aiohttp_socks).values() if isinstance(each, type) and issubclass(each, Exception)}
    assert {each for each in kinds if each.__module__.startswith("aiohttp_socks")} == set(SOCKS_ERRORS)


def test_what_fails_at_a_proxy_is_tried_again() -> None:
    assert {"proxy_failed", "proxy_refused", "proxy_gateway", "proxy_wait"} <= RETRIED_REASONS
