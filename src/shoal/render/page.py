"""One page in a browser, from its opening to its document.

The page is opened in a context of its own, which the caller makes with `context_options` and closes. It is loaded,
waited for, acted on, written out and pictured, all under the order's one deadline. What it asks for meanwhile is judged
by `Traffic`. New windows are closed, dialogs dismissed (by Playwright, when nobody listens for them) and downloads
cancelled.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, cast

from shoal.core.url import parse
from shoal.errors import BadUrl, FetchError
from shoal.render.actions import Actor
from shoal.render.answer import Answer
from shoal.render.deadline import Deadline
from shoal.render.document import Snapshot, World
from shoal.render.notebook import Notebook
from shoal.render.port import Order, Rendered
from shoal.render.session import Session
from shoal.render.shots import take_shots
from shoal.render.traffic import MAX_FURTHER, Phase, Traffic, Turn, too_large
from shoal.render.troubles import Gate, is_late, library_errors, trouble_of

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, Download, Frame, Page, Response

LEAVING_S = 2.0
"""For the body of a page that goes elsewhere: it is worth no more."""
MOVE_S = 10.0
"""For a page that an action leads to, until it is loaded."""
_STATES = {"parsed": "domcontentloaded", "load": "load", "idle": "networkidle"}
"""Playwright's words for them."""


def context_options(
    order: Order, gate_url: str, devices: Mapping[str, Mapping[str, Any]] | None = None, user_agent: str = ""
) -> dict[str, Any]:
    """What a browser's new context is made with; `devices` is Playwright's list. Raises FetchError.

    The user agent of the order's headers is sent whatever the device: it says who is asking.
    """
    browsing = order.browsing
    options: dict[str, Any] = {
        "viewport": {"width": browsing.viewport.width, "height": browsing.viewport.height},
        **_device(browsing.device, devices or {}),
        "accept_downloads": False,
        "bypass_csp": False,
        "ignore_https_errors": False,
        "java_script_enabled": True,
        "reduced_motion": "reduce",
        "service_workers": "block",
    }
    if gate_url:
        options["proxy"] = {"server": gate_url, "bypass": "<-loopback>"}
    if agent := _header(order.headers, "user-agent") or user_agent:
        options["user_agent"] = agent
    if browsing.locale:
        options["locale"] = browsing.locale
    if browsing.timezone:
        options["timezone_id"] = browsing.timezone
    return options


async def render_page(context: BrowserContext, order: Order, gate: Gate) -> Rendered:
    """Open a page in a fresh context and bring it home; raises FetchError."""
    visit: _Visit | None = None
    try:
        async with asyncio.timeout(order.total.total_seconds()):
            visit = await _Visit.begin(context, order, gate)
            return await visit.run()
    except TimeoutError as exc:
        raise FetchError("render_timeout", f"not done in {order.total.total_seconds():g} s") from exc
    except library_errors() as exc:
        raise trouble_of(exc, order.url, gate) from exc
    finally:
        if visit:
            visit.end()


