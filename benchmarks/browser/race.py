"""One contender renders the site once, and is measured from outside.

The site's log is the clock for everybody. It begins when the first pages, as many as are rendered at once, have come so
far that they ask for their data, and ends when the last one has. What it takes to start and to end does not count.
"""

import json
import subprocess
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from benchmarks import valkey
from benchmarks.browser import site
from benchmarks.browser.lineup import Contender, Course
from benchmarks.launch import REPOSITORY, Launch, environment
from benchmarks.process import end, running
from benchmarks.tree import Tree

LIMIT_S = 300.0
TAIL = 1_000


class RaceError(RuntimeError):
    """A contender did not do what it was asked."""


@dataclass(frozen=True, slots=True)
class Lap:
    """What one contender did in one round."""

    contender: str
    pages: int
    pages_per_second: float
    peak_bytes: int
    """Of all its processes together."""


def run(contender: Contender, pages: int, executable: str) -> Lap:
    """Let it render a site of its own; raises RaceError when a page is missing, or came without its items."""
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="shoal-bench-browser-")))
        served = stack.enter_context(site.serve(pages, home))
        frontier, broker = (stack.enter_context(valkey.serve(durable=True)).url for _ in range(2))
        course = Course(served.url, tuple(served.goods.targets), executable, home, (frontier, broker))
        tree = _watch(contender.launch(course), home)
        _check(course, served.goods)
        return Lap(contender.name, pages, _rate(served.arrivals(), pages, contender.first), tree.peak_bytes)


def _watch(launch: Launch, home: Path) -> Tree:
    log, output = home / "contender.log", home / "contender.out"
    env = environment(launch.env)
    with running(launch.command, log=log, output=output, env=env, cwd=REPOSITORY) as child, Tree(child.pid) as tree:
        try:
            code = child.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            raise RaceError(f"not finished after {LIMIT_S:.0f} s; {_tail(log)}") from None
        finally:
            end(child)
    if code:
        raise RaceError(f"ended with {code}; {_tail(log)}")
    return tree


def _check(course: Course, goods: site.Goods) -> None:
    """Did it get all pages, each once, and as the browser has it?"""
    lines = [json.loads(line) for line in course.results.read_text().splitlines()]
    found = {line["url"].removeprefix(course.url): line["items"] for line in lines}
    if len(lines) != len(found) or sorted(found) != sorted(goods.targets):
        raise RaceError(f"{len(lines)} results for {len(found)} of {goods.pages} pages")
    if wrong := [target for target in goods.targets if found[target] != goods.items(target)]:
        raise RaceError(f"{len(wrong)} pages without their items, {wrong[0]} among them: {found[wrong[0]]}")


def _rate(arrivals: list[float], pages: int, first: int) -> float:
    if len(arrivals) != pages:
        raise RaceError(f"{len(arrivals)} of {pages} pages asked for their data")
    return (pages - first) / (arrivals[-1] - arrivals[first - 1])


def _tail(log: Path) -> str:
    return log.read_text(errors="replace").strip()[-TAIL:] or "it said nothing"
