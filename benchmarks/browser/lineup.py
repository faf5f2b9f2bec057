"""Who renders the site: Shoal and the others, each as a command that writes what it has read to a file."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import yaml

from benchmarks.launch import Launch, Stack, foreign

AT_ONCE = 4
"""Pages, for everybody."""
SHOAL, NEW, CRAWLEE, INCOGNITO = "shoal", "new browsers", "crawlee", "crawlee, incognito"


@dataclass(frozen=True, slots=True)
class Course:
    """What a contender is given."""

    url: str
    """Of the site, without a slash."""
    targets: tuple[str, ...]
    """All of its pages."""
    executable: str
    """The browser."""
    home: Path
    redis: tuple[str, str]
    """For frontier and broker."""

    @property
    def results(self) -> Path:
        """Where a contender writes a line of JSON for each page: `url`, `items`."""
        return self.home / "results.jsonl"


@dataclass(frozen=True, slots=True)
class Contender:
    """One program that renders the site."""

    name: str
    launch: Callable[[Course], Launch]
    share: float = 1.0
    """Of the pages; who is slow gets a smaller site."""
    first: int = AT_ONCE + 1
    """Pages that come before the clock begins: the start page, which leads to the others, and the first of those."""
    stack: Stack = Stack.SHOAL


def _shoal(course: Course) -> Launch:
    """What pages load besides themselves has a rate of its own, which the command has no flag for."""
    job = course.home / "job.yaml"
    job.write_text(yaml.safe_dump({"browser": {"resource_rate": "unlimited"}}))
    options = ["--browser", "--wait", ".item", "--field", "items[]=.item", "--output", str(course.results)]
    free = ["--job", str(job), "--rate", "unlimited", "--no-robots", "--workers", "1", "--quiet", "--json"]
    frontier, broker = course.redis
    env = {
        "SHOAL_HOME": str(course.home / "shoal"),
        "SHOAL_REDIS_URL": frontier,
        "SHOAL_BROKER_URL": f"{broker}/0",
        "SHOAL_BROWSER": course.executable,
        "SHOAL_BROWSER_PAGES": str(AT_ONCE),
    }
    return Launch([sys.executable, "-m", "shoal", "crawl", f"{course.url}/", *options, *free], env)


def _new_browsers(course: Course) -> Launch:
    urls = course.home / "urls.txt"
    urls.write_text("".join(f"{course.url}{target}\n" for target in course.targets))
    command = [sys.executable, "-m", "benchmarks.browser.new_browsers", course.executable, str(AT_ONCE)]
    return Launch([*command, str(course.results), str(urls)])


def _crawlee(course: Course, *options: str) -> Launch:
    arguments = (course.executable, str(AT_ONCE), str(course.results), f"{course.url}/", *options)
    storage = {"CRAWLEE_STORAGE_DIR": str(course.home / "crawlee")}
    return foreign(Stack.CRAWLEE, "crawlee_browser.py", *arguments, env=storage)


CONTENDERS = (
    Contender(SHOAL, _shoal),
    Contender(NEW, _new_browsers, share=0.4, first=AT_ONCE),  # it is told all pages
    Contender(CRAWLEE, _crawlee, stack=Stack.CRAWLEE),
    Contender(INCOGNITO, lambda course: _crawlee(course, "--incognito"), stack=Stack.CRAWLEE),
)
