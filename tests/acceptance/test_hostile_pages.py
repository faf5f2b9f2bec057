"""Huge, deep and odd pages: they end as pages or with a reason, and no worker dies of them or stands still."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from shoal.wiring import open_platform
from tests.command import Shoal, a_home
from tests.long import LONG
from tests.site.hostile import pages
from tests.site.hostile.case import PAGE, Case
from tests.site.hostile.cases import ADDRESS_OF
from tests.site.hostile.process import HostileSite, hostile_site
from tests.waiting import wait_until

PATIENCE = timedelta(seconds=90)
MORE_OF_THE_SAME = frozenset({"nested-and-closed", "nested-lists", "nested-formatting", "attributes-100000"})
"""These take their reader to its limit of five seconds, as `nested` does; so they are left to the long version."""
CASES = tuple(case for case in pages.CASES if LONG or case.name not in MORE_OF_THE_SAME)
MAX_BODY = 32_000_000
MAX_MEMORY = 1_000_000_000
"""Of one worker process at its highest; the page with a million links is 12 MB itself."""


@pytest.fixture(scope="module")
def crawled(tmp_path_factory: pytest.TempPathFactory) -> Generator[dict[str, Any]]:
    """Case → how its page ended; and the sums of the job, and the highest memory of the worker."""
    folder = tmp_path_factory.mktemp("pages")
    with hostile_site(folder, {ADDRESS_OF[case.name]: case.name for case in CASES}) as site, a_home(folder) as home:
        shoal = Shoal(home.home, (("SHOAL_EGRESS_ALLOW", "127.0.0.0/8"),))
        with (
            shoal.running("worker", "--concurrency", "1"),
            open_platform(shoal.settings) as platform,
        ):
            job = _submit(shoal, site, folder)
            wait_until(lambda: platform.control.status(job).state.ended, within=PATIENCE)
            memory = max(map(_highest, shoal.processes()))
            counters = platform.control.status(job).counters
            yield {"ends": _ends(shoal, site, job), "counters": counters, "memory": memory}


def _submit(shoal: Shoal, site: HostileSite, folder: Path) -> str:
    spec: dict[str, Any] = {"rate": "unlimited", "robots": False, "retries": 0, "timeout": 60, "max_body": MAX_BODY}
    spec |= {"urls": [site.link(case.name) for case in CASES], "depth": 1, "pages": len(CASES)}
    spec |= {"fields": {"heading": "h1"}}
    file = folder / "job.yaml"
    file.write_text(yaml.safe_dump(spec))
    done = shoal.run("crawl", "-j", str(file), "--detach", "--json")
    assert done.code == 0, done.err
    return done.json["job"]


def _ends(shoal: Shoal, site: HostileSite, job: str) -> dict[str, str]:
    ends = {row["url"]: row["reason"] for row in shoal.run("dead", job, "--format", "jsonl").records}
    ends |= {row["url"]: PAGE for row in shoal.run("results", job, "--pages", "--format", "jsonl").records}
    return {case.name: ends.get(site.link(case.name), "") for case in CASES}


def _highest(process: psutil.Process) -> int:
    """In bytes, at any time so far."""
    with suppress(OSError):
        for line in Path(f"/proc/{process.pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return 0


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_hostile_page_ends(crawled: dict[str, Any], case: Case) -> None:
    assert crawled["ends"][case.name] in case.fate


def test_no_worker_died_of_a_page_and_none_stood_still(crawled: dict[str, Any]) -> None:
    counters = crawled["counters"]
    assert counters.lost == 0
    assert counters.admitted == counters.done + counters.dead == len(CASES)


def test_the_memory_of_the_worker_is_bounded(crawled: dict[str, Any]) -> None:
    assert crawled["memory"] < MAX_MEMORY
