"""The browser of a process: replaced before it leaks, and what befalls it costs no more than it must."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import time
from collections.abc import Coroutine, Generator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import psutil
import pytest

from shoal.core.egress import Egress
from shoal.errors import FetchError, InputError
from shoal.fetch.guard import Guard
from shoal.render import processes
from shoal.render.browser import Browser
from shoal.render.limits import MB, RenderLimits
from shoal.render.port import Rendered
from shoal.render.renderer import BrowserRenderer
from tests.browsers import order, plain_options, plain_page, rendering_with, until
from tests.contract.render.lively_pages import Pages
from tests.guards import guard_of_loopback
from tests.site.server import Server, serve

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # what was killed complains
LIMITS = RenderLimits(at_once=4, look=timedelta(seconds=0.05))
FOR_EVER = 600_000
BURIED_S = 5.0
"""For whoever waits for the dead."""
SERVERS = ("python", "valkey", "redis", "postgres", "beam", "erl", "epmd", "inet_gethost")
"""How the names of processes begin that are no browsers: RabbitMQ starts such as late as it likes."""

_others: set[psutil.Process] = set()
"""What runs below this process for other tests: brokers, databases."""


@pytest.fixture(scope="module", autouse=True)
def _see_others() -> None:
    _others.update(psutil.Process().children(recursive=True))


@pytest.fixture(scope="module")
def site() -> Generator[Server]:
    with serve(Pages()) as server:
        yield server


async def _reason(work: Coroutine[None, None, Rendered]) -> str:
    with pytest.raises(FetchError) as caught:
        await work
    return caught.value.reason


def _running(rendering: BrowserRenderer) -> Browser:
    browser = rendering.pool.current
    assert browser is not None
    return browser


def _tree() -> list[psutil.Process]:
    """All below this process that belongs to a browser, also what is dead and unburied; servers of tests do not."""
    deadline = time.monotonic() + BURIED_S
    while left := _browsers():
        if time.monotonic() > deadline or not all(map(_is_dead, left)):
            break
        time.sleep(0.02)
    return left


def _browsers() -> list[psutil.Process]:
    """What a server of the tests starts belongs to the server, whatever it is called."""
    children = [each for each in psutil.Process().children() if not _is_of_the_tests(each)]
    return [each for child in children for each in _with_all_below(child)]


def _with_all_below(process: psutil.Process) -> list[psutil.Process]:
    try:
        return [process, *process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def _is_dead(process: psutil.Process) -> bool:
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def _is_of_the_tests(process: psutil.Process) -> bool:
    try:
        return process in _others or process.name().startswith(SERVERS)
    except psutil.NoSuchProcess:
        return True


def test_the_browser_is_started_by_the_first_page_and_close_leaves_no_process(browser_path: str, site: Server) -> None:
    async def run() -> None:
        async with rendering_with(browser_path, LIMITS) as rendering:
            assert (rendering.pool.current, _tree()) == (None, [])
            rendered = await rendering.render(order(site.link("/one")))
            assert (rendered.response.status, "<p>/one</p>" in rendered.document) == (200, True)
            tree = _tree()
            group = os.getpgid(_running(rendering).pid)
            assert len(tree) >= 4
            await rendering.close()
            await until(lambda: not any(process.is_running() for process in tree))  # a zombie would be running
            with pytest.raises(ProcessLookupError):
                os.killpg(group, 0)

    asyncio.run(run())


def test_close_ends_pages_that_are_under_way(browser_path: str, site: Server) -> None:
    async def run() -> None:
        async with rendering_with(browser_path, LIMITS) as rendering:
            page = asyncio.create_task(_reason(rendering.render(order(site.link(f"/wait/{FOR_EVER}")))))
            await until(lambda: rendering.pool.current is not None and _running(rendering).contexts == 1)
            await rendering.close()
            assert await page == "browser_crashed"
            assert _tree() == []

    asyncio.run(run())


def test_after_so_many_pages_it_is_replaced_while_others_finish_on_the_old_one(browser_path: str) -> None:
    pages = Pages()

    async def run(site: Server) -> None:
        async with rendering_with(browser_path, replace(LIMITS, pages=3)) as rendering:
            slow = asyncio.create_task(rendering.render(order(site.link("/wait/told"))))
            await until(lambda: rendering.pool.current is not None and _running(rendering).contexts == 1)
            first = _running(rendering)
            for number in range(3):
                await rendering.render(order(site.link(f"/{number}")))
            assert _running(rendering) is not first
            assert (slow.done(), first.lost.is_set(), rendering.pool.browsers) == (False, False, 2)
            pages.told = True
            assert "done" in (await slow).document
            await until(lambda: rendering.pool.browsers == 1)
            await until(lambda: not psutil.pid_exists(first.pid))

    with serve(pages) as server:
        asyncio.run(run(server))


def test_pages_that_are_not_open_yet_count_as_well(browser_path: str) -> None:
    async def run() -> None:
        async with rendering_with(browser_path, replace(LIMITS, pages=2)) as rendering:
            page, soon = rendering.pool.page, timedelta(seconds=5)
            async with page(soon) as first, page(soon) as second, page(soon) as third:
                assert first is second
                assert third is not first

    asyncio.run(run())


def test_many_pages_over_many_browsers_all_come_home(browser_path: str, site: Server) -> None:
    async def run() -> None:
        async with rendering_with(browser_path, replace(LIMITS, pages=4)) as rendering:
            targets = [f"/{number}" for number in range(20)]
            pages = await asyncio.gather(*(rendering.render(order(site.link(target))) for target in targets))
            assert [f"<p>{target}</p>" in page.document for target, page in zip(targets, pages, strict=True)] == [
                True
            ] * 20
            await rendering.close()
            assert _tree() == []

    asyncio.run(run())


@pytest.mark.parametrize("limits", [replace(LIMITS, memory=1 * MB), replace(LIMITS, age=timedelta(seconds=0.5))])
def test_a_browser_that_is_too_large_or_too_old_is_replaced(
    browser_path: str, site: Server, limits: RenderLimits
) -> None:
    async def run() -> None:
        async with rendering_with(browser_path, limits) as rendering:
            await rendering.render(order(site.link("/wait/700")))
            await until(lambda: rendering.pool.browsers == 0)
            await rendering.render(order(site.link("/again")))

    asyncio.run(run())


def _closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return listening.getsockname()[1]


def _victim(browser: Browser, name: str) -> int:
    """The leader of the group may be a script, and the browser below it."""
    below = psutil.Process(browser.pid).children()
    real = below[0].pid if len(below) == 1 else browser.pid
    return {"browser": real, "leader": browser.pid, "driver": browser.driver}[name]


@pytest.mark.parametrize("victim", ["browser", "leader", "driver"])
def test_kill_9_fails_the_pages_under_way_and_the_next_one_works(browser_path: str, site: Server, victim: str) -> None:
    async def run() -> None:
        async with rendering_with(browser_path, LIMITS) as rendering:
            pages = [
                asyncio.create_task(_reason(rendering.render(order(site.link(f"/wait/{FOR_EVER}/{victim}")))))
                for _ in "12"
            ]
            await until(lambda: site.count(f"/wait/{FOR_EVER}/{victim}") >= 2)
            tree, browser = _tree(), _running(rendering)
            os.kill(_victim(browser, victim), signal.SIGKILL)
            assert await asyncio.gather(*pages) == ["browser_crashed"] * 2
            assert "done" in (await rendering.render(order(site.link("/next")))).document
            await until(lambda: not any(process.is_running() for process in tree))

    asyncio.run(run())


def test_a_page_that_eats_memory_is_ended_and_its_neighbour_completes(browser_path: str, site: Server) -> None:
    async def run() -> None:
        async with rendering_with(browser_path, replace(LIMITS, page_memory=200 * MB)) as rendering:
            neighbour = asyncio.create_task(rendering.render(order(site.link("/wait/3000/neighbour"))))
            await until(lambda: site.count("/wait/3000/neighbour") >= 1)
            browser = _running(rendering)
            assert await _reason(rendering.render(order(site.link("/eat/wait")))) == "page_too_big"
            assert "done" in (await neighbour).document
            assert _running(rendering) is browser

    asyncio.run(run())


class _Peak:
    """Of what the browsers of this process take, by a clock of its own."""

    def __init__(self) -> None:
        self.bytes = 0

    async def watch(self) -> None:
        while True:
            self.bytes = max(self.bytes, sum(processes.memory_of(each.pid) for each in _browsers()))
            await asyncio.sleep(0.05)


def test_pages_that_grow_together_stay_within_the_budget_and_the_largest_is_put_off(
    browser_path: str, site: Server
) -> None:
    """Four of 130 MB each, where there is room for two."""
    budget = 500 * MB
    peak = _Peak()

    async def run() -> list[Rendered | BaseException]:
        async with rendering_with(browser_path, replace(LIMITS, memory=budget, page_memory=200 * MB)) as rendering:
            watching = asyncio.create_task(peak.watch())
            targets = [f"/wait/grows/{number}" for number in range(4)]
            pages = (rendering.render(order(site.link(target))) for target in targets)
            found = await asyncio.gather(*pages, return_exceptions=True)
            watching.cancel()
            return found

    found = asyncio.run(run())
    done = [page for page in found if isinstance(page, Rendered)]
    put_off = [page.reason for page in found if isinstance(page, FetchError)]
    print(f"{len(done)} done, {put_off}, {peak.bytes / MB:.0f} of {budget / MB:.0f} MB at most")
    assert len(done) >= 1
    assert put_off == ["memory_short"] * (4 - len(done))
    assert put_off
    assert peak.bytes < budget * 1.1


def test_one_page_alone_is_never_put_off(browser_path: str, site: Server) -> None:
    async def run() -> None:
        async with rendering_with(browser_path, replace(LIMITS, memory=50 * MB, page_memory=200 * MB)) as rendering:
            assert "done" in (await rendering.render(order(site.link("/wait/grows/alone")))).document

    asyncio.run(run())


def test_a_page_that_spins_costs_its_deadline_and_its_neighbours_complete(browser_path: str, site: Server) -> None:
    async def run() -> None:
        async with rendering_with(browser_path, LIMITS) as rendering:
            spinning = asyncio.create_task(_reason(rendering.render(order(site.link("/spin"), total=3))))
            await until(lambda: site.count("/spin") >= 1)
            browser = _running(rendering)
            pages = [await rendering.render(order(site.link(f"/beside/{number}"))) for number in range(3)]
            assert ["done" in page.document for page in pages] == [True] * 3
            assert await spinning == "render_timeout"
            assert _running(rendering) is browser

    asyncio.run(run())


def test_a_page_whose_process_dies_by_itself_has_crashed(browser_path: str, site: Server) -> None:
    async def run() -> None:
        async with rendering_with(browser_path, LIMITS) as rendering:
            page = asyncio.create_task(_reason(rendering.render(order(site.link(f"/wait/{FOR_EVER}/crashed")))))
            await until(lambda: site.count(f"/wait/{FOR_EVER}/crashed") >= 1)
            for pid in _running(rendering).memory().renderers:
                os.kill(pid, signal.SIGKILL)
            assert await page == "page_crashed"

    asyncio.run(run())


def test_a_frozen_browser_is_replaced(browser_path: str, site: Server) -> None:
    async def run() -> None:
        async with rendering_with(browser_path, replace(LIMITS, closing=timedelta(seconds=1))) as rendering:
            await rendering.render(order(site.link("/first")))
            frozen = _running(rendering)
            os.killpg(os.getpgid(frozen.pid), signal.SIGSTOP)
            assert await _reason(rendering.render(order(site.link("/frozen"), total=2))) == "render_timeout"
            assert "done" in (await rendering.render(order(site.link("/next")))).document
            await rendering.close()
            assert _tree() == []

    asyncio.run(run())


def test_a_page_that_is_given_up_leaves_no_context(browser_path: str, site: Server) -> None:
    async def run() -> None:
        async with rendering_with(browser_path, LIMITS) as rendering:
            page = asyncio.create_task(rendering.render(order(site.link(f"/wait/{FOR_EVER}/context"))))
            await until(lambda: site.count(f"/wait/{FOR_EVER}/context") >= 1)
            page.cancel()
            with pytest.raises(asyncio.CancelledError):
                await page
            browser = _running(rendering)
            await until(lambda: browser.contexts == 0)

    asyncio.run(run())


def test_without_a_browser_a_page_says_what_to_install() -> None:
    def nowhere() -> str:
        raise InputError("install one")

    async def run() -> None:
        rendering = BrowserRenderer(
            LIMITS, guard_of_loopback(), nowhere, render_page=plain_page, context_options=plain_options
        )
        with pytest.raises(FetchError, match="browser_missing: install one"):
            await rendering.render(order("http://127.0.0.1:1/"))
        await rendering.close()

    asyncio.run(run())


def test_a_program_that_is_no_browser_fails_the_page() -> None:
    async def run() -> None:
        async with rendering_with("/bin/true", LIMITS) as rendering:
            assert await _reason(rendering.render(order("http://127.0.0.1:1/"))) == "browser_crashed"
            await rendering.close()
            assert _tree() == []

    asyncio.run(run())


@pytest.mark.parametrize(
    ("said", "cause"),
    [
        ("error while loading shared libraries: libnss3.so", "libnss3.so exit: exitCode=127, signal=null"),
        ("[1:FATAL:zygote_host.cc(1)] No usable sandbox!\n#0 0x7f (/x)", "No usable sandbox! exit: exitCode=127"),
        ("", "exit: exitCode=127, signal=null"),
    ],
)
def test_a_browser_that_does_not_start_says_why(tmp_path: Path, said: str, cause: str) -> None:
    program = tmp_path / "browser"
    program.write_text(f"#!/bin/sh\ncat >&2 <<'END'\n{said}\nEND\nexit 127\n")
    program.chmod(0o755)

    async def run() -> None:
        async with rendering_with(str(program), LIMITS) as rendering:
            with pytest.raises(FetchError) as caught:
                await rendering.render(order("http://127.0.0.1:1/"))
            assert cause in str(caught.value)
            assert "--disable" not in str(caught.value)

    asyncio.run(run())


def test_a_whole_visit_goes_through_the_gate_to_the_document(browser_path: str, site: Server) -> None:
    async def run() -> None:
        rendering = BrowserRenderer(LIMITS, guard_of_loopback(), lambda: browser_path)
        try:
            whole = await rendering.render(order(site.link("/whole")))
            assert (whole.response.status, "<p>/whole</p>" in whole.document) == (200, True)
            assert await _reason(rendering.render(order(f"http://127.0.0.1:{_closed_port()}/"))) == "connect_refused"
        finally:
            await rendering.close()

    asyncio.run(run())


def test_a_host_that_the_guard_refuses_is_refused_in_the_browser(browser_path: str, site: Server) -> None:
    async def run() -> None:
        rendering = BrowserRenderer(LIMITS, Guard(Egress.read("")), lambda: browser_path)
        try:
            before = len(site.hits)
            assert await _reason(rendering.render(order(site.link("/refused")))) == "blocked_address"
            assert len(site.hits) == before
        finally:
            await rendering.close()

    asyncio.run(run())
