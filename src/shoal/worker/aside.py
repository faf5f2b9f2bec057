"""A process apart in which pages are read, one at a time: started when it is first needed, and anew when a page has
killed it.

It has a session of its own, so that Ctrl-C in a terminal does not reach it before the slice is done.
"""

from __future__ import annotations

import asyncio
from asyncio.subprocess import PIPE, Process
from contextlib import suppress

from shoal.errors import FetchError, Unavailable
from shoal.extract import apart
from shoal.extract.findings import Findings, Wanted

START_S = 30.0
"""For a process to come up, on a machine that is busy."""

ENDS_S = 1.0


class TookTooLong(FetchError):
    """A page was not read in the time that there was for it."""


class Aside:
    """One such process, and how long a page may take in it: of the processor, and by the clock."""

    def __init__(self, cpu_s: float, wall_s: float) -> None:
        self._cpu_s, self._wall_s = cpu_s, wall_s
        self._process: Process | None = None

    async def read(self, body: bytes, wanted: Wanted) -> Findings:
        """What is wanted of a page; raises FetchError when that cannot be read within bounds."""
        process = self._process or await self._start()
        try:
            async with asyncio.timeout(self._wall_s):
                answer = await _ask(process, apart.pack_order(wanted), body)
        except TimeoutError as exc:
            await self.end()
            raise TookTooLong("too_complex", f"reading it took more than {self._wall_s:g} s") from exc
        except (asyncio.IncompleteReadError, OSError) as exc:
            with suppress(TimeoutError):  # it has hung up, and can say itself why it ends
                async with asyncio.timeout(ENDS_S):
                    await process.wait()
            await self.end()
            kind = TookTooLong if apart.ran_out_of_time(process.returncode) else FetchError
            raise kind("too_complex", apart.explain_end(process.returncode, self._cpu_s)) from exc
        except BaseException:  # interrupted: its answer would be taken for that to the next page
            await self.end()
            raise
        return apart.read_answer(answer)

    async def end(self) -> None:
        """No more pages for now."""
        process, self._process = self._process, None
        if process is not None:
            await _bury(process)

    async def _start(self) -> Process:
        try:
            process = await asyncio.create_subprocess_exec(
                *apart.command(self._cpu_s), stdin=PIPE, stdout=PIPE, env=apart.environment(), start_new_session=True
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
