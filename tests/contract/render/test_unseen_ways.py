"""Ways to ask for something that the page's own session does not hear of: closed, or judged all the same."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from shoal.core.browsing import Browsing
from shoal.core.url import Url, parse
from shoal.render import processes
from shoal.render.limits import RenderLimits
from shoal.render.port import Notes, Order
from shoal.render.renderer import BrowserRenderer
from tests.conftest import lack
from tests.contract.render.witness import Witness, witnessing
from tests.guards import guard_of_loopback

HERE, THERE = "127.0.0.1", "localhost"
"""Two sites."""
BROWSERS = ("chromium-headless-shell", "chromium")


@pytest.fixture
def witness() -> Generator[Witness]:
    with witnessing() as running:
        yield running


@pytest.fixture(params=[name for name in BROWSERS if shutil.which(name)] or BROWSERS[:1])
def browser(request: pytest.FixtureRequest) -> str:
    """Each that is here: they give sites processes of their own in different ways."""
    name: str = request.param
    return shutil.which(name) or lack(f"none of {', '.join(BROWSERS)} is on the PATH")


@pytest.fixture
def strict(browser: str, tmp_path: Path) -> str:
    """One that gives each site a process of its own; not every browser does so by itself."""
    script = tmp_path / "browser"
    script.write_text(f'#!/bin/sh\nexec {browser} --site-per-process "$@"\n')
    script.chmod(0o755)
    return str(script)


def _render(executable: str, url: str, browsing: dict[str, Any]) -> tuple[Notes, list[Url]]:
    """What is noted about the page, and where it would have gone to."""
    moves: list[Url] = []

    async def may_go(url: Url) -> bool:
        moves.append(url)
        return False

    async def run() -> Notes:
        renderer = BrowserRenderer(RenderLimits(), guard_of_loopback(), lambda: executable)
        try:
            order = Order(parse(url), Browsing.model_validate(browsing), may_go=may_go)
            return (await renderer.render(order)).notes
        finally:
            await renderer.close()

    return asyncio.run(run()), moves


def _rules(*targets: str, **more: str) -> str:
    rules = [{"source": "list", "urls": [target], "eagerness": "immediate"} for target in targets]
    return json.dumps({"prefetch": rules[:1], "prerender": rules[1:], **more})


def test_no_page_is_loaded_ahead_of_time_by_speculation_rules(browser: str, witness: Witness) -> None:
    later = "(rules) => document.head.append(Object.assign(document.createElement('script'), rules))"
    told = [json.dumps({"type": "speculationrules", "textContent": _rules(f"/p/{n}", f"/q/{n}")}) for n in range(2)]
    by_link = {"source": "document", "eagerness": "immediate", "where": {"href_matches": "/p/*"}}
    witness.pages["/page"] = (
        f'<script type="speculationrules">{_rules("/p/a", "/q/a")}</script>'
        f'<a href="/p/link">a</a><script type="speculationrules">{json.dumps({"prefetch": [by_link]})}</script>'
        f"<script>({later})({told[0]}); setTimeout(() => ({later})({told[1]}), 200);</script>"
        f'<link rel="prerender" href="/p/rel">'
    )
    notes, moves = _render(browser, witness.link("/page"), {"wait": "1.5s"})
    assert {path for _, path, _ in witness.asked} - {"/favicon.ico"} == {"/page"}
    assert (notes.failed, moves) == ((), [])


def _framed(witness: Witness) -> None:
    """A page with a frame of another site, in which there is one of the first again."""
    witness.pages["/page"] = f"<iframe src='{witness.link('/frame', THERE)}'></iframe><title>has frames</title>"
    witness.pages["/frame"] = (
        f"<img src='/a.png'><script>for (let i = 0; i < 20; i++) fetch('/api/' + i)</script>"
        f"<iframe src='{witness.link('/nested')}'></iframe>"
    )
    witness.pages["/nested"] = "<img src='/b.png'><script src='/nested.js'></script>"


def test_what_frames_of_other_processes_load_is_left_out_as_the_job_says(strict: str, witness: Witness) -> None:
    _framed(witness)
    notes, _ = _render(strict, witness.link("/page"), {"wait": "1.5s"})
    asked = {path for _, path, _ in witness.asked} - {"/favicon.ico"}
    assert asked == {"/page", "/frame", "/nested", "/nested.js", *(f"/api/{number}" for number in range(20))}
    assert notes.blocked == 2
    assert notes.requests in (23, 24), "frames, scripts, data, and the icon that some browsers ask for"


def test_frames_of_other_processes_count_for_what_a_page_may_ask_for(strict: str, witness: Witness) -> None:
    _framed(witness)
    notes, _ = _render(strict, witness.link("/page"), {"wait": "1.5s", "resources": 10})
    assert notes.requests == 10
    assert len([path for _, path, _ in witness.asked if path != "/page"]) <= 10


def test_hosts_that_a_job_leaves_out_are_not_asked_by_frames_either(strict: str, witness: Witness) -> None:
    _framed(witness)
    witness.pages["/frame"] = f"<script src='/there.js'></script><script src='{witness.link('/here.js')}'></script>"
    _render(strict, witness.link("/page"), {"wait": "1s", "block_hosts": [HERE]})
    assert {path for _, path, _ in witness.asked} - {"/favicon.ico"} == {"/page", "/frame", "/there.js"}


def test_frames_that_come_and_go_keep_no_page_from_its_end(strict: str, witness: Witness) -> None:
    witness.pages["/page"] = f"""<script>
      let left = 20;
      const turn = () => {{
        const frame = document.createElement('iframe');
        frame.src = '{witness.link("/frame", THERE)}' + left;
        document.body.append(frame);
        setTimeout(() => {{ frame.remove(); if (--left) turn(); else document.title = 'over'; }}, left % 5 * 20);
      }};
      addEventListener('load', turn);
    </script><body>"""
    for number in range(21):
        witness.pages[f"/frame{number}"] = "<script>fetch('/api')</script>"
    notes, _ = _render(strict, witness.link("/page"), {"wait": "2s", "actions": [{"evaluate": "document.title"}]})
    assert notes.evaluated == ("over",)


def test_there_are_no_shared_workers(browser: str, witness: Witness) -> None:
    witness.pages["/page"] = "<script>try { new SharedWorker('/works.js') } catch { document.title = 'none' }</script>"
    witness.pages["/works.js"] = "fetch('/by-shared-worker')"
    _render(browser, witness.link("/page"), {"wait": "1s"})
    assert {path for _, path, _ in witness.asked} - {"/favicon.ico"} == {"/page"}


def test_nothing_that_playwright_switches_on_is_switched_off_by_ours(browser: str) -> None:
    """The last one of such a switch is the one that counts."""

    async def run() -> list[str]:
        renderer = BrowserRenderer(RenderLimits(), guard_of_loopback(), lambda: browser)
        try:
            async with renderer.pool.page(RenderLimits().closing) as running:
                tree = [running.browser.pid, *(each.pid for each in processes.children_of(running.browser.pid))]
                return next(
                    list(words) for pid in tree if "--type=" not in " ".join(words := processes.command_of(pid))
                )
        finally:
            await renderer.close()

    words = asyncio.run(run())
    for switch in ("--enable-features=", "--disable-features="):
        theirs, *ours = [set(word.removeprefix(switch).split(",")) for word in words if word.startswith(switch)]
        assert all(theirs <= each for each in ours), switch
