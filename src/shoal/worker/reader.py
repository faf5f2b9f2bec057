"""Pages read without keeping the loop from its other fetches.

Light pages are read in place, which takes a millisecond or two. Others go to a process apart, one for each worker
process: started when it is first needed, ended with the slice, and started anew when a page has killed it. It has a
session of its own, so that Ctrl-C in a terminal does not reach it before the slice is done. Sites take turns there: one
that is all pages of five seconds must not keep the pages of others waiting for all of them.
"""

from __future__ import annotations

import asyncio
from asyncio.subprocess import PIPE, Process
from collections.abc import Generator
from contextlib import suppress
from typing import TypeVar

from shoal.core.domain import registrable_domain
from shoal.errors import FetchError, Unavailable
from shoal.extract import apart
from shoal.extract.findings import Findings, Wanted, find
from shoal.extract.weight import LIGHT_BYTES, is_light
from shoal.fetch.port import Response
from shoal.worker.turns import Turns

UNPACKED_IN_PLACE = 1_000_000
"""Bytes: up to this, unpacking takes a few milliseconds."""
START_S = 30.0
"""For a process to come up, on a machine that is busy."""

T = TypeVar("T")


class Reader:
    """Reads pages, one after the other where that takes long."""

    def __init__(self) -> None:
        self._process: Process | None = None
        self._turns = Turns()
        self.apart = 0
        """Pages that were not read in place."""

    async def unpack(self, response: Response, cap: int) -> tuple[bytes, str]:
        """(body without its content encodings, charset)"""
        if len(response.wire_body) <= LIGHT_BYTES:
            try:
                body = response.unpacked(min(cap, UNPACKED_IN_PLACE))
                return body, response.charset(body)
            except FetchError as exc:
                if exc.reason != "too_large" or cap <= UNPACKED_IN_PLACE:
                    raise
        return await asyncio.to_thread(_unpack, response, cap)

    async def read(self, body: bytes, wanted: Wanted) -> Findings:
        """What is wanted of a page; raises FetchError when that cannot be read within bounds."""
        if is_light(body, wanted.queries):
            return find(body, wanted)
        apart.check_size(body)
        site = registrable_domain(wanted.host)
        async with self._turns.of(site):
            self.apart += 1
            try:
                return await self._read_apart(body, wanted)
            except FetchError:
                self._turns.put_last(site)
                raise

    async def end(self) -> None:
        """No more pages for now."""
        process, self._process = self._process, None
        if process is not None:
            await _bury(process)

    async def _read_apart(self, body: bytes, wanted: Wanted) -> Findings:
        process = self._process or await self._start()
        try:
            async with asyncio.timeout(apart.WALL_S):
                answer = await _ask(process, apart.pack_order(wanted), body)
        except TimeoutError as exc:
            await self.end()
            raise apart.too_complex(f"reading it took more than {apart.WALL_S:g} s") from exc
        except (asyncio.IncompleteReadError, OSError) as exc:
            await self.end()
            raise apart.too_complex(apart.explain_end(process.returncode)) from exc
        except BaseException:  # interrupted: its answer would be taken for that to the next page
            await self.end()
            raise
        return apart.read_answer(answer)

    async def _start(self) -> Process:
        try:
            process = await asyncio.create_subprocess_exec(
                *apart.COMMAND, stdin=PIPE, stdout=PIPE, env=apart.environment(), start_new_session=True
            )
        except OSError as exc:
            raise Unavailable(f"no process to read pages in: {exc}") from exc
        self._process = process
        try:
            async with asyncio.timeout(START_S):
                await _receive(process)
        except (TimeoutError, asyncio.IncompleteReadError, OSError) as exc:
            await self.end()
            raise Unavailable(f"the process to read pages in does not start: {process.returncode}") from exc
        except BaseException:
            await self.end()
            raise
        return process


async def unhurried(steps: Generator[None, None, T]) -> T:
    """Let others have their turn at each pause."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value
        await asyncio.sleep(0)


def _unpack(response: Response, cap: int) -> tuple[bytes, str]:
    body = response.unpacked(cap)
    return body, response.charset(body)


async def _ask(process: Process, order: bytes, body: bytes) -> bytes:
    assert process.stdin is not None
    process.stdin.writelines([order, apart.LENGTH.pack(len(body)), body])
    await process.stdin.drain()
    return await _receive(process)


async def _receive(process: Process) -> bytes:
    assert process.stdout is not None
    (length,) = apart.LENGTH.unpack(await process.stdout.readexactly(apart.LENGTH.size))
    if length > apart.MAX_ANSWER:
        raise OSError(f"an answer of {length} bytes")
    return await process.stdout.readexactly(length)


async def _bury(process: Process) -> None:
    """Nothing of it stays, not even when somebody waits no longer."""
    with suppress(ProcessLookupError):
        process.kill()
    await asyncio.shield(process.wait())
