"""Every page of the drill's site can be found, and the links are part of the proof."""

from __future__ import annotations

from collections import Counter

import pytest

from shoal.drill.plan import Plan
from shoal.drill.site import SiteMap


@pytest.mark.parametrize("urls,hosts", [(1, 1), (7, 20), (300, 5), (2_000, 20)])
def test_following_the_links_from_what_is_submitted_finds_every_page(urls: int, hosts: int) -> None:
    plan = Plan(urls=urls, hosts=hosts)
    site = SiteMap(tuple(f"http://127.0.0.{n + 2}:80" for n in range(hosts)), urls, plan.submitted)
    found = list(range(plan.submitted))
    seen = set(found)
    for page in found:
        new = [other for other in site.links(page) if other not in seen]
        seen.update(new)
        found += new
    assert seen == set(range(urls))
    assert set(site.starts) <= site.urls
    assert len(site.urls) == urls


def test_a_page_beyond_the_submitted_ones_is_found_by_one_page_only() -> None:
    plan = Plan()
    site = SiteMap(("http://127.0.0.2:80",), plan.urls, plan.submitted)
    parents = Counter(other for page in range(plan.urls) for other in set(site.links(page)) if other > page)
    assert {parents[page] for page in range(plan.submitted + plan.submitted, plan.urls)} == {1}
