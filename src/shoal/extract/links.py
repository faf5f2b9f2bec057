"""From hrefs on a page to candidates for the frontier, with a memory of what was sent there before.

Most links of a page were on an earlier page. Joining, fingerprinting and sending each of them again would be most of
a crawl's work, so every process remembers the hrefs that the frontier has been told about. The memory only ever
saves work: forgetting is harmless, and it is emptied when it is full, and when a batch could not be delivered.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from itertools import filterfalse
from typing import NamedTuple, TypeVar

from shoal.core.model import Candidate, Level, Rejected, Request
from shoal.core.scope import NOT_ALLOWED, Scope
from shoal.core.url import Base, Url
from shoal.extract.page import MAX_JOINED_CHARS
from shoal.spiders.follow import FollowUp

_ROOTED = ("/", "http://", "https://")
_EMPTY: frozenset[str] = frozenset()

MEMORY_BYTES = 40_000_000
"""For the hrefs remembered for one job in one process: about 200,000."""
_ENTRY_BYTES = 80
"""That a text takes in a set, besides its own."""
_SET_BYTES = 400
"""That a set takes, and its place."""
STEP = 50
"""Links between two looks at the clock."""
PAUSE_S = 0.01
"""So long links are sorted out before others have their turn."""

T = TypeVar("T")
Steps = Generator[None, None, list[Candidate]]


def finish(steps: Generator[None, None, T]) -> T:
    """Without a pause."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value


class SortedOut(NamedTuple):
    """What the links of a page come to."""

    candidates: list[Candidate]
    """That are new to this process."""
    duplicates: int
    """The number of the others."""
    cut: bool = False
    """Were there more than are taken?"""


