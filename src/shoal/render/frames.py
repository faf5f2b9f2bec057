"""Frames that the browser keeps in processes of their own: what they ask for passes by the page's judge as well.

The page's session hears nothing of what such a frame asks for. The frame has a session of its own below it, and may
have such frames itself. Each waits at its beginning until it is listened to. Playwright has sessions for them too, but
says so only when they are under way: these here are spoken to by way of the session above.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Coroutine
from itertools import count
from typing import Any

from shoal.render.session import Session

Event = dict[str, Any]
_ATTACH = {
    "autoAttach": True,
    "waitForDebuggerOnStart": True,
    "flatten": False,
    "filter": [{"type": "iframe"}, {"exclude": True}],
}


class FrameSession:
    """Implements `Session`, by messages through the one above."""

    def __init__(self, above: Session, name: str) -> None:
        self._above = above
        self._name = name
        self._numbers = count(1)
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._listeners: dict[str, list[Callable[..., Any]]] = {}

    async def send(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        """Ask the browser for something; cancelled when the frame goes meanwhile."""
        number = next(self._numbers)
        answer = self._answers[number] = asyncio.get_running_loop().create_future()
        message = json.dumps({"id": number, "method": method, "params": params or {}})
        try:
            await self._above.send("Target.sendMessageToTarget", {"sessionId": self._name, "message": message})
            return await answer
        finally:
            self._answers.pop(number, None)

    def on(self, event: str, f: Callable[..., Any]) -> None:
        """Hear what the browser says about this frame."""
        self._listeners.setdefault(event, []).append(f)

    def hear(self, text: str) -> None:
        """A message that has come for it: an answer, or news."""
        message: dict[str, Any] = json.loads(text)
        answer = self._answers.get(message.get("id", 0))
        if answer is not None and not answer.done():
            answer.set_result(message.get("result", {}))
        for listener in self._listeners.get(message.get("method", ""), ()):
            listener(message.get("params", {}))

    def end(self) -> None:
        """The frame is gone."""
        for answer in self._answers.values():
            answer.cancel()


class Frames:
    """Of one page."""

    def __init__(
        self,
        begin: Callable[[Session], Awaitable[None]],
        spawn: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        """`begin`: what is done with the session of each frame before the frame goes on."""
        self._begin = begin
        self._spawn = spawn

    async def watch(self, session: Session) -> None:
        """From now on, the frames below this session begin under our eyes."""
        below: dict[str, FrameSession] = {}

        def attached(event: Event) -> None:
            frame = below[event["sessionId"]] = FrameSession(session, event["sessionId"])
            self._spawn(self._welcome(frame))

        def received(event: Event) -> None:
            if frame := below.get(event["sessionId"]):
                frame.hear(event["message"])

        def detached(event: Event) -> None:
            if frame := below.pop(event["sessionId"], None):
                frame.end()

        session.on("Target.attachedToTarget", attached)
        session.on("Target.receivedMessageFromTarget", received)
        session.on("Target.detachedFromTarget", detached)
        await session.send("Target.setAutoAttach", dict(_ATTACH))

    async def _welcome(self, frame: FrameSession) -> None:
        await self._begin(frame)
        await self.watch(frame)
        await frame.send("Runtime.runIfWaitingForDebugger")
