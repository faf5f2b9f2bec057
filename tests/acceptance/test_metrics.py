"""Metrics of several API and worker processes: everything once, whichever process is asked."""

from __future__ import annotations

import urllib.request
from collections import defaultdict

from prometheus_client import parser

from tests.acceptance.test_up import SOON, ask, running_up
from tests.command import Shoal
from tests.site.generated import LinkedSite
from tests.site.server import serve
from tests.waiting import wait_until

PAGES = 40
ASKED = 30


def _measured(url: str) -> dict[tuple[str, str], float]:
    """(metric, its route, outcome or nothing) → value"""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(f"{url}/metrics", timeout=30) as answer:
        text = answer.read().decode()
    found = defaultdict[tuple[str, str], float](float)
    for family in parser.text_string_to_metric_families(text):
        for sample in family.samples:
            about = sample.labels.get("route") or sample.labels.get("outcome") or ""
            found[sample.name, about] += sample.value
    return found


def test_several_processes_tell_the_same_and_count_everything_once(shoal: Shoal) -> None:
    site = LinkedSite(pages=PAGES, links=10, size=500)
    with serve(site) as target, running_up(shoal, "--workers", "2", "--api-workers", "2") as (_, url):
        before = _measured(url)["shoal_api_requests_total", "/healthz"]
        for _ in range(ASKED):
            ask(f"{url}/healthz")
        spec = {"urls": [target.url], "rate": "unlimited", "robots": False}
        job = f"{url}/api/v1/jobs/{ask(f'{url}/api/v1/jobs', spec)['id']}"
        wait_until(lambda: ask(job)["state"] == "finished", within=SOON)
        for _ in range(6):  # whichever of the processes it is
            found = _measured(url)
            assert found["shoal_api_requests_total", "/healthz"] - before == ASKED
            assert found["shoal_outcomes_total", "done"] == PAGES
            assert found["shoal_received_bytes_total", ""] == ask(job)["counters"]["received"]
