"""Runs one contender once, and measures it from outside."""

import json
import resource
import subprocess
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import quota, valkey
from benchmarks.launch import REPOSITORY, Contender, Ground, environment
from benchmarks.process import Child, NotReadyError, end, running
from benchmarks.result import Failure, Outcome, Reading
from benchmarks.served import Served
from benchmarks.tree import Tree

TAIL = 600
"""How much of a failed contender's errors is shown, in characters."""


class CrawlError(RuntimeError):
    """A contender did not do what it was asked."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What a crawl took from the machine."""

    cpu_seconds: float
    peak_bytes: int


@dataclass(frozen=True, slots=True)
class Course:
    """What a contender crawls in a round."""

    sites: Served
    kb: int
    pages: int
    number: int
    """Of the round."""


def measure(contender: Contender, course: Course) -> Reading | Failure:
    """Let a contender crawl its site."""
    try:
        return _measure(contender, course)
    except (CrawlError, NotReadyError, OSError, subprocess.SubprocessError) as exc:
        return Failure(contender.name, course.number, str(exc))


def _measure(contender: Contender, course: Course) -> Reading:
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="shoal-bench-home-")))
        servers = [stack.enter_context(valkey.serve(durable=contender.durable)) for _ in range(contender.servers)]
        before = _traffic(servers)
        ground = Ground(course.sites[course.pages], course.pages, home, tuple(server.url for server in servers))
        started = time.monotonic()
        outcome, cost = _crawl(contender, ground)
        traffic = _traffic(servers) - before
    return Reading(
        contender=contender.name,
        round=course.number,
        kb=course.kb,
        pages=outcome.pages,
        seconds=outcome.seconds,
        cpu_seconds=cost.cpu_seconds,
        peak_bytes=cost.peak_bytes,
        first_fetch_seconds=course.sites.first_fetch(course.pages, started),
        round_trips=traffic.round_trips if servers else None,
        scripts=traffic.scripts if servers else None,
        commands=traffic.commands if servers else None,
        redis_bytes=traffic.bytes if servers else None,
    )


def _traffic(servers: Sequence[valkey.Server]) -> valkey.Traffic:
    return sum((server.traffic() for server in servers), valkey.Traffic())


def _crawl(contender: Contender, ground: Ground) -> tuple[Outcome, Cost]:
    launch = contender.launch(ground)
    log, output = ground.home / "contender.log", ground.home / "contender.out"
    cpu_before = _cpu_of_children()
    env = environment(launch.env)
    with (
        quota.limited(contender.cores) as join,
        running(launch.command, log=log, output=output, env=env, cwd=REPOSITORY, first=join) as child,
        Tree(child.pid) as tree,
    ):
        try:
            _wait(child, contender, log)
        finally:
            end(child)
    # The kernel's sum covers all that was waited for, to the last moment; the samples also cover orphans.
    cpu_seconds = max(_cpu_of_children() - cpu_before, tree.cpu_seconds)
    return _outcome(output.read_text(errors="replace"), ground.pages), Cost(cpu_seconds, tree.peak_bytes)


def _wait(child: Child, contender: Contender, log: Path) -> None:
    seconds = contender.timeout.total_seconds()
    try:
        code = child.wait(seconds)
    except subprocess.TimeoutExpired:
        raise CrawlError(f"not finished after {seconds:.0f} s; {_tail(log)}") from None
    if code:
        raise CrawlError(f"ended with {code}; {_tail(log)}")


def _tail(log: Path) -> str:
    return log.read_text(errors="replace").strip()[-TAIL:] or "it said nothing"


def _cpu_of_children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _outcome(output: str, pages: int) -> Outcome:
    """Read the JSON object that ends a contender's output, and check that the whole site was crawled."""
    try:
        said: dict[str, Any] = json.loads(output.strip().rpartition("\n")[2])
        outcome = Outcome(int(said["pages"]), float(said["seconds"]))
    except (ValueError, KeyError, TypeError) as exc:
        raise CrawlError(f"its output ends with no outcome: {output[-TAIL:]!r}") from exc
    # Scrapy fetches the start page twice: it does not filter its start requests.
    if not pages <= outcome.pages <= pages + 1:
        raise CrawlError(f"crawled {outcome.pages} pages of {pages}")
    return outcome
