"""One at a time, and all who wait in turn."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from shoal.worker import turns as turns_module
from shoal.worker.turns import Turns


async def let_run() -> None:
    """Everybody gets as far as he can."""
    for _ in range(20):
        await asyncio.sleep(0)


class Queue:
    """Who had his turn, in this order; each ends when the test says so."""

    def __init__(self) -> None:
        self.turns = Turns()
        self.served: list[str] = []
        self.under_way = 0
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._end = asyncio.Semaphore(0)

    async def bring(self, *names: str) -> None:
        """`a1` is a page of a."""
        for name in names:
            self._tasks[name] = asyncio.create_task(self._take(name))
            await let_run()

    async def end(self, count: int = 1) -> None:
        """Those who have their turn are done."""
        for _ in range(count):
            self._end.release()
            await let_run()

    async def end_all(self) -> Sequence[str]:
        await self.end(len(self._tasks))
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        return self.served

    def interrupt(self, name: str) -> None:
        self._tasks[name].cancel()

    async def _take(self, name: str) -> None:
        async with self.turns.of(name[0]):
            self.under_way += 1
            assert self.under_way == 1
            self.served.append(name)
            try:
                await self._end.acquire()
            finally:
                self.under_way -= 1


async def _served(*names: str) -> Sequence[str]:
    queue = Queue()
    await queue.bring(*names)
    return await queue.end_all()


def test_who_brings_many_pages_has_one_turn_in_each_round() -> None:
    served = asyncio.run(_served("a1", "a2", "a3", "a4", "b1", "b2", "c1"))
    assert served == ["a1", "b1", "c1", "a2", "b2", "a3", "a4"]


def test_whoever_comes_later_waits_for_one_turn_only() -> None:
    async def work() -> Sequence[str]:
        queue = Queue()
        await queue.bring("a1", "a2", "a3")
        await queue.end()
        await queue.bring("b1")
        await queue.end()
        await queue.bring("b2", "c1")
        return await queue.end_all()

    assert asyncio.run(work()) == ["a1", "a2", "b1", "a3", "c1", "b2"]


def test_who_was_a_burden_comes_last_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> Sequence[str]:
        queue = Queue()
        queue.turns.put_last("a")
        await queue.bring("x1", "a1", "a2", "b1", "b2")
        return await queue.end_all()

    assert asyncio.run(work()) == ["x1", "b1", "b2", "a1", "a2"]
    monkeypatch.setattr(turns_module, "LAST_S", 0.0)
    assert asyncio.run(work()) == ["x1", "a1", "b1", "a2", "b2"]


def test_who_comes_last_has_his_turn_when_nobody_else_waits() -> None:
    async def work() -> Sequence[str]:
        queue = Queue()
        queue.turns.put_last("a")
        await queue.bring("a1", "a2")
        return await queue.end_all()

    assert asyncio.run(work()) == ["a1", "a2"]


def test_who_is_interrupted_keeps_nobody_waiting() -> None:
    async def work() -> Sequence[str]:
        queue = Queue()
        await queue.bring("a1", "b1", "b2", "c1", "d1")
        for name in ("b1", "c1"):
            queue.interrupt(name)
        await queue.end()
        queue.interrupt("b2")  # in the middle of its turn
        await let_run()
        assert queue.served[-1] == "d1"
        await queue.bring("e1")
        return await queue.end_all()

    assert asyncio.run(work()) == ["a1", "b2", "d1", "e1"]


def test_who_is_interrupted_just_when_his_turn_comes_passes_it_on() -> None:
    async def work() -> Sequence[str]:
        queue = Queue()
        await queue.bring("a1", "b1", "c1")
        queue.interrupt("a1")
        await asyncio.sleep(0)  # a1 has passed its turn on, and b1 does not know yet
        queue.interrupt("b1")
        await let_run()
        return await queue.end_all()

    assert asyncio.run(work()) == ["a1", "c1"]
