"""Stopping and going on: Ctrl-C, resume, pause, cancel."""

from __future__ import annotations

import signal
import subprocess
from collections import Counter
from datetime import timedelta
from pathlib import Path

from tests.command import Shoal, wait_for_nobody
from tests.site.generated import LinkedSite, SlowSite
from tests.site.server import Server, serve
from tests.waiting import wait_until

PAGES = 150


def _stop_in_the_middle(shoal: Shoal, site: Server, process: subprocess.Popen[str], hits: int) -> tuple[str, str]:
    wait_until(lambda: len(site.hits) >= hits, within=timedelta(seconds=30))
    process.send_signal(signal.SIGINT)
    return process.communicate(timeout=30)


def test_ctrl_c_stops_cleanly_and_resume_fetches_no_stored_page_again(shoal: Shoal, tmp_path: Path) -> None:
    output = tmp_path / "pages.jsonl"
    with serve(LinkedSite(pages=PAGES, links=20, size=2_000)) as site:
        start = ("crawl", site.url, "--rate", "100", "--workers", "1", "--no-robots", "-o", str(output))
        with shoal.running(*start) as process:
            _, err = _stop_in_the_middle(shoal, site, process, hits=30)
        assert process.returncode == 130
        assert f" -o {output}" in err.splitlines()[-1]
        job = err.rsplit("shoal resume ", 1)[1].split()[0]
        first = len(site.hits)
        assert first < PAGES
        wait_for_nobody(shoal)
        assert len(site.hits) == first
        assert shoal.status(job)["state"] == "paused"

        done = shoal.run("resume", job, "-o", str(output), "--json", "--workers", "1")
        assert done.code == 0, done.err
        asked = Counter(hit.target for hit in site.hits)
    assert done.json["pages"] == PAGES
    assert done.json["reconciles"]
    assert set(asked.values()) == {1}
    assert len(asked) == PAGES
    assert len(output.read_text().splitlines()) == PAGES
    assert "finished already" in shoal.run("resume", job).err


def test_fetches_under_way_at_ctrl_c_are_given_back_and_done_later(shoal: Shoal) -> None:
    with serve(SlowSite(delay=60, pages=3)) as site:
        with shoal.running("crawl", site.url, "--rate", "unlimited", "--workers", "1", "--no-robots") as process:
            _, err = _stop_in_the_middle(shoal, site, process, hits=1)
        assert process.returncode == 130, err
    job = err.rsplit("shoal resume ", 1)[1].split()[0]
    counters = shoal.status(job)["counters"]
    assert (counters["leased"], counters["queued"], counters["retries"], counters["lost"]) == (0, 1, 0, 0)


def test_pause_and_cancel_from_another_terminal(shoal: Shoal) -> None:
    with (
        serve(LinkedSite(pages=2_000, links=20, size=1_000)) as site,
        shoal.running("crawl", site.url, "--rate", "20", "--workers", "1", "--no-robots") as process,
    ):
        wait_until(lambda: len(site.hits) >= 5, within=timedelta(seconds=30))
        job = shoal.run("jobs", "--json").out.split('"job":"', 1)[1].split('"')[0]
        assert "is paused" in shoal.run("pause", job[:5]).err
        process.communicate(timeout=30)
        assert process.returncode == 130
        counters = shoal.status(job)["counters"]
        assert counters["queued"] > 0
        cancelled = shoal.run("cancel", job, "--json").json
    assert cancelled["state"] == "cancelled"
    assert cancelled["reconciles"]
    assert cancelled["counters"]["dropped"] == counters["queued"] + counters["delayed"]
    assert shoal.run("resume", job).code == 1


def test_a_crawl_that_fetches_nothing_says_why_and_fails(shoal: Shoal) -> None:
    done = shoal.run("scrape", "http://127.0.0.1:9/closed", "--retries", "0", "--no-robots", "--workers", "1")
    assert done.code == 1
    assert "http://127.0.0.1:9/closed: connect_refused" in done.err


def test_a_second_ctrl_c_stops_at_once_and_still_says_how_to_go_on(shoal: Shoal) -> None:
    with serve(SlowSite(delay=60, pages=3)) as site:
        process = shoal.start("crawl", site.url, "--rate", "unlimited", "--workers", "1", "--no-robots")
        assert process.stderr is not None
        wait_until(lambda: len(site.hits) >= 1, within=timedelta(seconds=30))
        process.send_signal(signal.SIGINT)
        while "stopping" not in process.stderr.readline():
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "go on with: shoal resume " in err
    wait_for_nobody(shoal)
