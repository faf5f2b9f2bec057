"""Which way the next page of an `auto` job goes: what all workers have learnt, at hand without waiting.

The table of a job is read and what was learnt is told in a batch, about once a second; what this process has learnt
counts for it at once. Of a pattern that nobody knows yet only a few pages go at a time: a hundred that are asked for at
once would all be asked for in vain. When a pattern was last looked at is a time of Redis' clock, which is heard with
the table: the clock of this machine is not asked.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

from shoal.core.model import Candidate, Engine, Request
from shoal.core.routes import Route, RouteNote, decide, path_pattern
from shoal.core.url import Url
from shoal.frontier.frontier import Frontier

SYNC_S = 1.0
PROBES = 2
"""Pages of an unknown pattern that are asked for at a time."""
PATIENCE_S = 20.0
"""Nobody waits longer than this for what others find out."""
JUST_NOW = 2**62
"""When a page was looked at that Redis has not been told about: later than all that it knows."""

Key = tuple[str, str]


class _Turns:
    """For those who would find out about the same pattern."""

    def __init__(self) -> None:
        self._free = asyncio.Semaphore(PROBES)
        self.users = 0

    async def take(self) -> bool:
        """False: nobody has found out in all that time."""
        try:
            async with asyncio.timeout(PATIENCE_S):
                await self._free.acquire()
        except TimeoutError:
            return False
        return True

    def give(self) -> None:
        self._free.release()


@dataclass(slots=True)
class _Table:
    """What is known about the patterns of one job."""

    routes: dict[Key, Route] = field(default_factory=dict[Key, Route])
    news: list[RouteNote] = field(default_factory=list[RouteNote])
    """Not told to the others yet."""
    turns: dict[Key, _Turns] = field(default_factory=dict[Key, "_Turns"])
    """Of patterns that somebody is finding out about."""

    @asynccontextmanager
    async def waiting(self, key: Key) -> AsyncGenerator[_Turns]:
        """They are there as long as somebody is: a site can have as many patterns as pages."""
        turns = self.turns.setdefault(key, _Turns())
        turns.users += 1
        try:
            yield turns
        finally:
            turns.users -= 1
            if not turns.users:
                self.turns.pop(key, None)


class RouteBook:
    """The ways of the jobs that this process works for."""

    def __init__(self, frontier: Frontier) -> None:
        self._frontier = frontier
        self._tables: dict[str, _Table] = {}
        self._synced = 0.0
        self._ahead_ms = -_steady_ms()
        """Redis' clock before the one of this process that nobody sets; not heard yet, it stands at 0."""

    def way(self, job: str, url: Url) -> Engine | None:
        """How to ask for a page; None: without a browser, and see."""
        return decide(self._table(job).routes.get(_key(url)), self._now_ms())

    @asynccontextmanager
    async def turn(self, job: str, url: Url) -> AsyncGenerator[Engine | None]:
        """The way of a page, as soon as it is this one's turn to find out, or somebody else has."""
        key = _key(url)
        if not self._is_open(job, key):
            yield self.way(job, url)
            return
        async with self._table(job).waiting(key) as turns:
            taken = await turns.take()
            try:
                if taken and not self._is_open(job, key):
                    turns.give()  # it is known by now: there is nothing to wait for
                    taken = False
                yield self.way(job, url)
            finally:
                if taken:
                    turns.give()

    def note(self, job: str, url: Url, *, needed: bool) -> None:
        """What a page needed, by what came without a browser."""
        table, key = self._table(job), _key(url)
        route = table.routes.get(key, Route())
        grown = replace(route, browser=route.browser + 1) if needed else replace(route, http=route.http + 1)
        table.routes[key] = replace(grown, checked_ms=JUST_NOW)
        table.news.append(RouteNote(*key, needed=needed))

    def marked(self, job: str, candidates: Iterable[Candidate]) -> list[Candidate]:
        """Links that are known to need the browser go there at once."""
        return [
            replace(each, render=True)
            if isinstance(each, Request) and self.way(job, each.url) is Engine.BROWSER
            else each
            for each in candidates
        ]

    @property
    def waiting(self) -> int:
        """Patterns that somebody is finding out about at this moment."""
        return sum(len(table.turns) for table in self._tables.values())

    def is_due(self, jobs: Iterable[str]) -> bool:
        """Is it time to tell the others, and to hear from them? At once about a job that is new to this process."""
        if any(job not in self._tables for job in jobs):
            return True
        return bool(self._tables) and time.monotonic() >= self._synced + SYNC_S

    def sync(self, jobs: Iterable[str]) -> None:
        """Tell what was learnt, hear what others have; called from a thread. Raises Unavailable."""
        wanted = set(jobs)
        for job in wanted:
            self._table(job)
        self._synced = time.monotonic()
        self._ahead_ms = self._frontier.audit.now_ms() - _steady_ms()
        for job, table in list(self._tables.items()):
            news, table.news = table.news, []
            try:
                if news:
                    self._frontier.note_routes(job, news)
            except BaseException:
                table.news = news + table.news
                raise
            if job not in wanted:
                self._tables.pop(job, None)
                continue
            heard = self._frontier.routes(job)
            if not table.news:  # else what came meanwhile would be forgotten until the next time
                table.routes = heard

    def _table(self, job: str) -> _Table:
        table = self._tables.get(job)
        if table is None:
            table = self._tables[job] = _Table()
            self._synced = 0.0  # somebody may know more
        return table

    def _is_open(self, job: str, key: Key) -> bool:
        """Will the next page decide for others: as nothing is known of such pages, or what is known is due again?"""
        route = self._table(job).routes.get(key)
        mixed = route is not None and route.http and route.browser  # each of these is looked at
        return not mixed and decide(route, self._now_ms()) is None

    def _now_ms(self) -> int:
        return _steady_ms() + self._ahead_ms


def _key(url: Url) -> Key:
    return url.host, path_pattern(url)


def _steady_ms() -> int:
    """A clock that only goes on."""
    return time.monotonic_ns() // 1_000_000
