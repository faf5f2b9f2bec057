"""Whatever a host sends or does not send, the loop that waits for it serves others meanwhile."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta

import pytest
import uvloop

from shoal.core.url import parse
from shoal.errors import FetchError
from shoal.fetch.http import HttpClient
from shoal.fetch.port import FetchLimits
from tests.guards import guard_of_loopback
from tests.site.hostile import framing, slowness
from tests.site.hostile.case import Case
from tests.site.hostile.cases import ADDRESS_OF
from tests.site.hostile.process import HostileSite, hostile_site

CASES = [case for case in (*framing.CASES, *slowness.CASES) if case.scheme == "http"]
LIMITS = FetchLimits(total=timedelta(seconds=1))
MOST_S = 0.25
LATE_S = 5.0
"""A fetch has a second; machines may be busy."""


@dataclass(slots=True)
class Heart:
    """Beats in the loop; how long it did not, by the time that its thread was at work."""

    gap_s: float = 0.0

    @asynccontextmanager
    async def beating(self) -> AsyncGenerator[None]:
        """While the block runs."""
        beats = asyncio.create_task(self._beat())
        await asyncio.sleep(0)
        try:
            yield
            await asyncio.sleep(0)
        finally:
            beats.cancel()
            with suppress(asyncio.CancelledError):
                await beats

    async def _beat(self) -> None:
        while True:
            before = time.thread_time()
            await asyncio.sleep(0.005)
            self.gap_s = max(self.gap_s, time.thread_time() - before)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Generator[HostileSite]:
    plan = {ADDRESS_OF[case.name]: case.name for case in CASES}
    with hostile_site(tmp_path_factory.mktemp("loop"), plan) as made:
        yield made


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_loop_never_stands_still(site: HostileSite, case: Case) -> None:
    heart = Heart()

    async def main() -> float:
        client = HttpClient("Shoal-Test/1.0", guard_of_loopback())
        started = time.monotonic()
        async with heart.beating():
            with suppress(FetchError):
                await client.fetch(parse(site.link(case.name)), {}, LIMITS)
        took = time.monotonic() - started
        await client.close()
        return took

    took = uvloop.run(main())
    assert heart.gap_s < MOST_S
    assert took < LATE_S
