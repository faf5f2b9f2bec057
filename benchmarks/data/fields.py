"""What ten fields cost beside links: in a whole crawl, and in processor time of the reading of a page alone."""

import json
import statistics
import tempfile
import time
from pathlib import Path

from benchmarks import site
from benchmarks.data.command import crawl, field_options
from benchmarks.result import Row
from benchmarks.server import serve
from shoal.extract.findings import Wanted, find

PAGES = 50
ROUNDS, QUICK_ROUNDS = 40, 3
CRAWLED, QUICK_CRAWLED = 10_000, 300
CRAWLS = 5
URL = "http://h.example/p/7.html"
FIELDS = {
    "title": "h1",
    "page": "title",
    "description": "meta[name=description]@content",
    "trail": ".trail",
    "first": "article p",
    "section": "nav a",
    "previous": "a[rel=prev]@href",
    "next": "a[rel=next]@href",
    "heading": "aside h2",
    "children[]": ".children h3",
}


def measure(quick: bool) -> list[Row]:
    """Both with links alone and with links and fields, in turn."""
    return [*_crawls(quick), *_readings(quick)]


def _crawls(quick: bool) -> list[Row]:
    """By one process: pages are fetched, read and stored, and so are items."""
    pages, rounds = (QUICK_CRAWLED, 1) if quick else (CRAWLED, CRAWLS)
    with serve([pages]) as urls:
        rates = [(_rate(urls[pages], {}), _rate(urls[pages], FIELDS)) for _ in range(rounds)]
    alone, with_fields = (statistics.median(each) for each in zip(*rates, strict=True))
    shares = [second / first * 100 for first, second in rates]
    note = f"{rounds} rounds in turn of {pages:,} pages, 1 process"
    least = f"{min(shares):.0f}–{max(shares):.0f} %"
    return [
        Row("crawl with links alone", alone, "pages/s", note=note),
        Row("crawl with links and 10 fields", with_fields, "pages/s", note=note),
        Row("links and 10 fields against links alone", statistics.median(shares), "%", note=least, at_least=75.0),
    ]


def _rate(url: str, fields: dict[str, str]) -> float:
    with tempfile.TemporaryDirectory(prefix="shoal-bench-") as folder:
        return crawl(Path(folder), url, 1, *field_options(fields))["pages_per_second"]


def _readings(quick: bool) -> list[Row]:
    """Page by page in turn, without anything else."""
    site_of = site.build(1_000)
    bodies = [(site_of.root / "p" / f"{number}.html").read_bytes() for number in range(1, PAGES + 1)]
    links = Wanted(URL, "utf-8", links=True)
    both = Wanted(URL, "utf-8", links=True, extraction=json.dumps({"fields": FIELDS}))
    rounds = [_round(bodies, links, both) for _ in range(QUICK_ROUNDS if quick else ROUNDS)]
    alone, with_fields = (statistics.median(times) for times in zip(*rounds, strict=True))
    share = statistics.median(first / second for first, second in rounds) * 100
    note = f"{len(rounds)} rounds of {PAGES} pages of about 25 KB"
    return [
        Row("reading: links of a page", alone * 1e6 / PAGES, "µs", note=note),
        Row("reading: links and 10 fields of a page", with_fields * 1e6 / PAGES, "µs", note=note),
        Row("reading: links and 10 fields against links alone", share, "%", at_least=75.0),
    ]


def _round(bodies: list[bytes], links: Wanted, both: Wanted) -> tuple[float, float]:
    alone = with_fields = 0.0
    for body in bodies:
        started = time.process_time()
        find(body, links)
        between = time.process_time()
        find(body, both)
        alone += between - started
        with_fields += time.process_time() - between
    return alone, with_fields
