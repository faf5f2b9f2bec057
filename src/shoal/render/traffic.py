"""Everything that a page asks for passes here before it is sent, and the answers to the page's own requests as well.

A page's own requests (those of its main frame) are navigations. Ours is sent as it is. One that the page makes is
judged: while the page is loaded it is never sent, and ends the loading instead (`Turn`): the page is loaded again, or
is a redirect. Once the job's actions are under way, the page may go on to others of its own host, so often, with the
host's pause before each, and where robots.txt lets it. Redirects are not followed but in answer to an action.

All other requests are counted, and left out when they are of a kind or to a host that the job leaves out, or too many.
The job's own headers are put on requests to the origin of the page only.

Frames with a process of their own have sessions of their own (`Frames`), and pass here as well.

WebSockets do not pass here, but through the gate as everything does, without the job's headers.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Coroutine, Mapping
from datetime import timedelta
from enum import Enum
from functools import partial
from time import monotonic
from typing import Any

from shoal.core.browsing import Browsing
from shoal.core.frozen import frozen
from shoal.core.url import Url, parse
from shoal.errors import BadUrl, FetchError
from shoal.render.answer import REASON_HEADER, Answer, read_headers
from shoal.render.frames import Event, Frames
from shoal.render.notebook import Notebook
from shoal.render.port import Order
from shoal.render.session import Session
from shoal.render.troubles import Gate, library_errors, refusal

MAX_FURTHER = 5
"""Pages that one page may go on to, itself again among them."""
CHUNK = 512 * 1024
"""Bytes of a body that are moved at once."""
PATTERNS = (
    {"urlPattern": "*", "requestStage": "Request"},
    {"urlPattern": "*", "resourceType": "Document", "requestStage": "Response"},
)
_ALL: dict[str, Any] = {"patterns": list(PATTERNS)}
_KINDS = {
    "Image": "image",
    "Font": "font",
    "Media": "media",
    "TextTrack": "media",
    "Stylesheet": "stylesheet",
    "Script": "script",
    "XHR": "xhr",
    "Fetch": "xhr",
    "EventSource": "xhr",
}
"""The browser's words for what is loaded, and the job's; all else is `other`."""
_BROWSERS_OWN = frozenset(
    {"user-agent", "accept", "accept-encoding", "connection", "content-length", "cookie", "host", "te", "upgrade"}
)
"""Headers that the browser sets for each request as it must be."""


class Phase(Enum):
    """What navigations mean."""

    LOADING = "loading"
    ACTING = "acting"
    OVER = "over"


@frozen
class Turn:
    """Why there is no more to load."""

    answer: Answer | None = None
    """With its body: not a document, or a redirect."""
    body: bytes = b""
    goes_to: Url | None = None
    """Another page; when it is the same one, it is to be loaded again."""


class Traffic:
    """What one page asks for."""

    def __init__(self, session: Session, order: Order, gate: Gate, notebook: Notebook) -> None:
        self.phase = Phase.LOADING
        self.further = 0
        self.frame = ""
        """The browser's name for the page's main frame."""
        self.answer: Answer | None = None
        """Of the page."""
        self.turn: asyncio.Future[Turn] = asyncio.get_running_loop().create_future()
        self.moving = False
        """A navigation was let through, and is not over yet."""
        self._session = session
        self._order = order
        self._gate = gate
        self._notebook = notebook
        self._left_out = LeftOut(order.browsing)
        self._headers = own_headers(order.headers)
        self._expected = False
        self._asked = 0.0
        self._tasks: set[asyncio.Task[None]] = set()

    async def begin(self) -> None:
        """From now on, nothing is sent unseen."""
        frames = Frames(self._begin_frame, self._spawn)
        self._session.on("Fetch.requestPaused", self._on_paused)
        await asyncio.gather(self._session.send("Fetch.enable", _ALL), frames.watch(self._session))

    async def _begin_frame(self, session: Session) -> None:
        session.on("Fetch.requestPaused", partial(self._on_paused_in_frame, session))
        await session.send("Fetch.enable", _ALL)

    def expect(self) -> None:
        """The next navigation is ours."""
        self._expected = True
        self._asked = monotonic()
        if self.turn.done():
            self.turn = asyncio.get_running_loop().create_future()

    def fail(self, error: FetchError) -> None:
        """End the loading, or whatever is under way."""
        if not self.turn.done():
            self.turn.set_exception(error)

    def end(self) -> None:
        """Nobody waits for it any more."""
        for task in self._tasks:
            task.cancel()
        if self.turn.done() and not self.turn.cancelled():
            self.turn.exception()  # whether anybody has asked for it or not

    def _on_paused(self, event: Event) -> None:
        main = event["resourceType"] == "Document" and self._is_main(event)
        if not main:
            self._spawn(self._pass_on(event) if "responseStatusCode" in event else self._judge_resource(event))
        elif "responseStatusCode" in event:
            self._spawn(self._judge_answer(event))
        elif "responseErrorReason" in event:
            self._spawn(self._judge_failure(event))
        else:
            self._spawn(self._judge_navigation(event))

    def _on_paused_in_frame(self, session: Session, event: Event) -> None:
        if "responseStatusCode" in event or "responseErrorReason" in event:
            self._spawn(self._pass_on(event, session=session))
        else:
            self._spawn(self._judge_resource(event, session))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(self._heed(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _heed(self, work: Coroutine[Any, Any, None]) -> None:
        """A page that is closed meanwhile takes its requests with it."""
        try:
            await work
        except FetchError as exc:
            self.fail(exc)
        except library_errors():
            self._notebook.lost += 1

    def _is_main(self, event: Event) -> bool:
        self.frame = self.frame or event["frameId"]
        return event["frameId"] == self.frame

    # what is not the page's own

    async def _judge_resource(self, event: Event, session: Session | None = None) -> None:
        url: str = event["request"]["url"]
        book = self._notebook
        if self._left_out.leaves_out(event["resourceType"], url) or book.requests >= self._order.browsing.resources:
            book.blocked += 1
            await self._refuse(event, "BlockedByClient", session)
            return
        book.requests += 1
        await self._pass_on(event, self._headers_for(event), session)

    # navigations

    async def _judge_navigation(self, event: Event) -> None:
        if self._expected:
            self._expected = False
            await self._pass_on(event, self._headers_for(event))
        elif self.phase is Phase.ACTING:
            await self._judge_move(event)
        else:
            if self.phase is Phase.LOADING:
                self._turn_away(event)
            await self._refuse(event, "Aborted")

    def _turn_away(self, event: Event) -> None:
        """A page that goes elsewhere while it is loaded is a redirect; a form that it sends by itself is not sent."""
        url = _read(event["request"]["url"])
        if url is None or (url == self._order.url and event["request"]["method"] != "GET"):
            self._notebook.add_failed(event["request"]["url"], "not gone to")
        elif not self.turn.done():
            self.turn.set_result(Turn(goes_to=url))

    async def _judge_move(self, event: Event) -> None:
        """A page that an action leads to."""
        url = _read(event["request"]["url"])
        if url is None or url.host != self._order.url.host:
            self._notebook.add_failed(event["request"]["url"], "not gone to: another host")
        elif self.further >= MAX_FURTHER:
            self.fail(FetchError("too_many_navigations", f"more than {MAX_FURTHER} pages from one"))
        else:
            self.further += 1
            self.moving = True
            await asyncio.sleep(self._order.pause.total_seconds())
            if await self._order.may_go(url):
                await self._pass_on(event, self._headers_for(event))
                return
            self.further -= 1
            self._notebook.add_failed(str(url), "not gone to: robots.txt")
        self.moving = False
        await self._refuse(event, "Aborted")

    async def _judge_answer(self, event: Event) -> None:
        """What the page, or one that it has gone on to, answers."""
        answer = Answer(
            event["responseStatusCode"],
            event.get("responseStatusText", ""),
            read_headers(event.get("responseHeaders", ())),
            timedelta(seconds=monotonic() - self._asked),
        )
        if self.phase is not Phase.LOADING:
            await self._judge_further_answer(event, answer)
        elif answer.header(REASON_HEADER) and (refused := refusal(self._order.url, self._gate)):
            await self._refuse(event, "Aborted")
            raise refused
        else:
            await self._judge_first_answer(event, answer)

    async def _judge_failure(self, event: Event) -> None:
        """A page that an action leads to and that does not answer: the one before it stays."""
        if self.phase is Phase.LOADING:
            await self._pass_on(event)
            return
        self._notebook.add_failed(event["request"]["url"], f"not gone to: {event['responseErrorReason']}")
        self.moving = False
        await self._refuse(event, "Aborted")

    async def _judge_further_answer(self, event: Event, answer: Answer) -> None:
        """A redirect is judged again where it leads to."""
        if answer.is_attachment:
            self._notebook.add_failed(event["request"]["url"], "a download, not taken")
            self.moving = False
            await self._refuse(event, "Aborted")
        else:
            self.moving = self.moving and not answer.is_empty
            await self._pass_on(event)

    async def _judge_first_answer(self, event: Event, answer: Answer) -> None:
        self.answer = answer
        shown = self._order.browsing.screenshot or self._order.browsing.pdf
        if answer.is_redirect or answer.is_empty:
            self._settle(Turn(answer))
        elif answer.is_attachment:
            self.fail(FetchError("not_a_page", f"a download of {answer.header('content-type')[:100]}"))
        elif answer.length > self._order.max_body:
            self.fail(too_large(answer.length, self._order.max_body))
        elif answer.is_document or shown:
            await self._pass_on(event)
            return
        else:
            self._settle(Turn(answer, await self._read_body(event)))
        await self._refuse(event, "Aborted")

    def _settle(self, turn: Turn) -> None:
        if not self.turn.done():
            self.turn.set_result(turn)

    async def _read_body(self, event: Event) -> bytes:
        """Of what the browser need not show."""
        taken = await self._session.send("Fetch.takeResponseBodyAsStream", {"requestId": event["requestId"]})
        body = bytearray()
        while True:
            part = await self._session.send("IO.read", {"handle": taken["stream"], "size": CHUNK})
            body += base64.b64decode(part["data"]) if part.get("base64Encoded") else part["data"].encode()
            if len(body) > self._order.max_body:
                raise too_large(len(body), self._order.max_body)
            if part["eof"]:
                return bytes(body)

    # what the browser is told

    def _headers_for(self, event: Event) -> list[dict[str, str]] | None:
        """All headers of a request to the page's origin; None when they stay as they are."""
        if not self._headers:
            return None
        headers: dict[str, str] = event["request"]["headers"]
        theirs = {name: value for name, value in headers.items() if name.lower() not in self._headers}
        url = _read(event["request"]["url"])
        if url is not None and url.origin == self._order.url.origin:
            theirs |= self._headers
        elif len(theirs) == len(headers):
            return None
        return [{"name": name, "value": value} for name, value in theirs.items()]

    async def _pass_on(
        self, event: Event, headers: list[dict[str, str]] | None = None, session: Session | None = None
    ) -> None:
        told: dict[str, Any] = {"requestId": event["requestId"]}
        if headers is not None:
            told["headers"] = headers
        await (session or self._session).send("Fetch.continueRequest", told)

    async def _refuse(self, event: Event, reason: str, session: Session | None = None) -> None:
        told = {"requestId": event["requestId"], "errorReason": reason}
        await (session or self._session).send("Fetch.failRequest", told)


class LeftOut:
    """What a job does not want loaded."""

    def __init__(self, browsing: Browsing) -> None:
        self._kinds = frozenset[str](browsing.block)
        self._hosts = frozenset(browsing.block_hosts)

    def leaves_out(self, resource_type: str, url: str) -> bool:
        """By the browser's word for its kind, or by its host or one above that."""
        kind = "frame" if resource_type == "Document" else _KINDS.get(resource_type, "other")
        if kind in self._kinds:
            return True
        found = _read(url) if self._hosts else None
        if found is None:
            return False
        labels = found.hostname.split(".")
        return any(".".join(labels[start:]) in self._hosts for start in range(len(labels)))


def own_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Those of the job that are put on requests, in lower case; the browser sets the rest itself."""
    lower = {name.lower(): value for name, value in headers.items()}
    return {name: value for name, value in lower.items() if name not in _BROWSERS_OWN}


def too_large(size: int, cap: int) -> FetchError:
    """The body or the document is."""
    return FetchError("too_large", f"{size} bytes; at most {cap} are allowed")


def _read(url: str) -> Url | None:
    try:
        return parse(url)
    except BadUrl:
        return None
