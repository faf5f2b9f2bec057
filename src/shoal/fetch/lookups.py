"""Lookups of names, in threads of their own: the system's way to ask a name server waits, and cannot be interrupted.

So many are under way at once, and of one registrable domain a quarter of these: whoever lets his names hang keeps his
own waiting, and not everybody's. The others stand in line. A lookup that hangs is set aside after a moment: it keeps
its thread, but another may begin in its place, so that hundreds of domains must hang before others wait for them. The
threads are daemons: a process that ends does not wait for a name server.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from queue import SimpleQueue

from shoal.core.domain import registrable_domain

AT_ONCE = 32
AT_ONCE_OF_DOMAIN = AT_ONCE // 4
MAX_THREADS = 256
"""With those of lookups that were set aside."""
HANGS_S = 2.0
"""A lookup that takes longer is set aside: nearly all are done within a fraction of that."""
IN_LINE_S = 30.0
"""Nobody stands in line for longer than a fetch may take."""

Lookup = Callable[[str], list[str]]
Found = list[str] | Exception


class Lookups:
    """Threads, and the line before them. For one event loop."""

    def __init__(self, lookup: Lookup) -> None:
        self._lookup = lookup
        self._calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._threads = 0
        self._busy: Counter[str] = Counter()
        """Domain → lookups under way, with those that were set aside."""
        self._aside: set[asyncio.Future[list[str]]] = set()
        self._line: dict[asyncio.Future[None], str] = {}
        """Who waits → for which domain, in the order in which they came."""

    async def turn(self, name: str) -> None:
        """Wait for a thread for this name; raises TimeoutError when there was none for too long."""
        domain = registrable_domain(name)
        if self._has_room(domain):
            self._busy[domain] += 1
            return
        waiting = asyncio.get_running_loop().create_future()
        self._line[waiting] = domain
        try:
            async with asyncio.timeout(IN_LINE_S):
                await asyncio.shield(waiting)
        except (TimeoutError, asyncio.CancelledError):
            if self._line.pop(waiting, None) is None:  # the turn has come in the same moment
                self._leave(domain)
            raise

    def ask(self, name: str) -> asyncio.Future[list[str]]:
        """Look a name up whose turn it is: its answer, or what the lookup raises, however late."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[list[str]] = loop.create_future()
        if self._threads < self._busy.total():
            self._threads += 1
            threading.Thread(target=_work, args=(self._calls,), name=f"names-{self._threads}", daemon=True).start()
        loop.call_later(HANGS_S, self._set_aside, answer)
        self._calls.put(partial(self._call, loop, name, answer))
        return answer

    def close(self) -> None:
        """Threads that are idle end; the others do when they can, or with the process."""
        for _ in range(self._threads):
            self._calls.put(None)

    def _call(self, loop: asyncio.AbstractEventLoop, name: str, answer: asyncio.Future[list[str]]) -> None:
        """In a thread."""
        found: Found
        try:
            found = self._lookup(name)
        except (OSError, ValueError, MemoryError) as exc:
            found = exc
        with suppress(RuntimeError):  # the loop has ended meanwhile
            loop.call_soon_threadsafe(self._note, name, answer, found)

    def _set_aside(self, answer: asyncio.Future[list[str]]) -> None:
        if not answer.done() and len(self._aside) < MAX_THREADS - AT_ONCE:
            self._aside.add(answer)
            self._let_next_in()

    def _note(self, name: str, answer: asyncio.Future[list[str]], found: Found) -> None:
        self._aside.discard(answer)
        self._leave(registrable_domain(name))
        if answer.cancelled():
            return
        if isinstance(found, Exception):
            answer.set_exception(found)
        else:
            answer.set_result(found)

    def _leave(self, domain: str) -> None:
        self._busy[domain] -= 1
        if not self._busy[domain]:
            del self._busy[domain]
        self._let_next_in()

    def _let_next_in(self) -> None:
        for waiting, wanted in self._line.items():
            if self._has_room(wanted):
                del self._line[waiting]
                self._busy[wanted] += 1
                waiting.set_result(None)
                return

    def _has_room(self, domain: str) -> bool:
        return self._busy.total() - len(self._aside) < AT_ONCE and self._busy[domain] < AT_ONCE_OF_DOMAIN


def _work(calls: SimpleQueue[Callable[[], None] | None]) -> None:
    while (call := calls.get()) is not None:
        call()
