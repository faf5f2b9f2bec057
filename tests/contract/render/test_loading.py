"""Pages are loaded and waited for in a real browser, and come home as they stand."""

from __future__ import annotations

from datetime import timedelta

import pytest

from shoal.render.port import MAX_NOTE, MAX_NOTES
from tests.contract.render.pages import Tab
from tests.site.server import Server

SHORT = timedelta(seconds=4)


def test_a_list_that_a_script_makes_is_in_the_document(tab: Tab, shop: Server) -> None:
    found = tab.render(shop.link("/products?page=2"), {"wait": ".product"})
    assert found.document.startswith("<!DOCTYPE html>\n<html")
    assert found.document.count('<li class="product">') == 20
    assert '<a href="/product/21">' in found.document
    assert found.response.status == 200
    assert b'<ul id="list"></ul>' in found.response.wire_body
    assert found.notes.requests == 1
    assert not found.goes_to


def test_the_rest_of_the_wait_rules(tab: Tab, shop: Server) -> None:
    assert "Rendered late" not in tab.render(shop.link("/app"), {"wait": "parsed"}).document.partition("<script>")[0]
    assert "<h1>Rendered late" in tab.render(shop.link("/app"), {"wait": "idle"}).document.partition("<script>")[0]
    assert "<h1>Rendered late" in tab.render(shop.link("/app"), {"wait": "1s"}).document.partition("<script>")[0]
    assert tab.render(shop.link("/app"), {"wait": "commit"}).response.status == 200


def test_a_selector_that_does_not_come_is_a_failure_with_a_name(tab: Tab, shop: Server) -> None:
    assert tab.refuse(shop.link("/app"), {"wait": "#never"}, total=SHORT).reason == "selector_missing"
    assert tab.refuse(shop.link("/app"), {"require": "#never"}).reason == "selector_missing"
    assert tab.render(shop.link("/app"), {"require": "#app"}).document


def test_a_page_that_never_gets_ready_is_taken_as_it_stands(tab: Tab, shop: Server) -> None:
    found = tab.render(shop.link("/hangs"), total=SHORT)
    assert found.notes.unready == "load"
    assert "all there" in found.document
    assert b"all there" in found.response.wire_body


def test_a_document_that_never_comes_is_a_timeout(tab: Tab, shop: Server) -> None:
    assert tab.refuse(shop.link("/never"), total=timedelta(seconds=2)).reason == "render_timeout"


@pytest.mark.parametrize("path", ["/spins", "/spins-later"])
def test_a_page_that_spins_costs_its_own_deadline_only(tab: Tab, shop: Server, path: str) -> None:
    assert tab.refuse(shop.link(path), {"wait": "idle"}, total=timedelta(seconds=2)).reason == "render_timeout"
    assert "red" in tab.render(shop.link("/product/4")).document


def test_bodies_come_unpacked_and_without_the_headers_of_the_wire(tab: Tab, shop: Server) -> None:
    found = tab.render(shop.link("/packed"))
    assert b"<p>unpacked</p>" in found.response.wire_body
    assert found.response.header("content-encoding") is None
    assert found.response.header("content-length") is None
    assert found.response.content_type == "text/html; charset=utf-8"


@pytest.mark.parametrize(
    ("path", "body"), [("/data.json", b'{"products": 200}'), ("/packed.json", b'{"packed": true}')]
)
def test_what_is_no_document_comes_as_it_is(tab: Tab, shop: Server, path: str, body: bytes) -> None:
    found = tab.render(shop.link(path))
    assert found.response.wire_body == body
    assert found.response.media_type == "application/json"
    assert found.document == ""
    assert found.shots == ()


def test_what_is_no_document_can_be_pictured(tab: Tab, shop: Server) -> None:
    found = tab.render(shop.link("/data.json"), {"screenshot": "view"})
    assert found.response.wire_body == b'{"products": 200}'
    assert found.document == ""
    assert [shot.media_type for shot in found.shots] == ["image/png"]


@pytest.mark.parametrize("path", ["/big", "/big-packed", "/data.json"])
def test_bodies_have_a_cap(tab: Tab, shop: Server, path: str) -> None:
    assert tab.refuse(shop.link(path), max_body=16).reason == "too_large"
    assert tab.refuse(shop.link("/big-packed"), max_body=200_000).reason == "too_large"


def test_a_document_that_a_script_blows_up_has_the_same_cap(tab: Tab, shop: Server) -> None:
    blown = {"actions": [{"evaluate": "document.body.append('x'.repeat(100_000)), 1"}]}
    assert tab.refuse(shop.link("/product/1"), blown, max_body=50_000).reason == "too_large"
    assert len(tab.render(shop.link("/product/1"), blown, max_body=200_000).document) > 100_000


def test_statuses_are_told_and_their_pages_rendered(tab: Tab, shop: Server) -> None:
    busy = tab.render(shop.link("/busy"))
    assert (busy.response.status, busy.response.http_reason) == (503, "Service Unavailable")
    assert "later" in busy.document
    assert busy.notes.failed == ()
    assert tab.render(shop.link("/empty")).response.status == 204
    assert tab.render(shop.link("/nothing")).response.status == 404


def test_errors_of_the_console_and_of_requests_are_noted(tab: Tab, shop: Server) -> None:
    notes = tab.render(shop.link("/errors"), {"wait": 0.2}).notes
    assert set(notes.console) == {"said so", "thrown"}
    assert set(notes.failed) == {
        f"{shop.link('/missing.js')} the server responded with a status of 404 (Not Found)",
        "http://127.0.0.1:1/none.js net::ERR_UNSAFE_PORT",
    }


def test_a_flood_of_messages_is_noted_up_to_a_bound(tab: Tab, shop: Server) -> None:
    notes = tab.render(shop.link("/floods")).notes
    assert (len(notes.console), len(notes.console[0])) == (MAX_NOTES, MAX_NOTE)


def test_the_document_is_what_it_is_whatever_the_page_says(tab: Tab, shop: Server) -> None:
    document = tab.render(shop.link("/tampers")).document
    assert document.startswith("<!DOCTYPE html>")
    assert "<p>true</p>" in document


def test_open_shadow_roots_are_part_of_the_document(tab: Tab, shop: Server) -> None:
    document = tab.render(shop.link("/shadow")).document
    assert '<div id="host"><template shadowrootmode="open"><p>within the root</p>' in document
    assert document.startswith('<!DOCTYPE html>\n<html lang="en"><head>')
    assert document.endswith("</body></html>")


def test_pages_look_as_the_job_asks(tab: Tab, shop: Server) -> None:
    look = "[innerWidth, navigator.language, Intl.DateTimeFormat().resolvedOptions().timeZone, navigator.userAgent]"
    asked = {"viewport": "640x480", "locale": "de-DE", "timezone": "Asia/Tokyo", "actions": [{"evaluate": look}]}
    found = tab.render(shop.link("/product/1"), asked, headers={"User-Agent": "Shoal-Test/1"})
    assert found.notes.evaluated == ([640, "de-DE", "Asia/Tokyo", "Shoal-Test/1"],)
    phone = tab.render(shop.link("/product/1"), {"device": "Pixel 7", "actions": [{"evaluate": "devicePixelRatio"}]})
    assert phone.notes.evaluated[0] > 2
    assert tab.refuse(shop.link("/product/1"), {"device": "Nokia 3310"}).reason == "unknown_device"
