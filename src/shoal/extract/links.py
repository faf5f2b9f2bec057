"""From hrefs on a page to candidates for the frontier, with a memory of what was sent there before.

Most links of a page were on an earlier page. Joining, fingerprinting and sending each of them again would be most of
a crawl's work, so every process remembers the hrefs that the frontier has been told about. The memory only ever
saves work: forgetting is harmless, and it is emptied when a batch could not be delivered.
"""

from __future__ import annotations

from collections.abc import Iterable

from shoal.core.model import Candidate, Rejected, Request
from shoal.core.scope import Scope
from shoal.core.url import Base, Url

_ROOTED = ("/", "http://", "https://")

MEMORY_SIZE = 200_000
"""Hrefs remembered for one job in one process."""


class Links:
    """The links of one job, as one process has met them."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._known: dict[str, set[str]] = {}
        self._size = 0
        self._server = ""

    def sort_out(
        self, page: Url, base: Base, hrefs: Iterable[str], depth: int, *, rebased: bool
    ) -> tuple[list[Candidate], int]:
        """(candidates that are new to this process, number of the others)"""
        rooted, beside = self._memories(page, rebased=rebased)
        candidates: list[Candidate] = []
        duplicates = 0
        for href in hrefs:
            known = rooted if href.startswith(_ROOTED) else beside
            if href in known or href[0] == "#":
                duplicates += 1
                continue
            candidate = self._judge(base.join(href), depth)
            if candidate is not None:
                candidates.append(candidate)
            if not href.lstrip().startswith("?"):
                known.add(href)
                self._size += 1
        return candidates, duplicates

    def follow(self, target: Url, request: Request) -> Candidate:
        """A redirect's target: same depth, one hop more."""
        reason = self._scope.refuses(target)
        if reason:
            return Rejected(target, f"redirect_{reason}")
        return Request(target, request.depth, request.level, hops=request.hops + 1)

    def forget(self) -> None:
        """Start anew: something that was remembered may not have arrived."""
        self._known.clear()
        self._size = 0

    def leased_from(self, server: str) -> None:
        """The next pages come from this run of the frontier's server; another one may not know what was sent."""
        if server != self._server:
            self.forget()
            self._server = server

    def _judge(self, url: Url | None, depth: int) -> Candidate | None:
        if url is None:
            return None
        reason = self._scope.refuses(url)
        return Rejected(url, reason) if reason else Request(url, depth)

    def _memories(self, page: Url, *, rebased: bool) -> tuple[set[str], set[str]]:
        """Hrefs that mean the same on the whole origin, and those that mean it in this folder only."""
        if rebased:
            return set(), set()
        if self._size > MEMORY_SIZE:
            self.forget()
        rooted = self._known.setdefault(page.origin, set())
        folder = page.origin + page.target.partition("?")[0].rpartition("/")[0] + "/"
        return rooted, self._known.setdefault(folder, set())
