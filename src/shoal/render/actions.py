"""What a job does on a page: click, fill, press, select, scroll, wait, evaluate.

Each action has a deadline of its own within the page's. One that finds nothing to act on is `action_failed`, or is left
out when the job calls it optional.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from shoal.core.browsing import MAX_SCROLLS, Action
from shoal.errors import FetchError
from shoal.render.deadline import Deadline
from shoal.render.document import World
from shoal.render.session import Session
from shoal.render.troubles import brief, is_gone, is_late, library_errors

if TYPE_CHECKING:
    from playwright.async_api import Page

ACTION_S = 10.0
"""For what an action acts on to come, and to be ready for it."""
OPTIONAL_S = 1.0
"""The same, for an optional one."""
SCROLL_SHARE = 0.6
"""Of the time that is left: then the page is taken as far as it has come."""
STILL_ROUNDS = 2
"""A page that has not grown for so many has come to its end."""
GROWTH_MS = 1_000
"""So long a page may take to grow after it was scrolled."""
STEP_MS = 100
"""Between two screens, when a number of them is asked for."""
MAX_RESULT = 100_000
"""Characters of what a script returns, as JSON."""

_SCROLL_TO_END = """(async (rounds, still, growth, budget) => {
  const height = () => Math.max(document.documentElement.scrollHeight, document.body ? document.body.scrollHeight : 0);
  const rest = (ms) => new Promise((go) => setTimeout(go, ms));
  const until = performance.now() + budget;
  let done = 0, quiet = 0;
  while (done < rounds && quiet < still && performance.now() < until) {
    const before = height();
    scrollTo(0, before);
    done += 1;
    const last = Math.min(until, performance.now() + growth);
    while (height() <= before && performance.now() < last) await rest(50);
    quiet = height() > before ? 0 : quiet + 1;
  }
  return done;
})"""
_SCROLL_SCREENS = """(async (screens, step, budget) => {
  const until = performance.now() + budget;
  let done = 0;
  for (; done < screens && performance.now() < until; done += 1) {
    scrollBy(0, innerHeight);
    await new Promise((go) => setTimeout(go, step));
  }
  return done;
})"""
_AS_JSON = """async function (cap) {
  const value = typeof this === 'function' ? await this() : this;
  const text = JSON.stringify(value) ?? 'null';
  return text.length > cap ? '' : text;
}"""


class Actor:
    """Carries out actions on one page."""

    def __init__(self, page: Page, session: Session, world: World, deadline: Deadline) -> None:
        self._page = page
        self._session = session
        self._world = world
        self._deadline = deadline
        self.evaluated: list[Any] = []
        self._verbs: Mapping[str, Callable[[Action], Awaitable[None]]] = {
            "click": self._click,
            "fill": self._fill,
            "press": self._press,
            "select": self._select,
            "scroll": self._scroll,
            "wait": self._wait,
            "evaluate": self._evaluate,
        }

    async def act(self, action: Action) -> None:
        """Do one; raises FetchError."""
        try:
            await self._verbs[action.verb](action)
        except library_errors() as exc:
            if is_gone(exc):
                raise
            if not action.optional:
                raise _failed(action, exc) from exc
        except TimeoutError as exc:
            if not action.optional:
                raise FetchError("action_failed", f"{action.verb}: not done in time") from exc
        except FetchError:
            if not action.optional:
                raise

    def _ms(self, action: Action) -> float:
        return self._deadline.ms(OPTIONAL_S if action.optional else ACTION_S)

    async def _click(self, action: Action) -> None:
        assert action.click
        await self._page.click(action.click, timeout=self._ms(action))

    async def _fill(self, action: Action) -> None:
        assert action.fill
        await self._page.fill(action.fill.selector, action.fill.text, timeout=self._ms(action))

    async def _press(self, action: Action) -> None:
        assert action.press
        if action.press.selector:
            await self._page.press(action.press.selector, action.press.key, timeout=self._ms(action))
        else:
            async with asyncio.timeout(self._ms(action) / 1_000):
                await self._page.keyboard.press(action.press.key)

    async def _select(self, action: Action) -> None:
        assert action.select
        await self._page.select_option(action.select.selector, action.select.value, timeout=self._ms(action))

    async def _scroll(self, action: Action) -> None:
        """In one go, within the page: a call for each screen would cost more than the scrolling."""
        budget = round(1_000 * self._deadline.left_s * SCROLL_SHARE)
        if action.scroll == "end":
            script = f"{_SCROLL_TO_END}({MAX_SCROLLS}, {STILL_ROUNDS}, {GROWTH_MS}, {budget})"
        else:
            script = f"{_SCROLL_SCREENS}({action.scroll}, {STEP_MS}, {budget})"
        await self._world.evaluate(script)

    async def _wait(self, action: Action) -> None:
        if isinstance(action.wait, str):
            ms = self._ms(action)
            await self._page.wait_for_selector(action.wait, state="attached", timeout=ms)
        else:
            await asyncio.sleep(action.wait or 0)

    async def _evaluate(self, action: Action) -> None:
        """In the page's own world, where its objects are. A function is called, a promise waited for."""
        assert action.evaluate
        told = {"expression": action.evaluate, "awaitPromise": True, "userGesture": True}
        async with asyncio.timeout(self._ms(action) / 1_000):
            result = await self._result(await self._session.send("Runtime.evaluate", told))
        self.evaluated.append(result)

    async def _result(self, answer: Mapping[str, Any]) -> Any:
        found = _value(answer)
        if "objectId" in found:
            told = {
                "objectId": found["objectId"],
                "functionDeclaration": _AS_JSON,
                "arguments": [{"value": MAX_RESULT}],
                "returnByValue": True,
                "awaitPromise": True,
            }
            text: str = _value(await self._session.send("Runtime.callFunctionOn", told)).get("value", "")
        else:
            text = json.dumps(found.get("value"))
        if not text or len(text) > MAX_RESULT:
            raise FetchError("action_failed", f"evaluate: more than {MAX_RESULT} characters were returned")
        try:
            return json.loads(text)
        except (ValueError, RecursionError) as exc:  # a page can put its own words in place of JSON's
            raise FetchError("action_failed", "evaluate: no JSON was returned") from exc


def _value(answer: Mapping[str, Any]) -> Mapping[str, Any]:
    thrown = answer.get("exceptionDetails")
    if thrown:
        said = thrown.get("exception", {}).get("description") or thrown.get("text", "")
        raise FetchError("action_failed", f"evaluate: {brief(said)}")
    return answer["result"]


def _failed(action: Action, exc: Exception) -> FetchError:
    if action.verb == "wait" and is_late(exc):
        return FetchError("selector_missing", f"{action.wait!r} did not come")
    what = repr(action.selector)[:200] if action.selector else ""
    why = "nothing there to do it with, or it cannot be acted on" if is_late(exc) else brief(str(exc))
    return FetchError("action_failed", f"{action.verb} {what}: {why}" if what else f"{action.verb}: {why}")
