"""A real browser behind the gate, with a page that tries every way out. Canaries listen where none may lead."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta
from itertools import cycle
from typing import TYPE_CHECKING

import pytest

from shoal.core.browsing import Browsing
from shoal.core.egress import Egress
from shoal.core.url import parse
from shoal.fetch import guard as guards
from shoal.fetch.guard import Guard
from shoal.render.browser import Browser
from shoal.render.gate import Gate, Terms
from shoal.render.page import context_options
from shoal.render.port import Order
from tests.conftest import lack
from tests.contract.render.hostile_page import ALSO, CLOSED, HOSTS, PAGE, VIA_HTTP, Birds, birds, kind_of, site
from tests.guards import HERE
from tests.unit.render.hosts import host

if TYPE_CHECKING:
    from playwright.async_api import Page

pytestmark = pytest.mark.slow

BROWSER = "chromium-headless-shell"
REFUSALS = ("403 blocked_address", "Page.goto: net::ERR_TUNNEL_CONNECTION_FAILED")
PATIENCE_MS = 60_000


def _executable() -> str:
    path = shutil.which(BROWSER)
    if path is None:
        lack(f"{BROWSER} is not on the PATH, and is the browser of some tests")
    return path


@asynccontextmanager
async def _browser() -> AsyncGenerator[Browser]:
    """As a worker starts it."""
    browser = await Browser.start(_executable())
    try:
        yield browser
    finally:
        await browser.close()


@asynccontextmanager
async def _page(browser: Browser, gate: Gate) -> AsyncGenerator[Page]:
    """In a context as each page of a job has it."""
    order = Order(parse("http://127.0.0.1/"), Browsing())
    context = await browser.context(context_options(order, gate.url, browser.devices))
    context.set_default_timeout(PATIENCE_MS)
    try:
        yield await context.new_page()
    finally:
        await context.close()


@asynccontextmanager
async def _free_page() -> AsyncGenerator[Page]:
    """In a browser that goes where it likes."""
    try:
        from playwright.async_api import async_playwright
    except ImportError:
        lack("playwright is not installed, and steers the browser of some tests")
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=_executable(), chromium_sandbox=False)
        try:
            yield await browser.new_page()
        finally:
            await browser.close()


@asynccontextmanager
async def _gate(allow: str, local: str = "", lookup: guards.Lookup = lambda _: ["127.0.0.1"]) -> AsyncGenerator[Gate]:
    guard = Guard(Egress.read(allow), lookup)
    gate = await Gate.open(guard)
    terms = Terms(local=frozenset({local}), resource_rate=2_000, total=timedelta(minutes=2), connections_in_all=10_000)
    gate.begin(terms)
    try:
        yield gate
    finally:
        await gate.close()
        guard.close()


@asynccontextmanager
async def _hostile(allow: str) -> AsyncGenerator[tuple[Birds, str, Gate]]:
    """The hostile page, its canaries, and a gate that allows this besides the page itself."""
    async with birds() as found:
        values = {"hosts": json.dumps([*HOSTS, *ALSO]), "port": found.port, "udp": found.udp}
        async with site({"/": PAGE.substitute(values)}) as port, _gate(allow, f"127.0.0.1:{port}") as gate:
            yield found, f"http://127.0.0.1:{port}/", gate


async def _visit(page: Page, url: str) -> list[str]:
    """Until the page has tried everything; errors of its scripts."""
    await page.goto(url)
    await page.wait_for_function("document.title === 'tried'", timeout=PATIENCE_MS)
    return await page.evaluate("window.failed")


async def _visit_as_a_job(allow: str) -> tuple[Birds, int, list[str]]:
    """(canaries, refusals, scripts' errors)"""
    async with _hostile(allow) as (found, url, gate):
        async with _browser() as browser, _page(browser, gate) as page:
            failed = await _visit(page, url)
        return found, gate.end().refused, failed


def test_no_way_out_of_a_page_leads_to_this_machine() -> None:
    found, refused, failed = asyncio.run(_visit_as_a_job(allow=""))
    assert (found.ways, found.datagrams, failed) == ([], [], [])
    assert refused > len(VIA_HTTP)


def test_each_of_these_ways_leads_there_when_the_gate_judges_nobody() -> None:
    found, _, failed = asyncio.run(_visit_as_a_job(allow=HERE))
    assert (set(VIA_HTTP) - set(found.ways), failed) == (set(), [])
    assert not set(CLOSED) & set(found.ways), "the browser itself does not go these"
    assert found.datagrams == []


def test_datagrams_of_all_kinds_leave_a_browser_that_is_free() -> None:
    async def main() -> Birds:
        async with _hostile("") as (found, url, _), _free_page() as page:
            await _visit(page, url)
            return found

    found = asyncio.run(main())
    assert {kind_of(datagram) for datagram in found.datagrams} >= {"stun", "quic"}
    assert set(CLOSED) <= set(found.ways)


async def _go(page: Page, url: str) -> str:
    """What becomes of a navigation: its status and what the gate says, or an error of the browser's."""
    from playwright.async_api import Error

    try:
        answer = await page.goto(url)
    except Error as exc:
        return str(exc).partition(" at ")[0]
    return f"{answer.status} {answer.headers.get('x-shoal-reason', '')}".strip() if answer else ""


@pytest.mark.parametrize(("allow", "led"), [("", False), (HERE, True)])
def test_no_navigation_and_no_redirect_leads_to_this_machine_unless_allowed(allow: str, led: bool) -> None:
    async def main() -> None:
        async with birds() as found, site({}) as port, _gate(allow, f"127.0.0.1:{port}") as gate, _browser() as browser:
            for name in HOSTS:
                found.ways.clear()
                for scheme, start in (("http", ""), ("http", f"http://127.0.0.1:{port}/go?"), ("https", "")):
                    async with _page(browser, gate) as page:
                        said = await _go(page, f"{start}{scheme}://{name}:{found.port}/")
                        assert led or said in REFUSALS
                assert len(found.ways) >= 3 if led else found.ways == [], name
            refusal = gate.refusal_of("inside.example", found.port)
            assert led if refusal is None else refusal.reason == "blocked_address"

    asyncio.run(main())


@pytest.mark.parametrize(("allow", "led"), [("127.0.0.5", False), ("127.0.0.5,127.0.0.6", True)])
def test_a_name_that_moves_while_its_page_is_open_leads_nowhere_new(
    allow: str, led: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guards, "KEEP_S", 0.0)  # a name is looked up for each connection
    moves = cycle([["127.0.0.5"], ["127.0.0.6"]])
    script = """<script>async function go() {
        for (let i = 0; i < 20; i++) {
            await fetch('/moved', {cache: 'no-store'}).catch(() => 0);
            if (i % 7 == 0)
                await new Promise(r => { const w = new WebSocket(`ws://${location.host}/ws`); w.onclose = r; });
        }
    }</script>"""

    async def main() -> list[str]:
        async with birds(("127.0.0.6",)) as found, site({"/": script}, "127.0.0.5", found.port):
            async with _gate(allow, lookup=lambda _: next(moves)) as gate, _browser() as browser:
                async with _page(browser, gate) as page:
                    while "200" not in await _go(page, f"http://rebind.example:{found.port}/"):
                        pass
                    found.ways.clear()
                    await page.evaluate("go()")
                assert gate.end().requests > 10
            return found.ways

    assert bool(asyncio.run(main())) == led


def test_what_a_page_loads_from_several_hosts_comes_whole_over_few_connections() -> None:
    async def main() -> None:
        async with host() as one, host() as other:
            script = f"""<script>addEventListener('load', async () => {{
                for (let i = 0; i < 30; i++) for (const place of ['{one.place}', '{other.place}'])
                    await fetch(`http://${{place}}/${{i}}`, {{mode: 'no-cors', cache: 'no-store'}});
                document.title = 'tried' }})</script>"""
            async with site({"/": script}) as port, _gate("127.0.0.1") as gate, _browser() as browser:
                async with _page(browser, gate) as page:
                    await page.goto(f"http://127.0.0.1:{port}/")
                    await page.wait_for_function("document.title === 'tried'")
                tally = gate.end()
                assert (len(one.heads), len(other.heads), tally.refused) == (30, 30, 0)
                assert tally.connections < 10

    asyncio.run(main())


def test_after_the_end_of_a_page_its_browser_context_reaches_nothing() -> None:
    async def main() -> None:
        async with (
            host() as found,
            site({"/": "<title>here</title>"}) as port,
            _gate("127.0.0.1") as gate,
            _browser() as browser,
            _page(browser, gate) as page,
        ):
            await page.goto(f"http://127.0.0.1:{port}/")
            ask = f"fetch('http://{found.place}/', {{mode: 'no-cors'}}).then(() => true, () => false)"
            assert await page.evaluate(ask)
            gate.end()
            assert not await page.evaluate(ask)
            assert len(found.heads) == 1
            assert found.open_now == 0

    asyncio.run(main())
