"""From hrefs on a page to candidates for the frontier, with a memory of what was sent there before.

Most links of a page were on an earlier page. Joining, fingerprinting and sending each of them again would be most of
a crawl's work, so every process remembers the hrefs that the frontier has been told about. The memory only ever
saves work: forgetting is harmless, and it is emptied when a batch could not be delivered.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Sequence
from typing import TypeVar

from shoal.core.model import Candidate, Rejected, Request
from shoal.core.scope import Scope
from shoal.core.url import Base, Url

_ROOTED = ("/", "http://", "https://")

MEMORY_SIZE = 200_000
"""Hrefs remembered for one job in one process."""
STEP = 50
"""Links between two looks at the clock."""
PAUSE_S = 0.01
"""So long links are sorted out before others have their turn."""

T = TypeVar("T")


def finish(steps: Generator[None, None, T]) -> T:
    """Without a pause."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value


class Links:
    """The links of one job, as one process has met them."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._known: dict[str, set[str]] = {}
        self._size = 0
        self._server = ""

    def sort_out(
        self, page: Url, base: Base, hrefs: Sequence[str], depth: int, *, rebased: bool
    ) -> tuple[list[Candidate], int]:
        """(candidates that are new to this process, number of the others)"""
        return finish(self.sort_stepwise(page, base, hrefs, depth, rebased=rebased))

    def sort_stepwise(
        self, page: Url, base: Base, hrefs: Sequence[str], depth: int, *, rebased: bool
    ) -> Generator[None, None, tuple[list[Candidate], int]]:
        """The same, with a pause now and then; what is broken off in one leaves nothing in the memory."""
        candidates: list[Candidate] = []
        new: tuple[list[str], list[str]] = ([], [])
        rooted, beside = self._memories(page, rebased=rebased)
        pause_at = time.perf_counter() + PAUSE_S
        for start in range(0, len(hrefs), STEP):
            if start and time.perf_counter() > pause_at:
                yield
                pause_at = time.perf_counter() + PAUSE_S
            for href in hrefs[start : start + STEP]:
                if href in rooted or href in beside or href[0] == "#":
                    continue
                new[not href.startswith(_ROOTED)].append(href)
                candidate = self._judge(base.join(href), depth)
                if candidate is not None:
                    candidates.append(candidate)
        duplicates = len(hrefs) - len(new[0]) - len(new[1])
        self._remember(new, self._memories(page, rebased=rebased))
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

    def _remember(self, new: tuple[list[str], list[str]], memories: tuple[set[str], set[str]]) -> None:
        for hrefs, known in zip(new, memories, strict=True):
            before = len(known)
            known.update(href for href in hrefs if not href.lstrip().startswith("?"))
            self._size += len(known) - before

    def _memories(self, page: Url, *, rebased: bool) -> tuple[set[str], set[str]]:
        """Hrefs that mean the same on the whole origin, and those that mean it in this folder only."""
        if rebased:
            return set(), set()
        if self._size > MEMORY_SIZE:
            self.forget()
        rooted = self._known.setdefault(page.origin, set())
        folder = page.origin + page.target.partition("?")[0].rpartition("/")[0] + "/"
        return rooted, self._known.setdefault(folder, set())
