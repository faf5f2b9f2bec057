"""Many URLs: each ends, none is doubled, the sums reconcile. How fast the end is beside the beginning is printed."""

from __future__ import annotations

import pytest

from tests.command import Shoal
from tests.long import LONG
from tests.site.generated import LinkedSite
from tests.site.hits import Hit
from tests.site.server import serve

PAGES = 50_000 if LONG else 3_000
PACE = ("--rate", "unlimited", "--parallel", "64", "--no-robots", "--no-archive")


@pytest.mark.slow
def test_every_one_of_many_urls_ends_once_and_the_sums_reconcile(shoal: Shoal) -> None:
    with serve(LinkedSite(pages=PAGES, links=30, size=2_000)) as site:
        done = shoal.run("crawl", site.url, *PACE, "--json", "--quiet", timeout_s=400)
        hits = site.hits
    assert done.code == 0, done.err
    job = done.json
    assert (job["state"], job["pages"], job["reconciles"]) == ("finished", PAGES, True)
    assert len(hits) == len({hit.target for hit in hits}) == PAGES
    urls = [row["url"] for row in shoal.run("results", job["job"], "--pages").records]
    assert len(urls) == len(set(urls)) == PAGES
    tenth = PAGES // 10  # the first has the start in it
    first, last = _pace(hits[tenth : 2 * tenth]), _pace(hits[-tenth:])
    print(f"{PAGES} pages: {first:.0f} a second in the second tenth, {last:.0f} in the last, {last / first:.2f} of it")


def _pace(hits: list[Hit]) -> float:
    return len(hits) / (hits[-1].at_monotonic - hits[0].at_monotonic)
