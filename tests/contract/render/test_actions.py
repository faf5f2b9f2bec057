"""What a job does on a page: with real clicks, in a real browser."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any, cast

import pytest

from shoal.core.browsing import Browsing
from shoal.core.url import parse
from shoal.errors import FetchError
from shoal.render import actions
from shoal.render.actions import MAX_RESULT
from shoal.render.page import render_page
from shoal.render.port import Order
from shoal.render.session import Session
from tests.contract.render.pages import OpenGate, Tab
from tests.site.server import Server
from tests.site.shop import PRODUCTS

SHORT = timedelta(seconds=3)
SEARCH: list[dict[str, Any]] = [
    {"fill": {"selector": "[name=q]", "text": "kettle"}},
    {"select": {"selector": "[name=order]", "value": "by name"}},
]


@pytest.mark.parametrize(
    "send", [{"click": "#search button"}, {"press": {"key": "Enter", "selector": "[name=q]"}}], ids=["click", "press"]
)
def test_a_form_is_filled_and_sent(tab: Tab, shop: Server, send: dict[str, Any]) -> None:
    found = tab.render(shop.link("/search"), {"actions": [*SEARCH, send, {"wait": ".product"}]})
    assert '<p id="said">kettle by name</p>' in found.document
    assert found.document.count('<li class="product">') == 20
    assert found.notes.final_url == ""


def test_an_endless_list_is_scrolled_to_its_end(tab: Tab, shop: Server) -> None:
    assert tab.render(shop.link("/endless"), {"wait": ".product"}).document.count('class="product"') == 20
    found = tab.render(shop.link("/endless"), {"actions": [{"scroll": "end"}]})
    assert found.document.count('class="product"') == PRODUCTS


def test_an_endless_list_is_scrolled_as_far_as_the_job_says(tab: Tab, shop: Server) -> None:
    found = tab.render(shop.link("/endless"), {"actions": [{"wait": ".product"}, {"scroll": 4}, {"wait": 0.3}]})
    assert 20 < found.document.count('class="product"') < PRODUCTS


@pytest.mark.parametrize(
    ("script", "value"),
    [
        ("document.title", "Product"),
        ("({list: [1, 2.5, null], text: 'ü'})", {"list": [1, 2.5, None], "text": "ü"}),
        ("() => document.querySelectorAll('h2').length", 1),
        ("new Promise((go) => setTimeout(() => go('later'), 50))", "later"),
        ("async () => [await 5]", [5]),
        ("undefined", None),
    ],
)
def test_what_a_script_returns_is_kept(tab: Tab, shop: Server, script: str, value: object) -> None:
    found = tab.render(shop.link("/product/1"), {"actions": [{"evaluate": script}]})
    assert found.notes.evaluated == (value,)


@pytest.mark.parametrize(
    "action",
    [
        {"evaluate": "throw new Error('no')"},
        {"evaluate": "this is no script"},
        {"evaluate": f"'x'.repeat({MAX_RESULT + 1})"},
        {"evaluate": f"['x'.repeat({MAX_RESULT + 1})]"},
        {"evaluate": "const round = {}; round.round = round; round"},
        {"select": {"selector": "h1", "value": "x"}},
        {"press": "NoSuchKey"},
    ],
)
def test_an_action_that_cannot_be_done_has_a_reason(tab: Tab, shop: Server, action: dict[str, Any]) -> None:
    assert tab.refuse(shop.link("/product/1"), {"actions": [action]}).reason == "action_failed"
    tab.render(shop.link("/product/1"), {"actions": [{**action, "optional": True}]})


def test_an_action_that_finds_nothing_fails_unless_it_is_optional(tab: Tab, shop: Server) -> None:
    refused = tab.refuse(shop.link("/product/1"), {"actions": [{"click": "#none"}]}, total=SHORT)
    told = "click '#none': nothing there to do it with, or it cannot be acted on"
    assert (refused.reason, refused.detail) == ("action_failed", told)
    waited = tab.refuse(shop.link("/product/1"), {"actions": [{"wait": "#none"}]}, total=SHORT)
    assert waited.reason == "selector_missing"
    both = {"actions": [{"click": "#none", "optional": True}, {"evaluate": "7"}]}
    assert tab.render(shop.link("/product/1"), both).notes.evaluated == (7,)


def test_a_page_that_crashes_is_told_apart(tab: Tab, shop: Server) -> None:
    async def crash() -> None:
        order = Order(parse(shop.link("/hangs")), Browsing(), total=timedelta(seconds=20))
        context = await tab.context(order)
        rendering = asyncio.create_task(render_page(context, order, OpenGate()))
        try:
            await context.wait_for_event("page")
            session = cast("Session", await context.new_cdp_session(context.pages[0]))
            await context.pages[0].wait_for_selector("p")
            crashing = asyncio.create_task(session.send("Page.crash"))
            with pytest.raises(FetchError, match="page_crashed"):
                await rendering
            crashing.cancel()
        finally:
            await context.close()

    tab.run(crash())
    assert tab.render(shop.link("/product/1")).document


def test_a_context_that_is_closed_ends_its_page(tab: Tab, shop: Server) -> None:
    async def close() -> None:
        order = Order(parse(shop.link("/hangs")), Browsing(), total=timedelta(seconds=20))
        context = await tab.context(order)
        rendering = asyncio.create_task(render_page(context, order, OpenGate()))
        await context.wait_for_event("page")
        await context.pages[0].wait_for_selector("p")
        await context.close()
        with pytest.raises(FetchError, match="browser_crashed"):
            await rendering

    tab.run(close())


def test_a_script_that_takes_too_long_fails_its_action_and_is_left_out_when_it_is_optional(
    tab: Tab, shop: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(actions, "ACTION_S", 0.3)
    monkeypatch.setattr(actions, "OPTIONAL_S", 0.3)
    slow = {"evaluate": "new Promise(() => {})"}
    assert tab.refuse(shop.link("/product/1"), {"actions": [slow]}).reason == "action_failed"
    both = {"actions": [{**slow, "optional": True}, {"evaluate": "7"}]}
    assert tab.render(shop.link("/product/1"), both).notes.evaluated == (7,)
