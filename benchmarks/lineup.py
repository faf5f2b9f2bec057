"""The contenders: how each is started, and how much of the work it is given."""

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from pathlib import Path

LOOPBACK = "127.0.0.0/8"
"""Where all that is crawled here is."""
REPOSITORY = Path(__file__).resolve().parent.parent


@dataclass(frozen=True, slots=True)
class Ground:
    """Where a contender runs: the site it crawls, a folder of its own, and its Redis servers."""

    url: str
    pages: int
    home: Path
    redis: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Launch:
    """A command, and what it finds in its environment."""

    command: list[str]
    env: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class Contender:
    """One program that crawls the site."""

    name: str
    about: str
    launch: Callable[[Ground], Launch]
    pages: int | None = None
    """How many pages its site has; none: as many as the run asks for."""
    quick_pages: int = 1_000
    servers: int = 0
    """How many Redis servers it needs."""
    durable: bool = False
    """Whether these log their writes, as Shoal's embedded server does."""
    timeout: timedelta = timedelta(minutes=3)

    def size(self, pages: int, *, quick: bool) -> int:
        """Return the number of pages of the site that this contender is given."""
        if quick:
            return min(self.quick_pages, pages)
        return min(self.pages or pages, pages)


def _module(module: str, *arguments: str) -> Callable[[Ground], Launch]:
    return lambda ground: Launch([sys.executable, "-m", module, ground.url, *arguments])


def _tutorial(ground: Ground) -> Launch:
    command = [sys.executable, "-m", "benchmarks.contenders.tutorial_run", ground.url, str(ground.pages)]
    return Launch(command, {"TUTORIAL_REDIS": ground.redis[0]})


def _shoal(ground: Ground, *, workers: int, archive: bool) -> Launch:
    options = ["--workers", str(workers), "--rate", "unlimited", "--no-robots", "--quiet", "--json"]
    if not archive:
        options.append("--no-archive")
    frontier, broker = ground.redis
    env = {"SHOAL_HOME": str(ground.home), "SHOAL_REDIS_URL": frontier, "SHOAL_BROKER_URL": f"{broker}/0"}
    return Launch([sys.executable, "-m", "shoal", "crawl", ground.url, *options], env)


def _shoal_contender(name: str, about: str, *, workers: int, archive: bool) -> Contender:
    # Frontier and broker have a server each, so that the doorbells' share of the calls can be read off.
    launch = partial(_shoal, workers=workers, archive=archive)
    return Contender(name, about, launch, servers=2, durable=True)


CONTENDERS = (
    Contender("raw", "the ceiling: HTTP client and parser in a bare loop", _module("benchmarks.raw")),
    _shoal_contender("shoal-1", "one worker process, no archive", workers=1, archive=False),
    _shoal_contender("shoal-1-archive", "one worker process, with archive", workers=1, archive=True),
    _shoal_contender("shoal-2", "two worker processes, no archive", workers=2, archive=False),
    Contender(
        "scrapy",
        "Scrapy's CrawlSpider on default settings",
        _module("benchmarks.contenders.scrapy_plain"),
        pages=2_000,
        quick_pages=100,
        timeout=timedelta(minutes=5),
    ),
    Contender(
        "scrapy-tuned",
        "Scrapy tuned by hand",
        _module("benchmarks.contenders.scrapy_tuned"),
        pages=6_000,
        quick_pages=200,
        timeout=timedelta(minutes=5),
    ),
    Contender(
        "scrapy-shortcut",
        "the tuned one, its spider remembers hrefs itself",
        _module("benchmarks.contenders.scrapy_tuned", "--shortcut"),
        pages=6_000,
        quick_pages=400,
    ),
    Contender(
        "tutorial",
        "one Celery message for each URL, two processes",
        _tutorial,
        pages=600,
        quick_pages=40,
        servers=1,
        timeout=timedelta(minutes=5),
    ),
)


def environment(extra: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a contender: ours, less proxies and settings that would reach into it."""
    # PYTHON*: without bytecode files, say, every process would compile its libraries anew.
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.lower().endswith("_proxy") and not name.startswith(("SHOAL_", "PYTHON"))
    }
    path = os.pathsep.join([str(REPOSITORY / "src"), str(REPOSITORY)])
    return kept | {"PYTHONPATH": path, "SHOAL_EGRESS_ALLOW": LOOPBACK} | dict(extra)
