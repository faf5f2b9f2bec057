"""Where pages go by themselves, and where they do not get to."""

from __future__ import annotations

from datetime import timedelta
from time import monotonic
from typing import Any

import pytest

from shoal.core.url import Url
from tests.contract.render.pages import Tab
from tests.site.server import Server
from tests.site.shop.shop import PRIVATE

LOGIN = [
    {"fill": {"selector": "[name=user]", "text": "ada"}},
    {"fill": {"selector": "[name=password]", "text": "lovelace"}},
    {"click": "#enter"},
]


@pytest.mark.parametrize(
    ("path", "status", "to"), [("/redirects", 301, "/product/1"), ("/redirects-away", 302, PRIVATE)]
)
def test_redirects_are_not_followed(tab: Tab, shop: Server, path: str, status: int, to: str) -> None:
    before = shop.count("/product/1")
    found = tab.render(shop.link(path))
    assert (found.response.status, found.response.header("location")) == (status, to)
    assert (found.document, found.goes_to, found.further) == ("", "", 0)
    assert shop.count("/product/1") == before


@pytest.mark.parametrize("path", ["/to-product", "/to-product-later", "/refreshes"])
def test_a_page_that_goes_elsewhere_is_a_redirect(tab: Tab, shop: Server, path: str) -> None:
    before = shop.count("/product/1")
    found = tab.render(shop.link(path))
    assert found.goes_to == found.response.header("location") == shop.link("/product/1")
    assert found.response.status == 200
    assert b"soon gone" in found.response.wire_body
    assert found.document == ""
    assert shop.count("/product/1") == before


def test_a_page_never_goes_to_a_private_address(tab: Tab, shop: Server) -> None:
    assert tab.render(shop.link("/to-private")).goes_to == PRIVATE


def test_a_page_leads_to_nothing_but_the_web(tab: Tab, shop: Server) -> None:
    assert tab.refuse(shop.link("/to-blank"), {"wait": 0.3}).reason == "not_a_page"
    stays = tab.render(shop.link("/to-file"), {"wait": 0.3})
    assert "soon gone" in stays.document
    assert stays.notes.console == ("Not allowed to load local resource: file:///etc/passwd",)


def test_a_page_that_loads_itself_again_is_asked_for_again(tab: Tab, shop: Server) -> None:
    before = shop.count("/wall")
    began = monotonic()
    found = tab.render(shop.link("/wall"), pause=timedelta(seconds=0.5))
    assert '<p id="said">inside</p>' in found.document
    assert found.further == 1
    assert shop.count("/wall") == before + 2
    assert monotonic() - began > 0.5


def test_a_page_that_loads_itself_for_ever_is_given_up(tab: Tab, shop: Server) -> None:
    before = shop.count("/reloads")
    assert tab.refuse(shop.link("/reloads")).reason == "too_many_navigations"
    assert shop.count("/reloads") == before + 6


def test_a_form_that_a_page_sends_by_itself_is_not_sent(tab: Tab, shop: Server) -> None:
    before = shop.count("/sends")
    found = tab.render(shop.link("/sends"), total=timedelta(seconds=4))
    assert "<p>here</p>" in found.document
    assert found.notes.failed == (f"{shop.link('/sends')} not gone to",)
    assert shop.count("/sends") == before + 1


def test_a_login_leads_to_the_account(tab: Tab, shop: Server) -> None:
    found = tab.render(shop.link("/login"), {"actions": LOGIN})
    assert "Welcome, ada." in found.document
    assert b"Log in" in found.response.wire_body
    assert found.notes.final_url == shop.link("/account")
    assert found.further == 2
    assert "Please log in." in tab.render(shop.link("/account")).document


def test_actions_lead_only_where_robots_txt_lets_them(tab: Tab, shop: Server) -> None:
    asked: list[Url] = []

    async def nowhere(url: Url) -> bool:
        asked.append(url)
        return False

    before = shop.count("/session")
    found = tab.render(shop.link("/login"), {"actions": LOGIN}, may_go=nowhere)
    assert [url.target for url in asked] == ["/session"]
    assert shop.count("/session") == before
    assert found.further == 0
    assert found.notes.failed == (f"{shop.link('/session')} not gone to: robots.txt",)
    assert "<h1>Log in</h1>" in found.document


def test_actions_lead_to_no_other_host(tab: Tab, shop: Server) -> None:
    away = shop.link("/product/9", host="localhost")
    before = shop.count("/product/9")
    found = tab.render(shop.link("/product/1"), {"actions": [{"evaluate": f"location = '{away}', 1"}, {"wait": 0.5}]})
    assert shop.count("/product/9") == before
    assert found.notes.failed == (f"{away} not gone to: another host",)
    assert "Product" in found.document


def test_a_page_stays_when_the_next_one_does_not_answer(tab: Tab, shop: Server) -> None:
    actions: list[dict[str, Any]] = [{"evaluate": "location = '/gone', 1"}, {"wait": 0.5}]
    found = tab.render(shop.link("/product/1"), {"actions": actions})
    assert found.notes.failed == (f"{shop.link('/gone')} not gone to: Failed",)
    assert "Product" in found.document


def test_actions_lead_only_so_far(tab: Tab, shop: Server) -> None:
    onward = [{"click": "#next"}] * 6
    assert tab.render(shop.link("/products"), {"actions": onward[:5]}).further == 5
    assert tab.refuse(shop.link("/products"), {"actions": onward}).reason == "too_many_navigations"


def test_windows_and_dialogs_come_to_nothing(tab: Tab, shop: Server) -> None:
    asked: dict[str, Any] = {"actions": [{"click": "#blank"}, {"wait": 0.3}]}
    found = tab.render(shop.link("/opens"), asked)
    assert '<p id="said">false null</p>' in found.document
    assert shop.count("/opened?by=script") == 0
    assert shop.count("/opened?by=link") == 0


def test_downloads_are_not_taken(tab: Tab, shop: Server) -> None:
    assert tab.refuse(shop.link("/file.zip")).reason == "not_a_page"
    assert tab.render(shop.link("/downloads")).goes_to == shop.link("/file.zip")
    found = tab.render(shop.link("/files"), {"actions": [{"click": "#get"}, {"click": "#kept"}, {"wait": 0.2}]})
    assert "Files" in found.document
    assert found.notes.failed == (
        f"{shop.link('/file.zip')} a download, not taken",
        f"{shop.link('/api/products')} a download, not taken",
    )


def test_service_workers_are_refused(tab: Tab, shop: Server) -> None:
    before = shop.count("/sw.js")
    assert '<p id="said">refused</p>' in tab.render(shop.link("/worker"), {"wait": 0.3}).document
    assert shop.count("/sw.js") == before
