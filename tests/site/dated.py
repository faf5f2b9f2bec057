"""A site that says of each page which version it is, and does not send one again that the client has.

Pages change when a test says so. Its manners can be bad in several ways: tags that no one can send back, a tag that
stays the same when the page changes, a server that has nothing but "not modified" to say.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tests.site.reply import Reply, Responder

LAST_MODIFIED = "Tue, 03 Feb 2026 04:05:06 GMT"


@dataclass
class DatedSite:
    """Another site's pages, with validators."""

    site: Responder
    etags: bool = True
    weak: bool = False
    dates: bool = False
    tag: str | None = None
    """Of all pages, whatever is in them; None: one of the body."""
    date: str = LAST_MODIFIED
    stubborn: bool = False
    """It says "not modified" to everybody who asks with a condition, and knows no other answer to them."""
    changed: dict[str, Reply] = field(default_factory=dict[str, Reply])
    """Target → what it is now."""
    asked: list[tuple[str, Mapping[str, str]]] = field(default_factory=list[tuple[str, Mapping[str, str]]])
    """(target, headers) of all requests."""

    def respond(self, target: str, hits: int) -> Reply:
        return self.heed(target, hits, {})

    def heed(self, target: str, hits: int, headers: Mapping[str, str]) -> Reply:
        self.asked.append((target, headers))
        reply = self.changed.get(target) or self.site.respond(target, hits)
        if not (200 <= reply.status < 400):
            return reply
        tag, given = self._tag(reply), list[tuple[str, str]]()
        if self.etags:
            given.append(("ETag", tag))
        if self.dates:
            given.append(("Last-Modified", self.date))
        conditions = headers.get("if-none-match"), headers.get("if-modified-since")
        same = conditions[0] == tag if conditions[0] is not None else conditions[1] == self.date and self.dates
        if same or (self.stubborn and any(conditions)):
            return Reply(304, tuple(given))
        return replace(reply, headers=(*reply.headers, *given))

    def change(self, target: str, reply: Reply) -> None:
        self.changed[target] = reply

    def conditional(self) -> list[str]:
        """Targets that were asked for with a condition."""
        return [target for target, headers in self.asked if {"if-none-match", "if-modified-since"} & headers.keys()]

    def _tag(self, reply: Reply) -> str:
        if self.tag is not None:
            return self.tag
        tag = f'"{hashlib.sha256(reply.body + repr(reply.headers).encode()).hexdigest()[:12]}"'
        return f"W/{tag}" if self.weak else tag
