"""The sample sites tell the truth about themselves, and the server serves them over real sockets."""

from __future__ import annotations

import gzip
import re
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from http.client import HTTPConnection, RemoteDisconnected
from pathlib import Path
from threading import Thread
from typing import Any, cast
from urllib.robotparser import RobotFileParser

import brotli
import can_ada
import pytest
import zstandard
from selectolax.lexbor import LexborHTMLParser

from tests.site.bookshop import Bookshop
from tests.site.disguise import FORMS, canonical
from tests.site.generated import LinkedSite, SlowSite, StatusSite, page_target
from tests.site.hits import read_hits
from tests.site.reply import Reply, Responder, page
from tests.site.server import Server, serve

ROOT = Path(__file__).parents[2]
SHOP = Bookshop()
FACTS = SHOP.facts()


class Crawl:
    """A correct crawl in memory: breadth first, polite, canonicalising, with one retry."""

    def __init__(self, site: Responder, origin: str) -> None:
        self.site = site
        self.origin = origin
        self.replies: dict[str, Reply] = {}
        self.trees: dict[str, LexborHTMLParser] = {}
        self.blocked: set[str] = set()
        self.robots = RobotFileParser()
        self.robots.parse(site.respond("/robots.txt", 1).body.decode().splitlines())
        self.frontier = ["/"]

    def run(self) -> Crawl:
        for target in self.frontier:
            if not self.robots.can_fetch("test", target):
                self.blocked.add(target)
            elif target not in self.replies:
                self._visit(target)
        return self

    def _visit(self, target: str) -> None:
        reply = self.site.respond(target, 1)
        if reply.status == 503:
            reply = self.site.respond(target, 2)
        self.replies[target] = reply
        hrefs = [location] if (location := reply.header("Location")) else self._hrefs(target, reply)
        base = self.trees[target].css_first("base") if target in self.trees else None
        root = self.origin + target if base is None else self.origin + (base.attributes["href"] or "")
        self.frontier += [found for href in hrefs if (found := self._resolve(root, href))]

    def _hrefs(self, target: str, reply: Reply) -> list[str]:
        if reply.status != 200 or "html" not in (reply.header("Content-Type") or ""):
            return []
        self.trees[target] = tree = LexborHTMLParser(decode(reply))
        anchors = tree.css("a[href]:not([rel~=nofollow])")
        return [anchor.attributes["href"] or "" for anchor in anchors]

    def _resolve(self, base: str, href: str) -> str | None:
        try:
            url = can_ada.parse(base) + href
        except ValueError:
            return None
        return canonical(url.pathname + url.search) if url.origin == self.origin else None


def decode(reply: Reply) -> str:
    encoding = reply.header("Content-Encoding")
    body = reply.body
    if encoding == "gzip":
        body = gzip.decompress(body)
    elif encoding == "br":
        body = cast("bytes", cast("Any", brotli).decompress(body))
    elif encoding == "zstd":
        body = zstandard.ZstdDecompressor().decompress(body)
    declared = re.search(rb'charset="?([\w-]+)', (reply.header("Content-Type") or "").encode() + body)
    return body.decode(declared[1].decode() if declared else "utf-8")


@pytest.fixture(scope="module")
def crawl() -> Crawl:
    return Crawl(SHOP, SHOP.origin).run()


def test_a_crawl_finds_exactly_the_facts(crawl: Crawl) -> None:
    assert set(crawl.trees) == FACTS.pages
    assert set(crawl.replies) == FACTS.requests
    assert crawl.blocked == FACTS.blocked
    assert 290 <= len(FACTS.pages) <= 310
    assert FACTS.books == len(FACTS.book_pages) == 200
    assert not FACTS.nofollow & FACTS.requests


def test_facts_state_what_each_target_answers(crawl: Crawl) -> None:
    for target, hop in {**FACTS.redirects, **FACTS.leaving}.items():
        location = crawl.replies[target].header("Location") or ""
        assert location.removeprefix(SHOP.origin) == hop
    statuses = {target: crawl.replies[target].status for target in FACTS.dead}
    assert statuses == {target: int(reason.replace("dropped", "0")) for target, reason in FACTS.dead.items()}
    assert {crawl.replies[target].status for target in FACTS.loops} == {302}
    assert {crawl.replies[target].delay for target in FACTS.slow} == {1.0}
    assert {SHOP.respond(target, 1).header("Retry-After") for target in FACTS.flaky} == {"1"}


def test_headings_survive_charsets_and_encodings(crawl: Crawl) -> None:
    headings = {target: text(tree, "h1") for target, tree in crawl.trees.items()}
    assert headings == FACTS.headings
    assert headings["/foreign/hyoshi"] == "表紙の美しい本"


def test_book_pages_show_the_catalogue(crawl: Crawl) -> None:
    for book in SHOP.books:
        tree = crawl.trees[book.path]
        shown = (text(tree, "h1"), text(tree, ".price"), text(tree, ".stock"), text(tree, ".description"))
        assert shown == (book.title, book.price, book.stock, book.description)
        assert tuple(node.text() for node in tree.css(".tag")) == book.tags
        assert tree.css("img")[0].attributes["src"] == book.cover
        assert SHOP.respond(book.cover, 1).status == 200


