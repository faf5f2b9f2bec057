"""How long a client waits while crawls take all that the machine has.

Crawls of the same site follow one another: the next is submitted when the last one is half done, so that there is
always enough to fetch. The client asks for the newest of them, and submits small jobs of its own in between.
"""

import os
import random
import time
from dataclasses import dataclass, field
from urllib.parse import urljoin

import psutil

from benchmarks import server
from benchmarks.api.client import Answer, Client
from benchmarks.api.spread import Spread
from benchmarks.api.stage import BenchError, a_stage
from benchmarks.result import Row

PAGES, PAGES_QUICK = 20_000, 300
GETS, GETS_QUICK = 300, 15
POSTS, POSTS_QUICK = 100, 5
POST_URLS = 10
THINK_S = (0.01, 0.09)
SEED = 1
WARM_SHARE = 0.1
"""The measurement begins when so much of the first crawl is done."""
START_S = 60.0
MAX_GET_MS = 200.0
MAX_POST_MS = 300.0
MIN_BUSY_PERCENT = 90.0
FAST = {"rate": "unlimited", "robots": False}


def measure(quick: bool) -> list[Row]:
    """Mix both kinds of requests, with time to think, on one connection."""
    pages, gets, posts = (PAGES_QUICK, GETS_QUICK, POSTS_QUICK) if quick else (PAGES, GETS, POSTS)
    cores = os.cpu_count() or 1
    with (
        server.serve([pages]) as sites,
        a_stage() as stage,
        stage.api() as api,
        stage.workers(max(2, cores)),
        Client(api.port) as client,
    ):
        crowd = Crowd(client, sites[pages], pages)
        crowd.warm_up()
        load = Load(client)
        getting, posting = _mix(crowd, gets, posts)
        busy, rate = load.busy_percent(), load.pages_per_second()
    return [
        Row("`GET /jobs/{id}` during a crawl, p99", *_figure(getting), at_most=MAX_GET_MS),
        Row(f"`POST /jobs` with {POST_URLS} URLs during a crawl, p99", *_figure(posting), at_most=MAX_POST_MS),
        Row("pages fetched during these requests", rate, "pages/s", f"{crowd.crawls} crawls of {pages:,} pages"),
        Row("load of all cores during these requests", busy, "%", f"{cores} cores", at_least=MIN_BUSY_PERCENT),
    ]


def _figure(spread: Spread) -> tuple[float, str, str]:
    return spread.percentile(99) * 1000, "ms", spread.describe(50, 95, 99)


@dataclass(slots=True)
class Crowd:
    """The crawls, and the client in their midst."""

    client: Client
    start: str
    pages: int
    crawls: int = 0
    newest: str = ""
    rng: random.Random = field(default_factory=lambda: random.Random(SEED))

    def warm_up(self) -> None:
        """Begin, and wait until pages come at full speed."""
        self.crawl()
        deadline = time.monotonic() + START_S
        while self.client.get(f"/jobs/{self.newest}").json["pages"] < self.pages * WARM_SHARE:
            if time.monotonic() > deadline:
                raise BenchError("the crawl does not get going")
            time.sleep(0.1)

    def crawl(self) -> None:
        self.newest = self.client.post("/jobs", {"urls": [self.start], **FAST}).json["id"]
        self.crawls += 1

    def look(self) -> Answer:
        """Ask for the newest crawl; when it is half done another one follows."""
        answer = self.client.get(f"/jobs/{self.newest}")
        if answer.json["pages"] > self.pages / 2 or answer.json["ended_at"]:
            self.crawl()
        return answer

    def submit(self) -> Answer:
        """A job of a few pages of the same site."""
        ending = ".html" if self.start.endswith(".html") else ""
        numbers = self.rng.sample(range(1, self.pages), POST_URLS)
        urls = [urljoin(self.start, f"/p/{number}{ending}") for number in numbers]
        return self.client.post("/jobs", {"urls": urls, "follow": False, **FAST})


def _mix(crowd: Crowd, gets: int, posts: int) -> tuple[Spread, Spread]:
    order = [crowd.look] * gets + [crowd.submit] * posts
    crowd.rng.shuffle(order)
    seconds: dict[object, list[float]] = {crowd.look: [], crowd.submit: []}
    for act in order:
        time.sleep(crowd.rng.uniform(*THINK_S))
        seconds[act].append(act().seconds)
    return Spread(seconds[crowd.look]), Spread(seconds[crowd.submit])


class Load:
    """What the machine does from now on."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._started = time.monotonic()
        self._times = psutil.cpu_times()
        self._fetched = self._pages()

    def busy_percent(self) -> float:
        """The share of all cores that did not idle."""
        spent = [now - before for now, before in zip(psutil.cpu_times(), self._times, strict=True)]
        names = self._times._fields
        idle = sum(seconds for name, seconds in zip(names, spent, strict=True) if name in ("idle", "iowait"))
        guests = sum(seconds for name, seconds in zip(names, spent, strict=True) if name.startswith("guest"))
        return 100 * (1 - idle / (sum(spent) - guests))  # guests' time is part of the users' already

    def pages_per_second(self) -> float:
        return (self._pages() - self._fetched) / (time.monotonic() - self._started)

    def _pages(self) -> int:
        outcomes: dict[str, int] = self._client.get("/stats").json["outcomes"]
        return sum(count for name, count in outcomes.items() if name.partition(":")[0] == "done")
