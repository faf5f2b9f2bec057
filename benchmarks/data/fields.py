"""What ten fields cost beside links: processor time of one reading of a page of the benchmark's site."""

import json
import statistics
import time

from benchmarks import site
from benchmarks.result import Row
from shoal.extract.findings import Wanted, find

PAGES = 50
ROUNDS, QUICK_ROUNDS = 40, 3
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
    """Links alone and links with fields, page by page in turn."""
    site_of = site.build(1_000)
    bodies = [(site_of.root / "p" / f"{number}.html").read_bytes() for number in range(1, PAGES + 1)]
    links = Wanted(URL, "utf-8", links=True)
    both = Wanted(URL, "utf-8", links=True, extraction=json.dumps({"fields": FIELDS}))
    rounds = [_round(bodies, links, both) for _ in range(QUICK_ROUNDS if quick else ROUNDS)]
    alone, with_fields = (statistics.median(times) for times in zip(*rounds, strict=True))
    share = statistics.median(first / second for first, second in rounds) * 100
    note = f"{len(rounds)} rounds of {PAGES} pages of about 25 KB"
    return [
        Row("links of a page", alone * 1e6 / PAGES, "µs", note=note),
        Row("links and 10 fields of a page", with_fields * 1e6 / PAGES, "µs", note=note),
        Row("links and 10 fields against links alone, in pages/s", share, "%", at_least=75.0),
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