def test_every_disguise_of_an_address_is_that_address() -> None:
    for origin in ("http://shop.invalid", "http://127.0.0.1:8765"):
        for target in ("/books/x", "/category/x?page=2&sort=title"):
            urls = [can_ada.parse(origin + "/a/b") + form(origin, target) for form in FORMS]
            assert {(url.origin, canonical(url.pathname + url.search)) for url in urls} == {(origin, target)}


def test_a_shop_is_fixed_by_its_seed_and_facts_do_not_depend_on_its_address() -> None:
    moved = Bookshop().at("http://127.0.0.1:8765")
    assert moved.facts() == FACTS
    assert Bookshop().respond("/", 1) == SHOP.respond("/", 1)
    assert Bookshop(seed=2).books != SHOP.books
    assert b"http://127.0.0.1:8765/" in moved.respond("/", 1).body


def test_a_linked_site_is_shallow_and_of_the_asked_size() -> None:
    site = LinkedSite(pages=500, links=20, size=9_000)
    crawl = Crawl(site, "http://linked.invalid").run()
    assert set(crawl.replies) == {page_target(number) for number in range(500)}
    assert all(abs(len(reply.body) - 9_000) < 1_000 for reply in crawl.replies.values())
    assert len(crawl.trees["/p/7"].css("a")) == 20
    assert crawl.trees["/p/499"].css_first(".price") is not None
    assert [site.respond(target, 1).status for target in ("/p/500", "/p/x", "/q", "/p/0")] == [
        404,
        404,
        404,
        200,
    ]


def test_scripted_replies_follow_the_hit_count() -> None:
    site = StatusSite({"/": [Reply(503), page("fine")]})
    assert [site.respond("/", hits).status for hits in (1, 2, 3)] == [503, 200, 200]


def text(tree: LexborHTMLParser, selector: str) -> str:
    return tree.css(selector)[0].text()


@contextmanager
def connected(server: Server) -> Generator[HTTPConnection]:
    client = HTTPConnection(server.hosts[0], server.port, timeout=10)
    try:
        yield client
    finally:
        client.close()


def get(client: HTTPConnection, target: str, **headers: str) -> tuple[int, bytes]:
    client.request("GET", target, headers=headers)
    response = client.getresponse()
    return response.status, response.read()


def test_the_server_keeps_connections_and_counts() -> None:
    with serve(SHOP) as server, connected(server) as client:
        assert get(client, "/")[1].count(server.url.encode()) > 0
        kept = client.sock
        assert [get(client, "/desk/busy")[0] for _ in range(3)] == [503, 200, 200]
        client.request("HEAD", "/about")
        assert client.getresponse().headers["Content-Type"] == "text/html; charset=utf-8"
        assert client.sock is kept
        assert (server.count("/desk/busy"), server.count("/nowhere")) == (3, 0)
        assert [hit.target for hit in server.hits] == ["/", *["/desk/busy"] * 3, "/about"]


def test_each_host_header_is_a_host_of_its_own() -> None:
    with serve(SHOP, hosts=("127.0.0.1", "127.0.0.2", "localhost")) as server:
        for host in server.hosts:
            client = HTTPConnection(host, server.port, timeout=10)
            assert get(client, "/desk/busy")[0] == 503
            assert server.link("/", host).encode() in get(client, "/")[1]
            client.close()
        assert {hit.host_header for hit in server.hits} == {f"{host}:{server.port}" for host in server.hosts}
        assert server.count("/desk/busy") == 3


def test_the_server_is_for_loopback_only() -> None:
    with pytest.raises(ValueError, match="loopback"), serve(SHOP, hosts=("0.0.0.0",)):
        pass


def test_dropped_and_truncated_replies_close_the_connection() -> None:
    half = Reply(body=b"x" * 100, drop=True)
    with serve(StatusSite({"/gone": [Reply(drop=True)], "/half": [half]})) as server:
        with connected(server) as client, pytest.raises(RemoteDisconnected):
            get(client, "/gone")
        with connected(server) as client:
            client.request("GET", "/half")
            response = client.getresponse()
            assert response.headers["Content-Length"] == "100"
            with pytest.raises(Exception, match="50 bytes read"):
                response.read()


def test_slow_replies_overlap_and_are_seen_in_flight() -> None:
    with serve(SlowSite(delay=0.2, pages=4)) as server:
        clients = [HTTPConnection("127.0.0.1", server.port, timeout=10) for _ in range(3)]
        threads = [Thread(target=get, args=(client, "/p/1")) for client in clients]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for client in clients:
            client.close()
        assert sorted(hit.in_flight for hit in server.hits) == [1, 2, 3]


def test_the_command_serves_logs_and_stops(tmp_path: Path) -> None:
    log = tmp_path / "hits.jsonl"
    command = [sys.executable, "-m", "tests.site", "--port", "0", "--log", str(log), "--site", "bookshop"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        announced = re.fullmatch(r"serving bookshop on http://127\.0\.0\.1:(\d+)/\n", process.stdout.readline())
        assert announced
        client = HTTPConnection("127.0.0.1", int(announced[1]), timeout=10)
        assert get(client, "/about", Host="shop.invalid")[0] == 200
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0
        client.close()
    assert [(hit.host_header, hit.target, hit.status) for hit in read_hits(log)] == [("shop.invalid", "/about", 200)]
