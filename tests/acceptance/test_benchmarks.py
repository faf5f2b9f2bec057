"""The short versions of `make bench`: the harness runs, and says what it measured. No figure is judged here."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from benchmarks import nginx
from tests.browsers import browser_path
from tests.command import REPOSITORY
from tests.long import LONG

__all__ = ["browser_path"]

API = {
    "submit": ("`POST /jobs` with 200 URLs, p95", "`POST /jobs` against 200 Celery messages"),
    "stream": ("20,000 URLs streamed as NDJSON",),
    "busy": ("`GET /jobs/{id}` during a crawl, p99", "`POST /jobs` with 10 URLs during a crawl, p99"),
    "listeners": ("CPU of the API with 20 listeners",),
    "cursor": ("2,000 pages read by cursor on SQLite: rows missed",),
    "first-view": ("first view of a job with 2,000 pages",),
    "killed": ("12 submissions under kill -9 of the API: promised jobs lost",),
}
POLITENESS = {
    "limits": (
        "worst window above burst and rate",
        "hosts that ever saw more at once than their cap",
        "share of the allowed rate used",
    ),
    "urgent": ("an urgent URL under a batch crawl",),
    "slow-host": ("19 fast hosts beside one that takes",),
    "shares": ("jobs of weight 3 and 1 on one host", "one job against 20 of another tenant"),
    "refused": ("most requests in any second",),
    "dead-hosts": ("50 hosts that refuse connections",),
    "hanging-hosts": ("50 hosts whose robots.txt hangs",),
    "redis-time": ("Redis time of lease and settle a page: 20 hosts",),
    "growth": ("a page of Redis, from 1,000 to 4,000 queued: dearer by", "a new URL of Redis, from 1 to 100 hosts"),
}
FEW = {"api": ("submit", "cursor"), "politeness": ("urgent", "redis-time", "growth")}
"""Each has a worker to start: the others are left to the long version."""


def _measures(group: str, figures: dict[str, tuple[str, ...]]) -> None:
    names = tuple(figures) if LONG else FEW[group]
    ended = _bench(group, *(word for name in names for word in ("--only", name)))
    shown = " ".join(ended.stdout.split())
    for name in names:
        assert f"{name}: done in" in ended.stderr
        for figure in figures[name]:
            assert figure in shown, ended.stdout


def _bench(*words: str, module: str = "benchmarks") -> subprocess.CompletedProcess[str]:
    ended = subprocess.run(
        [sys.executable, "-m", module, "--quick", *words],
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": "src", "COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended


def test_the_short_benchmark_measures_shoal_and_the_ceiling() -> None:
    ended = _bench("--only", "raw", "--only", "shoal-1")
    assert "round 1: raw:" in ended.stderr
    assert "round 1: shoal-1:" in ended.stderr
    assert "shoal-1 against raw" in ended.stdout


def test_the_short_simulation_says_what_a_page_costs_of_redis() -> None:
    runs = [json.loads(line) for line in _bench("--json", module="benchmarks.simulate").stdout.splitlines()]
    assert [run["size"]["shards"] for run in runs] == [1, 2]
    for run in runs:
        assert run["size"]["urls"] == 20_000
        assert all(run[name] > 0 for name in ("bytes_url", "admit_us", "known_us", "page_us", "busiest_us", "pages_s"))


def test_the_short_benchmark_of_the_control_plane_measures_what_it_says() -> None:
    _measures("api", API)


@pytest.mark.long
def test_the_short_benchmark_of_whole_pages_measures_them_or_says_what_is_missing() -> None:
    ended = _bench("politeness", "--only", "growth-whole")
    shown = " ".join(ended.stdout.split())
    if nginx.find() is None:
        assert "growth-whole: left out" in ended.stderr
        return
    for grown in ("from 1,000 to 4,000 queued", "from 1 to 100 hosts"):
        assert f"a page as a whole, {grown}: dearer by" in shown, ended.stdout


def test_the_short_benchmark_of_a_hostile_web_measures_all_of_it() -> None:
    ended = _bench("hostile")
    shown = " ".join(ended.stdout.split())
    for figure in ("time that the egress guard adds to a bare crawl", "a million links: longest pause of the loop"):
        assert figure in shown, ended.stdout


def test_the_short_benchmark_of_data_measures_memory_and_fields() -> None:
    ended = _bench("data", "--only", "export", "--only", "fields")
    shown = " ".join(ended.stdout.split())
    for figure in (
        "items to parquet: rise of memory",
        "items to csv: rise of memory",
        "20,000 pages to jsonl",
        "2,000 items to jsonl on PostgreSQL",
        "links and 10 fields of a page",
    ):
        assert figure in shown, ended.stdout


def test_the_short_benchmark_of_postgresql_stores_every_row_in_each_way() -> None:
    ended = _bench("data", "--only", "postgres")
    shown = " ".join(ended.stdout.split())
    for figure in (
        "pages stored on PostgreSQL from 2 processes, two jobs",
        "pages stored on PostgreSQL from 2 processes, one job",
        "the same rows by bare COPY",
        "pages stored on PostgreSQL against bare COPY",
    ):
        assert figure in shown, ended.stdout


def test_the_short_benchmark_over_time_measures_recrawls_and_a_crawl_beside_bad_receivers() -> None:
    ended = _bench("over_time")
    shown = " ".join(ended.stdout.split())
    for figure in (
        "unchanged pages: against the first crawl",
        "recrawl: bytes on the wire",
        "a crawl beside receivers that hang and are slow",
    ):
        assert figure in shown, ended.stdout


def test_the_short_benchmark_of_politeness_measures_what_it_says() -> None:
    _measures("politeness", POLITENESS)


@pytest.mark.usefixtures("browser_path")
def test_the_short_benchmark_of_rendered_pages_measures_shoal_and_a_new_browser_for_each() -> None:
    ended = _bench("browser")
    shown = " ".join(ended.stdout.split())
    for figure in ("shoal, 4 pages at once", "new browsers, 4 pages at once", "rendering: shoal against new browsers"):
        assert figure in shown, ended.stdout
