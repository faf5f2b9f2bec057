"""What pages ask for besides themselves: kinds, hosts and numbers that a job leaves out, and headers that stay home."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from shoal.core.browsing import Browsing
from shoal.core.url import parse
from shoal.errors import FetchError
from shoal.render.port import Order
from tests.contract.render.pages import OpenGate, Tab
from tests.contract.render.witness import Witness, witnessing
from tests.site.server import Server


@pytest.fixture
def witness() -> Generator[Witness]:
    with witnessing() as running:
        yield running


def test_pictures_fonts_and_films_are_left_out_unless_the_job_says_otherwise(tab: Tab, shop: Server) -> None:
    before = shop.count("/a.png")
    notes = tab.render(shop.link("/heavy")).notes
    assert (notes.requests, notes.blocked) == (2, 3)
    assert shop.count("/a.png") == before
    assert notes.failed == ()
    everything = tab.render(shop.link("/heavy"), {"block": []}).notes
    assert (everything.requests, everything.blocked) == (5, 0)
    assert shop.count("/a.png") == before + 1
    least = tab.render(shop.link("/heavy"), {"block": ["image", "media", "stylesheet", "script"]}).notes
    assert (least.requests, least.blocked) == (0, 5)


def test_hosts_that_a_job_leaves_out_are_not_asked(tab: Tab, witness: Witness) -> None:
    witness.pages["/page"] = f'<script src="{witness.link("/ad.js", "localhost")}"></script>'
    notes = tab.render(witness.link("/page"), {"block_hosts": ["localhost"]}).notes
    assert (notes.blocked, [path for _, path, _ in witness.asked]) == (1, ["/page"])
    tab.render(witness.link("/page"))
    assert [path for _, path, _ in witness.asked] == ["/page", "/page", "/ad.js"]


def test_a_page_asks_for_no_more_than_its_number(tab: Tab, shop: Server) -> None:
    notes = tab.render(shop.link("/many"), {"resources": 10, "wait": "idle"}).notes
    assert (notes.requests, notes.blocked) == (10, 40)


def test_headers_and_cookies_go_to_the_pages_origin_only(tab: Tab, witness: Witness) -> None:
    witness.pages["/page"] = (
        f"<script src='/own.js'></script><script src='/away.js'></script><script>fetch('/api');"
        f"fetch('{witness.link('/other', 'localhost')}');</script>"
        f"<iframe src='{witness.link('/frame', 'localhost')}'></iframe>"
    )
    witness.pages["/away.js"] = f"→ {witness.link('/landed.js', 'localhost')}"
    witness.pages["/frame"] = f"<script src='{witness.link('/back.js')}'></script><script src='/in-frame.js'></script>"
    headers = {"X-Token": "secret", "Authorization": "Bearer secret", "Accept": "nothing", "Cookie": "old=1"}
    given = {"headers": headers, "secret_headers": frozenset({"x-token", "authorization"}), "cookies": {"id": "7"}}
    tab.render(witness.link("/page"), {"wait": "idle"}, **given)
    for path in ("/page", "/own.js", "/api", "/away.js"):
        seen = witness.headers(path)
        assert (seen["x-token"], seen["authorization"], seen["cookie"]) == ("secret", "Bearer secret", "old=1; id=7")
        assert seen["accept"] != "nothing"
    for path in ("/other", "/frame", "/in-frame.js", "/landed.js"):
        assert not {"x-token", "authorization", "cookie"} & set(witness.headers(path, "localhost")), path


def test_what_the_gate_refuses_has_the_gates_reason(tab: Tab, shop: Server) -> None:
    gate = OpenGate({("127.0.0.1", 9): FetchError("blocked_address", "not there")})
    order = Order(parse("http://127.0.0.1:9/"), Browsing())
    with pytest.raises(FetchError) as caught:
        tab.run(tab.rendered(order, gate))
    assert caught.value.reason == "blocked_address"


def test_an_answer_of_the_gate_is_told_from_that_of_a_server(tab: Tab, shop: Server) -> None:
    order = Order(parse(shop.link("/refused")), Browsing())
    assert tab.run(tab.rendered(order)).response.status == 403
    gate = OpenGate({("127.0.0.1", shop.port): FetchError("blocked_address", "not there")})
    with pytest.raises(FetchError, match="blocked_address"):
        tab.run(tab.rendered(order, gate))


def test_requests_of_workers_are_judged_as_well(tab: Tab, shop: Server) -> None:
    tab.render(shop.link("/works"), {"wait": "idle"})
    assert shop.count("/api/products?by=worker") == 1
    tab.render(shop.link("/works"), {"wait": "idle", "block": ["xhr"]})
    assert shop.count("/api/products?by=worker") == 1


def test_connections_that_fail_have_their_reasons(tab: Tab) -> None:
    assert tab.refuse("http://127.0.0.1:59/").reason == "connect_refused"
    assert tab.refuse("http://127.0.0.1:1/").reason == "bad_url"
    assert tab.refuse("http://nowhere.invalid/").reason == "dns_not_found"
