"""What no page may do: keep the loop of a worker from everything else. A heart beats in the loop of a real slice.

Counted is the time that the loop's thread was busy from one beat to the next, not what a busy machine makes of it.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Generator
from pathlib import Path

import pytest

from shoal.extract import apart
from shoal.worker.slice import Slice
from tests.contract import test_slice
from tests.contract.test_slice import Plant
from tests.site.hostile.process import hostile_site
from tests.site.reply import Reply, page
from tests.site.server import serve

plant = test_slice.plant
BEAT_S = 0.002
LONGEST_S = 0.25
MAX_BODY = 32_000_000
NAMES = [f"{number + 4096:x}" for number in range(20_000)]


class Heart:
    """Beats in a loop."""

    def __init__(self) -> None:
        self.beats = 0
        self.longest = 0.0
        """Seconds of the processor between two beats."""
        self._task: asyncio.Task[None] | None = None

    def begin(self, _slice: Slice) -> None:
        self._task = asyncio.create_task(self._beat())

    async def _beat(self) -> None:
        last = time.thread_time()
        while True:
            await asyncio.sleep(BEAT_S)
            now = time.thread_time()
            self.longest = max(self.longest, now - last)
            self.beats += 1
            last = now


class TwoFaced:
    """Pages of a size that is read in place as a rule, each of which a parser takes seconds for."""

    def respond(self, path_and_query: str, _hits: int) -> Reply:
        if path_and_query == "/formatting":
            return page("".join(f"<b {' '.join(NAMES[:20])} z{number}>" for number in range(1_800)))
        if path_and_query == "/quotes":
            stretches = (" ".join(NAMES[at : at + 99]) for at in range(0, len(NAMES), 99))
            return page('<!--<a x="--><a y=">" ' + ' z=">" '.join(stretches))
        return page("<a href=/formatting><a href=/quotes>")


@pytest.fixture(autouse=True)
def _a_heap_of_its_own() -> Generator[None]:
    """What the tests before have left is not looked through for garbage: a worker has none of it."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a second for a page is enough to see it."""
    monkeypatch.setattr(apart, "CPU_S", 0.5)


def _crawl(plant: Plant, folder: Path, *cases: str) -> tuple[str, Heart]:
    """A page of a host for each."""
    plan, heart = {f"127.66.9.{number}": case for number, case in enumerate(cases, 1)}, Heart()
    with hostile_site(folder, plan) as site:
        urls = [f"http://{address}:{site.port}/" for address in plan]
        fields = {"title": "h1"}
        job = plant.submit(urls[0], urls=urls, depth=1, pages=len(urls), max_body=MAX_BODY, fields=fields)
        plant.run(heart.begin)
    assert plant.counters(job).done == len(cases)
    assert heart.beats > 100
    return job, heart


@pytest.mark.usefixtures("impatient")
def test_six_hosts_of_pages_that_take_too_long_do_not_stop_the_heart_of_a_worker(plant: Plant, tmp_path: Path) -> None:
    job, heart = _crawl(plant, tmp_path, *["nested"] * 5, "attributes-100000")
    assert plant.control.status(job).reasons.get("done:too_complex") == 6
    assert heart.longest < LONGEST_S


def test_nor_does_a_page_of_a_million_links(plant: Plant, tmp_path: Path) -> None:
    job, heart = _crawl(plant, tmp_path, "links")
    assert "done:too_complex" not in plant.control.status(job).reasons
    assert heart.longest < LONGEST_S


@pytest.mark.usefixtures("impatient")
def test_nor_does_a_page_that_looks_light(plant: Plant) -> None:
    heart = Heart()
    with serve(TwoFaced()) as site:
        job = plant.submit(site.url, fields={"title": "h1"}, depth=1)
        plant.run(heart.begin)
    assert plant.counters(job).done == 3
    assert heart.longest < LONGEST_S