class _Visit:
    """One page while it is open."""

    def __init__(self, page: Page, session: Session, order: Order, gate: Gate) -> None:
        self._page = page
        self._session = session
        self._order = order
        self._gate = gate
        self._deadline = Deadline(order.total)
        self._notebook = Notebook(str(order.url))
        self._traffic = Traffic(session, order, gate, self._notebook)
        self._world = World(session, "")
        self._going: asyncio.Task[Response | None] | None = None
        self._moved = asyncio.Event()
        self._closing: set[asyncio.Task[None]] = set()

    @classmethod
    async def begin(cls, context: BrowserContext, order: Order, gate: Gate) -> _Visit:
        page = await context.new_page()
        session = cast("Session", await context.new_cdp_session(page))
        if cookies := _cookies(order):
            await context.add_cookies(
                [{"name": name, "value": cookies[name], "url": str(order.url)} for name in cookies]
            )
        visit = cls(page, session, order, gate)
        visit._notebook.listen(page)
        context.on("page", visit._close)
        page.on("crash", visit._on_crash)
        page.on("framenavigated", visit._on_moved)
        page.on("download", visit._on_download)
        await visit._traffic.begin()
        return visit

    def end(self) -> None:
        """Leave nothing running; the context is the caller's."""
        self._traffic.end()
        if self._going:
            self._going.cancel()

    async def run(self) -> Rendered:
        for _ in range(MAX_FURTHER + 1):
            self._traffic.expect()
            turn = await self._unless_it_turns(self._bring_home())
            if isinstance(turn, Rendered):
                return turn
            if turn.answer:
                return self._rendered(turn.answer, turn.body)
            if turn.goes_to != self._order.url or not await self._may_reload():
                return await self._leave(turn)
        raise FetchError("too_many_navigations", f"the page loads itself again, more than {MAX_FURTHER} times")

    # loading

    async def _arrive(self) -> Response | None:
        """Until the page counts as there."""
        wait = self._order.browsing.wait
        self._going = asyncio.create_task(
            self._page.goto(str(self._order.url), wait_until="commit", timeout=self._deadline.ms())
        )
        response = await asyncio.shield(self._going)
        self._world = World(self._session, self._traffic.frame)
        await self._ready(wait.until, self._deadline.ready_s)
        if wait.selector:
            await self._selector(wait.selector)
        await asyncio.sleep(wait.seconds)
        return response

    async def _ready(self, until: str, most_s: float) -> None:
        """A page that never gets ready is taken as it stands, if its document is there."""
        try:
            if until in _STATES:
                state: Any = _STATES[until]
                await self._page.wait_for_load_state(state, timeout=1_000 * most_s)
        except library_errors() as exc:
            if not is_late(exc):
                raise
            self._notebook.unready = until

    async def _selector(self, selector: str) -> None:
        try:
            async with asyncio.timeout(self._deadline.ready_s):
                await self._world.have(selector)
        except TimeoutError as exc:
            raise FetchError("selector_missing", f"{selector!r} did not come") from exc

    async def _may_reload(self) -> bool:
        """A page that loads itself again is asked for again, as politely as any."""
        self._traffic.further += 1
        await asyncio.sleep(self._order.pause.total_seconds())
        return await self._order.may_go(self._order.url)

    async def _unless_it_turns(self, work: Coroutine[Any, Any, Rendered]) -> Rendered | Turn:
        """What the work brings, or the turn that the page took, when that comes before it."""
        task = asyncio.create_task(work)
        try:
            await asyncio.wait({task, self._traffic.turn}, return_when=asyncio.FIRST_COMPLETED)
            if self._traffic.turn.done():
                return self._traffic.turn.result()
            return task.result()
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    # what is brought home

    async def _leave(self, turn: Turn) -> Rendered:
        """A page that goes elsewhere: its answer with where it goes. The body is worth a short wait only."""
        answer = self._answer()
        body = b""
        with suppress(TimeoutError, FetchError, *library_errors()):
            async with asyncio.timeout(LEAVING_S):
                if self._going and (response := await asyncio.shield(self._going)):
                    self._world = World(self._session, self._traffic.frame)
                    body = await self._body(response, await self._world.body_size())
        return self._rendered(answer, body, goes_to=str(turn.goes_to))

    async def _bring_home(self) -> Rendered:
        """The body is taken before the actions: with another page, the browser forgets it."""
        order = self._order
        response = await self._arrive()
        answer = self._answer()
        body: bytes | None = None
        if order.browsing.actions:
            if response:
                body = await self._body(response, await self._world.body_size())
            self._traffic.phase = Phase.ACTING
            await self._act()
            self._traffic.phase = Phase.OVER
        snapshot = await self._world.take(order.max_body, order.browsing.require)
        self._check(snapshot)
        shots = await take_shots(self._page, order.browsing, snapshot, self._deadline)
        if body is None:
            body = await self._body(response, snapshot.body_size) if response else b""
        return self._rendered(answer, body, snapshot, shots=shots)

    async def _act(self) -> None:
        actor = Actor(self._page, self._session, self._world, self._deadline)
        for action in self._order.browsing.actions:
            self._moved.clear()
            await actor.act(action)
            await self._settle()
        self._notebook.evaluated = actor.evaluated

    async def _settle(self) -> None:
        """When an action leads to another page, wait for that one."""
        if not self._traffic.moving:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(min(MOVE_S + self._order.pause.total_seconds(), self._deadline.left_s)):
                while self._traffic.moving:
                    with suppress(TimeoutError):
                        async with asyncio.timeout(0.1):
                            await self._moved.wait()
        self._traffic.moving = False
        if self._moved.is_set():
            await self._ready(self._order.browsing.wait.until, min(MOVE_S, self._deadline.left_s))

    async def _body(self, response: Response, size: int) -> bytes:
        """The page's answer, unpacked; its size is known before it is moved."""
        if size > self._order.max_body:
            raise too_large(size, self._order.max_body)
        body = await response.body()
        if len(body) > self._order.max_body:
            raise too_large(len(body), self._order.max_body)
        return body

    def _check(self, snapshot: Snapshot) -> None:
        if not snapshot.found:
            raise FetchError("selector_missing", f"the page is there, but without {self._order.browsing.require!r}")
        try:
            stands = parse(snapshot.url.partition("#")[0])
        except BadUrl as exc:
            raise FetchError("not_a_page", f"the page went to {snapshot.url[:100]}") from exc
        if stands.host != self._order.url.host:
            raise FetchError("not_a_page", f"the page went to {stands.host}")

    def _answer(self) -> Answer:
        if self._traffic.answer is None:
            raise FetchError("render_timeout", "the page has not answered")
        return self._traffic.answer

    def _rendered(
        self, answer: Answer, body: bytes, snapshot: Snapshot | None = None, *, shots: Any = (), goes_to: str = ""
    ) -> Rendered:
        final_url = snapshot.url if snapshot and snapshot.url != str(self._order.url) else ""
        return Rendered(
            response=answer.response(self._order.url, body, goes_to),
            document=snapshot.text if snapshot and answer.is_document else "",
            shots=shots,
            notes=self._notebook.notes(self._gate.tally().received, final_url),
            further=self._traffic.further,
            goes_to=goes_to,
        )

    # what happens meanwhile

    def _close(self, window: Page) -> None:
        """A window that the page has opened."""
        self._notebook.blocked += 1

        async def close() -> None:
            with suppress(*library_errors()):
                await window.close()

        task = asyncio.create_task(close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    def _on_crash(self, _page: Page) -> None:
        self._traffic.fail(FetchError("page_crashed", "the page's process ended"))

    def _on_download(self, download: Download) -> None:
        """The context takes none."""
        self._notebook.add_failed(download.url, "a download, not taken")
        self._traffic.moving = False

    def _on_moved(self, frame: Frame) -> None:
        if frame.parent_frame is None:
            self._world.left()
            self._traffic.moving = False
            self._moved.set()


def _device(name: str, devices: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """A device of Playwright's list, as far as a context is concerned."""
    if not name:
        return {}
    if name not in devices:
        near = get_close_matches(name, devices, n=3)
        meant = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
        raise FetchError("unknown_device", f"{name!r} is not a device that Playwright knows{meant}")
    return {key: value for key, value in devices[name].items() if key != "default_browser_type"}


def _header(headers: Mapping[str, str], wanted: str) -> str:
    return next((value for name, value in headers.items() if name.lower() == wanted), "")


def _cookies(order: Order) -> dict[str, str]:
    """The order's, and those that it has as a header: the browser must know them to go on with them."""
    pairs = (pair.partition("=") for pair in _header(order.headers, "cookie").split(";") if "=" in pair)
    return {**{name.strip(): value.strip() for name, _, value in pairs}, **order.cookies}
