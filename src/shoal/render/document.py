"""A page's document, written out as it stands.

It is read in a world of its own: the page's scripts cannot see it, and what they have put in place of the browser's
functions is not there. Doctype and open shadow roots are part of the text, the latter as `<template
shadowrootmode="open">`, as a server would send them. Closed roots and the documents of frames are not.
"""

from __future__ import annotations

import json
from typing import Any

from shoal.core.frozen import frozen
from shoal.errors import FetchError
from shoal.render.session import Session
from shoal.render.traffic import too_large

_TAKE = """((cap, required) => {
  const root = document.documentElement;
  const roots = [];
  const walk = (node) => {
    for (const each of node.querySelectorAll('*')) {
      if (each.shadowRoot) { roots.push(each.shadowRoot); walk(each.shadowRoot); }
    }
  };
  walk(document);
  let html = '';
  if (root && roots.length) {
    const empty = root.cloneNode(false).outerHTML;
    const end = empty.lastIndexOf('</');
    html = empty.slice(0, end) + root.getHTML({shadowRoots: roots}) + empty.slice(end);
  } else if (root) {
    html = root.outerHTML;
  }
  if (document.doctype) html = new XMLSerializer().serializeToString(document.doctype) + '\\n' + html;
  let found = true;
  try { found = !required || document.querySelector(required) !== null; } catch { }
  const [entry] = performance.getEntriesByType('navigation');
  return {
    html: html.length > cap ? '' : html.toWellFormed(), chars: html.length, url: location.href, found,
    size: entry ? entry.decodedBodySize : 0, done: entry ? entry.responseEnd > 0 : false,
    height: Math.max(root ? root.scrollHeight : 0, document.body ? document.body.scrollHeight : 0),
    width: innerWidth,
  };
})"""
_WAIT = """((selector) => new Promise((come) => {
  const is_in = (root) => root.querySelector(selector) !== null
    || [...root.querySelectorAll('*')].some((each) => each.shadowRoot && is_in(each.shadowRoot));
  const look = () => {
    try { if (is_in(document)) { come(true); return; } } catch { }
    setTimeout(look, 20);
  };
  look();
}))"""
_SIZE = "(() => performance.getEntriesByType('navigation')[0]?.decodedBodySize ?? 0)()"


@frozen
class Snapshot:
    """The document, and what else is known of the page at that moment."""

    text: str
    url: str
    found: bool
    """What the job requires."""
    body_size: int
    """Bytes of the answer that the document was read from, unpacked."""
    width: int
    height: int
    """Pixels of all of it."""


class World:
    """Where our own scripts run, apart from those of the page."""

    def __init__(self, session: Session, frame: str) -> None:
        self._session = session
        self._frame = frame
        self._id = 0

    def left(self) -> None:
        """Another document has taken the place of the one that this belonged to."""
        self._id = 0

    async def evaluate(self, expression: str) -> Any:
        """What a script of ours returns; raises FetchError."""
        if not self._id:
            made = await self._session.send("Page.createIsolatedWorld", {"frameId": self._frame, "worldName": "shoal"})
            self._id = made["executionContextId"]
        told = {"expression": expression, "contextId": self._id, "returnByValue": True, "awaitPromise": True}
        answer = await self._session.send("Runtime.evaluate", told)
        if "exceptionDetails" in answer:
            raise FetchError("page_crashed", "the document cannot be read")
        return answer["result"].get("value")

    async def have(self, selector: str) -> None:
        """Until something in the document, or in an open shadow root, matches. The caller has the deadline.

        Playwright's own way brings all of its tools into the page first, a fifth of what a small page costs.
        """
        await self.evaluate(f"{_WAIT}({json.dumps(selector)})")

    async def body_size(self) -> int:
        """Bytes of the answer that the document was read from, unpacked."""
        return int(await self.evaluate(_SIZE))

    async def take(self, cap: int, required: str) -> Snapshot:
        """The document; raises FetchError when it is larger than `cap`."""
        taken = await self.evaluate(f"{_TAKE}({cap}, {json.dumps(required)})")
        text: str = taken["html"]
        size = taken["chars"] if taken["chars"] > cap else len(text.encode())
        if size > cap:
            raise too_large(size, cap)
        return Snapshot(
            text, taken["url"], taken["found"], int(taken["size"]), int(taken["width"]), int(taken["height"])
        )
