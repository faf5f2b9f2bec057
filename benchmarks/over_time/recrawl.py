"""A recrawl of pages that have not changed against the crawl before it: speed, bytes on the wire, items.

One process works; the site is one that knows ETags. Each round has a home of its own: a first crawl, and the run behind
it, so that both meet the same machine.
"""

import statistics
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.request import urlopen

from benchmarks import site
from benchmarks.data.command import crawl, field_options, shoal
from benchmarks.launch import REPOSITORY
from benchmarks.process import free_port, listens, running, wait_ready
from benchmarks.result import Row

PAGES, QUICK_PAGES = 5_000, 200
ROUNDS = 7
FIELDS = {"title": "h1", "trail": ".trail", "first": "article p", "children[]": ".children h3"}
FASTER, MOST_BYTES = 2.0, 5.0


@dataclass(frozen=True, slots=True)
class Round:
    """Of one crawl and the one behind it."""

    first: float
    """Pages a second."""
    second: float
    share: float
    """Bytes that the second took, of those of the first, in percent."""


def measure(quick: bool) -> list[Row]:
    """Some rounds."""
    pages, rounds = (QUICK_PAGES, 1) if quick else (PAGES, ROUNDS)
    with _serving(pages) as url:
        found = [_round(url, pages) for _ in range(rounds)]
    times = [each.second / each.first for each in found]
    first, second = (
        statistics.median(rates) for rates in zip(*((one.first, one.second) for one in found), strict=True)
    )
    rates = f"{first:,.0f} and {second:,.0f} pages/s"
    faster, most = (None, None) if quick else (FASTER, MOST_BYTES)
    return [
        Row(
            f"recrawl of {pages:,} unchanged pages: against the first crawl",
            statistics.median(times),
            "×",
            f"{rounds} rounds, {min(times):.2f}–{max(times):.2f}; {rates}; items are equal",
            at_least=faster,
        ),
        Row(
            "recrawl: bytes on the wire, of those of the first crawl",
            statistics.median(each.share for each in found),
            "%",
            "heads and bodies, as the server has written them",
            at_most=most,
        ),
    ]


@contextmanager
def _serving(pages: int) -> Generator[str]:
    site.build(pages)
    port = free_port()
    command = [sys.executable, "-m", "benchmarks.over_time.tagged_server", str(port), str(pages)]
    with (
        tempfile.TemporaryDirectory(prefix="shoal-bench-web-") as folder,
        running(command, log=Path(folder) / "log", cwd=REPOSITORY) as child,
    ):
        wait_ready(child, lambda: listens(port), seconds=60)
        yield f"http://127.0.0.1:{port}"


def _round(url: str, pages: int) -> Round:
    with tempfile.TemporaryDirectory(prefix="shoal-bench-") as folder:
        home = Path(folder)
        job = home / "job.yaml"
        job.write_text("recrawl: true\n")
        begun = _written(url)
        options = ("-j", str(job), *field_options(FIELDS))
        first = crawl(home, f"{url}/index.html", 1, *options, "-o", str(home / "first.jsonl"))
        between = _written(url)
        second = crawl(
            home, f"{url}/index.html", 1, *options, "--previous", first["job"], "-o", str(home / "second.jsonl")
        )
        after = _written(url)
        _check(home, second, pages)
    return Round(first["pages_per_second"], second["pages_per_second"], 100 * (after - between) / (between - begun))


def _check(home: Path, second: dict[str, object], pages: int) -> None:
    """All pages carried over, all items there."""
    if second["pages"] != pages or second["carried"] != {"not_modified": pages}:
        raise RuntimeError(f"of {pages} pages there are {second['pages']}, carried over {second['carried']}")
    one, other = (sorted((home / name).read_text().splitlines()) for name in ("first.jsonl", "second.jsonl"))
    if one != other or len(one) != pages:
        raise RuntimeError(f"items differ: {len(one)} and {len(other)} of {pages} pages")
    shoal(home, "status", str(second["job"]), "--json")


def _written(url: str) -> int:
    with urlopen(f"{url}/-/bytes", timeout=10) as answer:
        return int(answer.read())
