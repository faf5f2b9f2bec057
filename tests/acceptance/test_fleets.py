"""One long run, the same over each fleet: whatever database, Redis and broker, every page is stored once."""

from __future__ import annotations

import json
import signal
import subprocess
import urllib.request
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.command import Shoal, a_home, embedded_redis, end
from tests.conftest import lack
from tests.fleets import NAMES, Lacking, services
from tests.site.generated import LinkedSite, StatusSite
from tests.site.reply import Reply
from tests.site.server import Server, serve
from tests.waiting import wait_until

WITHIN = timedelta(seconds=120)
PAGES, LISTED, DEAD, SOCKETS = 300, 30, 8, 16
FETCHING = "http.high,http.batch,http.slow"
LOOKED_AT = ("settings", "redis", "broker", "fleet", "database", "storage")
"""What the doctor must find well; that the tests open the loopback is another matter."""
KNOWN = ("redis_writes_alone",)
"""Of two servers, the one that is left must take changes alone."""


class _Fleet:
    """Commands of one home on one fleet, and what it takes to kill its broker."""

    def __init__(self, name: str, home: Path) -> None:
        fleet = services().fleet(name)
        short = {"SHOAL_LEASE_SECONDS": "3", "SHOAL_STALL_SECONDS": "5", "SHOAL_SOCKETS": str(SOCKETS)}
        self.shoal = Shoal(home, tuple({**short, **fleet.variables}.items()))
        self.restart: Callable[[], None] = fleet.restart or self._kill_embedded

    def _kill_embedded(self) -> None:
        """Whoever guards it starts another."""
        server = embedded_redis(self.shoal)
        server.kill()
        server.wait(10)


@pytest.fixture(params=[pytest.param(name, marks=pytest.mark.embedded) for name in NAMES])
def fleet(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[_Fleet]:
    with a_home(tmp_path) as command:
        try:
            made = _Fleet(request.param, command.home)
        except Lacking as exc:
            lack(str(exc))
        yield made


class _Api:
    """The control plane, as clients use it."""

    def __init__(self, url: str) -> None:
        self._url = f"{url}/api/v1"

    def ask(self, path: str, body: object = None, method: str = "") -> Any:
        return json.loads(self.text(path, body, method))

    def text(self, path: str, body: object = None, method: str = "") -> str:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"{self._url}/{path}", data, headers, method=method or None)
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(request, timeout=30) as answer:
            return answer.read().decode()

    def submit(self, **spec: Any) -> str:
        return self.ask("jobs", {"robots": False, **spec})["id"]

    def state(self, job: str) -> str:
        """Also of a job while Redis is away."""
        try:
            return self.ask(f"jobs/{job}")["state"]
        except OSError:
            return "away"

    def wait_for(self, job: str, state: str) -> None:
        wait_until(lambda: self.state(job) == state, within=WITHIN)

    def pages(self, job: str) -> list[str]:
        """All that are stored, as a client downloads them."""
        lines = self.text(f"jobs/{job}/export?what=pages&format=jsonl").splitlines()
        return [json.loads(line)["url"] for line in lines]


@contextmanager
def _up(shoal: Shoal) -> Generator[tuple[subprocess.Popen[str], _Api]]:
    process = shoal.start("up", "--port", "0", "--json", "--workers", "1")
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, process.communicate()[1]
        yield process, _Api(json.loads(line)["url"])
    finally:
        end(process)


def _list_site() -> StatusSite:
    """Some pages are not there when they are first asked for."""
    found = Reply(200, (("Content-Type", "text/html"),), b"<title>here</title>")
    missing = Reply(404)
    replies = {f"/{n}": (missing, found) if n < DEAD else (found,) for n in range(LISTED)}
    return StatusSite(replies)


def _is_stored_once(api: _Api, job: str, pages: int) -> None:
    told = api.ask(f"jobs/{job}")
    assert (told["state"], told["pages"], told["reconciles"]) == ("finished", pages, True)
    urls = api.pages(job)
    assert len(urls) == len(set(urls)) == pages


def _is_at_rest(site: Server) -> Callable[[], bool]:
    """Has nobody asked for anything between two looks that are half a second apart?"""
    seen = [-1, -1]

    def look() -> bool:
        seen.append(len(site.hits))
        return len(seen) > 250 and seen[-250] == seen[-1]

    return look


def test_a_fleet_brings_every_job_to_its_end_whatever_dies(fleet: _Fleet) -> None:
    shoal = fleet.shoal
    with ExitStack() as stack:
        site = stack.enter_context(serve(LinkedSite(pages=PAGES, links=20, size=1_000)))
        listed = stack.enter_context(serve(_list_site()))
        up, api = stack.enter_context(_up(shoal))
        worker = stack.enter_context(shoal.running("worker", "--queues", FETCHING))

        crawl = api.submit(urls=[site.url], rate="60/s", parallel=16)
        scrape = api.submit(urls=[f"{listed.url}{n}" for n in range(LISTED)], follow=False, rate="unlimited")
        api.wait_for(scrape, "finished")
        wait_until(lambda: len(site.hits) > PAGES * 0.15, within=WITHIN)

        api.ask(f"jobs/{crawl}/pause", {}, "POST")
        wait_until(_is_at_rest(site), within=WITHIN)
        assert api.state(crawl) == "paused"
        assert len(site.hits) < PAGES
        api.ask(f"jobs/{crawl}/resume", {}, "POST")

        wait_until(lambda: len(site.hits) > PAGES * 0.35, within=WITHIN)
        _kill(worker)
        wait_until(lambda: len(site.hits) > PAGES * 0.55, within=WITHIN)
        fleet.restart()
        api.wait_for(crawl, "finished")
        _is_stored_once(api, crawl, PAGES)
        asked = Counter(hit.target for hit in site.hits)
        assert len(asked) == PAGES
        assert sum(asked.values()) - PAGES <= 4 * SOCKETS  # what was under way when somebody died

        assert len(api.ask(f"jobs/{scrape}/dead?limit=100")["data"]) == DEAD
        assert api.ask(f"jobs/{scrape}/dead/replay", {}, "POST") == {"replayed": DEAD}
        api.wait_for(scrape, "finished")
        _is_stored_once(api, scrape, LISTED)
        assert len(shoal.run("results", scrape, "--pages").records) == LISTED

        last = api.submit(urls=[site.url], rate="unlimited", lane="high", pages=20)
        api.wait_for(last, "finished")
        _is_well(shoal)
        up.send_signal(signal.SIGTERM)
        up.communicate(timeout=45)
    assert up.returncode == 0


def _kill(worker: subprocess.Popen[str]) -> None:
    """All of it at once, as when its machine dies."""
    family = [*psutil.Process(worker.pid).children(recursive=True), psutil.Process(worker.pid)]
    for process in family:
        process.kill()
    worker.wait(10)


def _is_well(shoal: Shoal) -> None:
    """As the doctor sees it, once those that were killed are forgotten."""

    def troubles() -> list[str]:
        found = json.loads(shoal.run("doctor", "--json").out)["findings"]
        bad = [each for each in found if each["level"] in ("error", "warning") and each["area"] in LOOKED_AT]
        return [f"{each['code']}: {each['what']}" for each in bad if each["code"] not in KNOWN]

    last: list[str] = []

    def is_content() -> bool:
        last[:] = troubles()
        return not last

    try:
        wait_until(is_content, within=timedelta(seconds=40))
    except AssertionError:
        raise AssertionError(last) from None
