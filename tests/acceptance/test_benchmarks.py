"""The short versions of `make bench`: the harness runs, and says what it measured. No figure is judged here."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.command import REPOSITORY


def _bench(*words: str) -> subprocess.CompletedProcess[str]:
    ended = subprocess.run(
        [sys.executable, "-m", "benchmarks", "--quick", *words],
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


def test_the_short_benchmark_of_the_control_plane_measures_all_of_it() -> None:
    ended = _bench("api")
    for name in ("submit", "stream", "busy", "listeners", "cursor", "killed"):
        assert f"{name}: done in" in ended.stderr
    shown = " ".join(ended.stdout.split())
    for figure in (
        "`POST /jobs` with 200 URLs, p95",
        "`POST /jobs` against 200 Celery messages",
        "20,000 URLs streamed as NDJSON",
        "`GET /jobs/{id}` during a crawl, p99",
        "`POST /jobs` with 10 URLs during a crawl, p99",
        "CPU of the API with 20 listeners",
        "2,000 pages read by cursor on SQLite: rows missed",
        "12 submissions under kill -9 of the API: promised jobs lost",
    ):
        assert figure in shown, ended.stdout


def test_the_short_benchmark_of_a_hostile_web_measures_all_of_it() -> None:
    ended = _bench("hostile")
    shown = " ".join(ended.stdout.split())
    for figure in ("time that the egress guard adds to a bare crawl", "a million links: longest pause of the loop"):
        assert figure in shown, ended.stdout


def test_the_short_benchmark_of_politeness_measures_all_of_it() -> None:
    ended = _bench("politeness")
    for name in ("limits", "urgent", "slow-host", "shares", "refused", "dead-hosts", "redis-time"):
        assert f"{name}: done in" in ended.stderr
    shown = " ".join(ended.stdout.split())
    for figure in (
        "worst window above burst and rate",
        "hosts that ever saw more at once than their cap",
        "share of the allowed rate used",
        "an urgent URL under a batch crawl",
        "19 fast hosts beside one that takes",
        "jobs of weight 3 and 1 on one host",
        "one job against 20 of another tenant",
        "most requests in any second",
        "50 hosts that refuse connections",
        "Redis time of lease and settle a page: 20 hosts",
    ):
        assert figure in shown, ended.stdout
