"""What each request carries: who we are, the job's headers, and secrets only where the user sent them."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import cast

from shoal import __version__
from tests.command import Shoal


class _Listener(ThreadingHTTPServer):
    """Answers every request alike and remembers the headers."""

    def __init__(self, host: str, location: str | None = None) -> None:
        super().__init__((host, 0), _Handler)
        self.location = location
        self.heard: dict[str, Message] = {}

    @property
    def url(self) -> str:
        host, port = self.server_address[:2]
        return f"http://{host}:{port}/"


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        listener = cast(_Listener, self.server)
        listener.heard[self.path] = self.headers
        if listener.location:
            self.send_response(302)
            self.send_header("Location", listener.location)
        else:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - http.server's name
        """Say nothing."""


@contextmanager
def _listening(host: str, location: str | None = None) -> Generator[_Listener]:
    with _Listener(host, location) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def test_secrets_do_not_follow_a_redirect_to_another_host(shoal: Shoal) -> None:
    with _listening("127.0.0.2") as other, _listening("127.0.0.1", other.url) as named:
        options = ("--header", "Authorization: Bearer secret", "--header", "Accept-Language: de", "--rate", "unlimited")
        done = shoal.run("scrape", named.url, *options, "--no-robots", "--workers", "1", "--json")
        assert done.code == 0, done.err
        first, second = named.heard["/"], other.heard["/"]
    assert (first["Authorization"], first["Accept-Language"]) == ("Bearer secret", "de")
    assert (second["Authorization"], second["Accept-Language"]) == (None, "de")


def test_we_say_who_we_are_and_how_to_reach_us(shoal: Shoal) -> None:
    named = Shoal(shoal.home, (("SHOAL_CONTACT", "https://crawler.example/about"),))
    with _listening("127.0.0.1") as site:
        done = named.run("scrape", site.url, "--rate", "unlimited", "--workers", "1", "--quiet")
        assert done.code == 0, done.err
        heard = dict(site.heard)
    assert set(heard) == {"/robots.txt", "/"}
    for headers in heard.values():
        assert headers["User-Agent"] == f"Shoal/{__version__} (+https://crawler.example/about)"
        assert headers["Accept-Encoding"] == "gzip, deflate, br, zstd"