class Links:
    """The links of one job, as one process has met them."""

    def __init__(self, scope: Scope, *, forgiving: bool = False, remembers: bool = True) -> None:
        """`forgiving`: links that only `allow` refuses are not told to the frontier, which would refuse them for ever.

        The same URL may turn out to be a sitemap, or the next page of a list, which `allow` is not about. Who does not
        remember can leave links unsent that were found.
        """
        self._scope = scope
        self._forgiving = forgiving
        self._remembers = remembers
        self._known: dict[str, set[str]] = {}
        self._size = 0
        self._server = ""

    def sort_out(self, page: Url, base: Base, hrefs: Sequence[str], depth: int, *, rebased: bool) -> SortedOut:
        """What they come to, without a pause."""
        return finish(self.sort_stepwise(page, base, hrefs, depth, rebased=rebased))

    def sort_stepwise(
        self, page: Url, base: Base, hrefs: Sequence[str], depth: int, *, rebased: bool
    ) -> Generator[None, None, SortedOut]:
        """The same, with a pause now and then; what is broken off in one leaves nothing in the memory."""
        candidates: list[Candidate] = []
        new: tuple[list[str], list[str]] = ([], [])
        places = _places(page)
        rooted, beside = (_EMPTY if rebased else self._known.get(place, _EMPTY) for place in places)
        unknown = filterfalse(rooted.__contains__, hrefs)  # few of them, mostly
        fresh = [href for href in unknown if href not in beside and href[0] != "#"]
        room, cut, found_on = MAX_JOINED_CHARS, False, page.fingerprint if fresh else 0
        pause_at = time.perf_counter() + PAUSE_S
        for start in range(0, len(fresh), STEP):
            if start and time.perf_counter() > pause_at:
                yield
                pause_at = time.perf_counter() + PAUSE_S
            if room <= 0:
                cut = True
                break
            for href in fresh[start : start + STEP]:
                new[not href.startswith(_ROOTED)].append(href)
                url = base.join(href)
                if url is not None:
                    room -= url.chars
                    if candidate := self._judge(url, depth, found_on):
                        candidates.append(candidate)
        if new != ([], []) and not rebased and self._remembers:
            self._remember(places, new)
        return SortedOut(candidates, len(hrefs) - len(fresh), cut)

    def refuses(self, url: Url) -> str | None:
        """The rule that keeps a page out, or None."""
        return self._scope.refuses(url)

    def sort_requests(
        self, page: Url, base: Base, requests: Sequence[FollowUp], deepest: int | None
    ) -> Generator[None, None, SortedOut]:
        """What a spider's requests come to; they are not remembered, as each may be for another callback."""
        candidates: list[Candidate] = []
        room, found_on = MAX_JOINED_CHARS, page.fingerprint
        pause_at = time.perf_counter() + PAUSE_S
        for number, asked in enumerate(requests):
            if number % STEP == 0 and time.perf_counter() > pause_at:
                yield
                pause_at = time.perf_counter() + PAUSE_S
            if room <= 0:
                return SortedOut(candidates, 0, cut=True)
            if (deepest is not None and asked.depth > deepest) or (url := base.join(asked.url)) is None:
                continue
            room -= url.chars + len(asked.meta)
            judged = self._judge(url, asked.depth, found_on)
            if isinstance(judged, Request):
                judged = replace(judged, level=Level(asked.level), callback=asked.callback, meta=asked.meta)
            if judged is not None:
                candidates.append(judged)
        return SortedOut(candidates, 0)

    def follow(self, target: Url, request: Request) -> Candidate:
        """A redirect's target: same depth, one hop more."""
        reason = self._scope.refuses(target)
        if reason:
            return Rejected(target, f"redirect_{reason}")
        way = request.url.fingerprint
        return replace(request, url=target, attempt=0, hops=request.hops + 1, losses=0, found_on=way)

    def forget(self) -> None:
        """Start anew: something that was remembered may not have arrived."""
        self._known.clear()
        self._size = 0

    def leased_from(self, server: str) -> None:
        """The next pages come from this run of the frontier's server; another one may not know what was sent."""
        if server != self._server:
            self.forget()
            self._server = server

    def further(self, page: Url, base: Base, hrefs: Sequence[str], depth: int, level: Level, *, listed: bool) -> Steps:
        """More of the same, at the same depth: `allow` is about pages, not about the way to them."""
        found_on = page.fingerprint if hrefs else None

        def judge(url: Url) -> Candidate:
            reason = self._scope.refuses_way(url, listed=listed)
            return Rejected(url, reason) if reason else Request(url, depth, level, found_on=found_on)

        return _judged_stepwise(base, hrefs, judge)

    def stale(self, base: Base, hrefs: Sequence[str]) -> Steps:
        """Pages that have not changed since: links to them are not followed either."""
        return _judged_stepwise(base, hrefs, lambda url: Rejected(url, self._scope.refuses(url) or "not_since"))

    def _judge(self, url: Url, depth: int, found_on: int) -> Candidate | None:
        reason = self._scope.refuses(url)
        if reason == NOT_ALLOWED and self._forgiving:
            return None
        return Rejected(url, reason) if reason else Request(url, depth, found_on=found_on)

    def _remember(self, places: tuple[str, str], hrefs: tuple[list[str], list[str]]) -> None:
        if self._size > MEMORY_BYTES:
            self.forget()
        for place, met in zip(places, hrefs, strict=True):
            new = [href for href in met if not href.lstrip().startswith("?")]
            if not new:
                continue
            if place not in self._known:
                self._known[place] = set()
                self._size += sys.getsizeof(place) + _SET_BYTES
            self._known[place].update(new)
            self._size += sum(map(sys.getsizeof, new)) + _ENTRY_BYTES * len(new)


def _judged_stepwise(base: Base, hrefs: Sequence[str], judge: Callable[[Url], Candidate]) -> Steps:
    """What they come to, up to the cap, with a pause now and then."""
    candidates, room = list[Candidate](), MAX_JOINED_CHARS
    pause_at = time.perf_counter() + PAUSE_S
    for number, href in enumerate(hrefs):
        if number % STEP == 0 and time.perf_counter() > pause_at:
            yield
            pause_at = time.perf_counter() + PAUSE_S
        if (url := base.join(href)) is not None:
            room -= url.chars
            if room < 0:
                break
            candidates.append(judge(url))
    return candidates


def _places(page: Url) -> tuple[str, str]:
    """Where rooted hrefs mean the same, the whole origin; and where others do, the folder."""
    return page.origin, page.origin + page.target.partition("?")[0].rpartition("/")[0] + "/"
