"""How a program that is measured is started: in which environment, on what ground, by which command.

Each stack has a virtual environment of its own, because a process is measured with all that it loads: structlog, say,
imports Twisted wherever it is installed. Shoal shares one with the meter; the others know neither of them.
"""

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from pathlib import Path

LOOPBACK = "127.0.0.0/8"
"""Where all that is crawled here is."""
REPOSITORY = Path(__file__).resolve().parent.parent
SCRIPTS = REPOSITORY / "benchmarks" / "contenders"
"""The programs of other stacks: scripts, beside which they find one another and nothing else of ours."""
PAGE_KB = 25
"""The usual size of a page."""


class Stack(StrEnum):
    """What a program is built on."""

    SHOAL = "shoal"
    SCRAPY = "scrapy"
    CRAWLEE = "crawlee"
    TUTORIAL = "tutorial"

    @property
    def folder(self) -> Path:
        """Its environment, which `make bench` makes."""
        return Path(sys.prefix) if self is Stack.SHOAL else REPOSITORY / f".venv-bench-{self}"

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return Path(sys.executable) if self is Stack.SHOAL else self.folder / "bin" / "python"

    @property
    def is_here(self) -> bool:
        """Whether it can run here. The stamp comes last: without it something is missing."""
        return self is Stack.SHOAL or (self.folder / "stamp").is_file()


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
    launch: Callable[[Ground], Launch]
    stack: Stack = Stack.SHOAL
    pages: int | None = None
    """How many pages its site has; none: as many as the run asks for."""
    quick_pages: int = 1_000
    servers: int = 0
    """How many Redis servers it needs."""
    durable: bool = False
    """Whether these log their writes, as Shoal's embedded server does."""
    timeout: timedelta = timedelta(minutes=3)
    cores: float | None = None
    """What it may take of the processors; none: whatever is free."""

    def size(self, pages: int, *, quick: bool, kb: int = PAGE_KB) -> int:
        """Return the number of pages of the site that this contender is given; of large ones there are fewer."""
        most = self.quick_pages if quick else self.pages or pages
        return min(most, pages) * PAGE_KB // max(kb, PAGE_KB)


def foreign(stack: Stack, script: str, *arguments: str, env: Mapping[str, str] | None = None) -> Launch:
    """A program of another stack, run by that stack's interpreter."""
    return Launch([str(stack.python), str(SCRIPTS / script), *arguments], {"PYTHONPATH": "", **(env or {})})


def left_out(name: str, stack: Stack) -> str:
    """What is said of a contender that cannot run here."""
    return f"{name}: left out; there is no {stack.folder.name}, which `make bench` makes"


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
