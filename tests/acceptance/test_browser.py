"""Pages that need JavaScript, from the command to the archive, in a real browser."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote
from urllib.request import urlopen

import pytest
from warcio.archiveiterator import ArchiveIterator

from tests.acceptance.test_serving import running_api
from tests.browsers import browser_path
from tests.command import REPOSITORY, Shoal, end, wait_for_nobody
from tests.site.directory import FILLED, Directory, copies
from tests.site.generated import LinkedSite
from tests.site.mixed import Mixed
from tests.site.reply import page
from tests.site.server import serve
from tests.site.shop import PAGES as LISTS
from tests.site.shop import Shop
from tests.stored import events_in, log_events, page_rows, segments
from tests.trees import watched
from tests.waiting import wait_until

__all__ = ["browser_path"]

FAST = ("--rate", "unlimited", "--no-robots")
NO_BROWSER = "no browser to render with"


@pytest.mark.usefixtures("browser_path")
def test_a_rendered_shop_has_what_a_crawl_without_a_browser_does_not_find(shoal: Shoal) -> None:
    fields = ("--field", "name=#name", "--field", "price=.price")
    with serve(Shop()) as shop:
        url = shop.link("/products?page=1")
        bare = shoal.run("crawl", url, *FAST, *fields, "--json", "--workers", "1")
        assert bare.code == 0, bare.err
        assert bare.json["pages"] == LISTS
        assert not shoal.run("results", bare.json["job"]).records
        asked = ("--browser", "--wait", "idle", "--screenshot", "full", "--pdf", "--pages", "5")
        done = shoal.run("crawl", url, *asked, *FAST, *fields, "--json", "--workers", "1")
        assert done.code == 0, done.err
    job = done.json["job"]
    rows = page_rows(shoal, job)
    assert {row.engine for row in rows} == {"browser"}
    assert any("/product/" in row.url for row in rows), "products are linked by scripts alone"
    assert len(shoal.run("results", job).records) == done.json["pages"] == 5
    _check_kinds(shoal, job, url)
    _check_captures(shoal, job, url)
    _check_archive(shoal, job, url)


def _check_kinds(shoal: Shoal, job: str, url: str) -> None:
    """`shoal page --kind`."""
    assert 'class="product"' in shoal.run("page", job, url).out
    assert '<ul id="list"></ul>' in shoal.run("page", job, url, "--kind", "response").out
    for kind, start in (("screenshot", b"\x89PNG"), ("pdf", b"%PDF")):
        command = [sys.executable, "-m", "shoal", "page", job, url, "--kind", kind]
        made = subprocess.run(
            command, env=shoal.environment, cwd=REPOSITORY, capture_output=True, timeout=60, check=True
        )
        assert made.stdout.startswith(start), kind


def _check_captures(shoal: Shoal, job: str, url: str) -> None:
    """Over the API."""
    with running_api(shoal) as (_, port):

        def get(path: str) -> bytes:
            with urlopen(f"http://127.0.0.1:{port}{path}", timeout=20) as answer:
                return cast(bytes, answer.read())

        rows = json.loads(get(f"/api/v1/jobs/{quote(job)}/pages"))["data"]
        (row,) = [each for each in rows if each["url"] == url]
        assert row["engine"] == "browser"
        starts = {"document": b"<!", "screenshot": b"\x89PNG", "pdf": b"%PDF"}
        assert row["captures"].keys() == starts.keys()
        for kind, start in starts.items():
            assert get(row["captures"][kind])[:4].lower().startswith(start.lower()), kind


def _check_archive(shoal: Shoal, job: str, url: str) -> None:
    """By a reader that is not ours."""
    found = list[tuple[str, str, bytes]]()
    for segment in segments(shoal, job):
        for record in cast(Any, ArchiveIterator)(io.BytesIO(segment)):
            where = record.rec_headers.get_header("WARC-Target-URI") or ""
            found.append((record.rec_type, where, record.content_stream().read()))
    kept = {(kind, where): body for kind, where, body in found}
    assert b'<ul id="list"></ul>' in kept["response", url]
    assert b'class="product"' in kept["conversion", url]
    assert kept["resource", f"urn:screenshot:{url}"].startswith(b"\x89PNG")
    assert kept["resource", f"urn:pdf:{url}"].startswith(b"%PDF")


@pytest.mark.usefixtures("browser_path")
@pytest.mark.parametrize("workers", [pytest.param(1, marks=pytest.mark.long), 2])
def test_auto_renders_the_quarter_that_needs_it_and_asks_for_hardly_a_page_twice(shoal: Shoal, workers: int) -> None:
    site = Mixed()
    with serve(site) as server:
        done = shoal.run("crawl", server.url, "--auto", *FAST, "--workers", str(workers), "--json", "--quiet")
        assert done.code == 0, done.err
        asked = Counter(hit.target for hit in server.hits if hit.target in site.targets)
    assert done.json["pages"] == len(site.targets) == 200
    rows = page_rows(shoal, done.json["job"])
    rendered = {row.url.removeprefix(server.url[:-1]) for row in rows if row.engine == "browser"}
    wrong = rendered ^ site.need_browser
    twice = shoal.status(done.json["job"])["reasons"].get("retry:needs_browser", 0)
    print(f"{workers} workers: {len(rendered)} rendered, {len(wrong)} decided wrongly, {twice} asked for twice")
    assert not site.need_browser - rendered, "a page was taken as it came although it needs a browser"
    assert len(wrong) <= 0.05 * len(site.targets), sorted(wrong)
    assert twice <= 0.05 * len(site.targets), twice
    assert sum(asked.values()) - len(asked) == twice


@pytest.mark.usefixtures("browser_path")
def test_ctrl_c_ends_a_browser_crawl_in_order_and_resume_does_the_rest(shoal: Shoal) -> None:
    """The signal goes to the whole group, as a terminal sends it."""
    site = Directory(copies(page(FILLED, delay=0.3), 20))
    with serve(site) as server:
        command = [sys.executable, "-m", "shoal", "crawl", server.url, "--browser", *FAST, "--workers", "1"]
        crawl = subprocess.Popen(
            command, env=shoal.environment, cwd=REPOSITORY, stderr=subprocess.PIPE, text=True, start_new_session=True
        )
        try:
            with watched(crawl.pid) as tree:
                wait_until(lambda: len(server.hits) >= 6, within=timedelta(seconds=60))
                tree.look()
                assert tree.browsers
                os.killpg(crawl.pid, signal.SIGINT)
                _, err = crawl.communicate(timeout=30)
        finally:
            end(crawl)
        assert crawl.returncode == 130, err
        wait_until(lambda: not tree.browsers, within=timedelta(seconds=5))
        wait_for_nobody(shoal)
        assert not _errors(shoal)
        assert not log_events(shoal, "stop_cut_short")
        job = err.rsplit("shoal resume ", 1)[1].split()[0]
        counters = shoal.status(job)["counters"]
        assert [counters[name] for name in ("leased", "dead", "lost", "retries")] == [0, 0, 0, 0]
        assert counters["queued"] > 0
        done = shoal.run("resume", job, "--json", "--workers", "1")
    assert done.code == 0, done.err
    assert (done.json["pages"], done.json["reconciles"]) == (site.size, True)


def _errors(shoal: Shoal) -> list[str]:
    """What workers that commands brought along have complained about."""
    lines = [line for log in (shoal.home / "logs").glob("worker-*.log") for line in log.read_text().splitlines()]
    return [line for line in lines if "Traceback" in line or '"error"' in line or not line.startswith("{")]


def _without_browser(shoal: Shoal, folder: Path, how: str) -> Shoal:
    """The same home on a machine that has none, or whose setting leads nowhere."""
    if how == "set":
        return Shoal(shoal.home, (*shoal.extra, ("SHOAL_BROWSER", "/nonexistent")))
    nothing = folder / "nothing"
    nothing.mkdir()
    return Shoal(shoal.home, (*shoal.extra, ("PATH", str(nothing)), ("HOME", str(nothing))))


MESSAGES = {"set": "SHOAL_BROWSER is '/nonexistent'", "none": NO_BROWSER}
needs_a_bare_machine = pytest.mark.skipif(
    sys.platform == "darwin", reason="macOS has browsers in its own folders: an empty PATH and HOME do not hide them"
)


@needs_a_bare_machine
@pytest.mark.parametrize("how", MESSAGES)
def test_without_a_browser_a_crawl_that_needs_one_fails_at_once_and_others_are_served(
    shoal: Shoal, tmp_path: Path, how: str
) -> None:
    bare = _without_browser(shoal, tmp_path, how)
    with serve(LinkedSite(pages=5, links=5, size=500)) as site:
        for engine in ("--browser", "--auto"):
            failed = bare.run("crawl", site.url, engine, *FAST)
            assert failed.code == 2, failed.err
            assert MESSAGES[how] in failed.err
            assert "Traceback" not in failed.err
        assert not site.hits
        done = bare.run("crawl", site.url, *FAST, "--json", "--workers", "1")
    assert done.code == 0, done.err
    assert done.json["pages"] == 5
    (said,) = log_events(bare, "browser_missing")
    assert MESSAGES[how] in said["hint"]
    assert "http.batch" in said["served"]
    assert "browser" not in said["served"]


@needs_a_bare_machine
def test_a_worker_for_the_browser_alone_ends_where_there_is_none(shoal: Shoal, tmp_path: Path) -> None:
    bare = _without_browser(shoal, tmp_path, "none")
    with bare.running("worker", "--queues", "browser.high,browser.batch,browser.slow") as worker:
        _, err = worker.communicate(timeout=60)
    assert worker.returncode == 2, err
    assert NO_BROWSER in err
    assert "Traceback" not in err
    assert not events_in(err.splitlines(), "worker_died")
