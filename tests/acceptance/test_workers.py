"""Workers of their own: joining, sharing, each page once."""

from __future__ import annotations

import json
import signal
from collections import Counter
from datetime import timedelta
from pathlib import Path

from shoal.core.model import ALL_QUEUES
from shoal.frontier.watch import Watch
from shoal.redis_url import RedisUrls
from tests.command import Shoal
from tests.long import LONG
from tests.postgres import Postgres
from tests.site.generated import LinkedSite, SlowSite
from tests.site.server import serve
from tests.waiting import wait_until

FAST = ("--rate", "unlimited", "--no-robots")


def test_a_worker_started_later_does_the_work_of_a_detached_job(shoal: Shoal) -> None:
    with serve(LinkedSite(pages=200, links=20, size=1_000)) as site:
        job = shoal.run("crawl", site.url, *FAST, "--detach").out.strip()
        assert shoal.status(job)["state"] == "running"
        assert not site.hits
        with shoal.running("worker", "--queues", "http.high,http.batch", "--concurrency", "2"):
            wait_until(lambda: shoal.status(job)["state"] == "finished", within=timedelta(seconds=60))
        assert shoal.status(job)["pages"] == 200
        assert set(Counter(hit.target for hit in site.hits).values()) == {1}


def test_a_worker_serves_only_its_queues(shoal: Shoal) -> None:
    with serve(LinkedSite(pages=30, links=5, size=500)) as site:
        batch = shoal.run("crawl", site.url, *FAST, "--detach").out.strip()
        high = shoal.run("crawl", site.url, *FAST, "--lane", "high", "--detach").out.strip()
        with shoal.running("worker", "--queues", "http.high"):
            wait_until(lambda: shoal.status(high)["state"] == "finished", within=timedelta(seconds=60))
            assert shoal.status(batch)["counters"]["done"] == 0
        with shoal.running("worker", "--queues", "http.batch") as worker:
            wait_until(lambda: shoal.status(batch)["state"] == "finished", within=timedelta(seconds=60))
            worker.send_signal(signal.SIGINT)
            _, said = worker.communicate(timeout=30)
    assert "stopping: what is under way may end (Ctrl-C again to stop at once)" in said


def test_every_page_once_over_four_processes_and_two_workers(shoal: Shoal) -> None:
    pages = 20_000 if LONG else 3_000
    with serve(LinkedSite(pages=pages, links=40, size=3_000)) as site:
        with shoal.running("worker", "--concurrency", "2"):
            done = shoal.run("crawl", site.url, *FAST, "--workers", "2", "--json", "--quiet", timeout_s=300)
        asked = Counter(hit.target for hit in site.hits)
    assert done.code == 0, done.err
    assert done.json["reconciles"]
    assert done.json["pages"] == pages
    assert (len(asked), set(asked.values())) == (pages, {1})
    rows = shoal.run("results", done.json["job"], "--pages").records
    assert len({row["url"] for row in rows}) == len(rows) == pages


def test_a_job_is_kept_polite_by_all_its_workers_together(shoal: Shoal) -> None:
    """Three hosts on one server: never above the cap, never above the rate, whatever the number of processes."""
    rate, hosts = 20, ("127.0.0.1", "127.0.0.2", "127.0.0.3")
    with serve(LinkedSite(pages=40, links=10, size=500), hosts=hosts) as site:
        urls = [site.link("/", host) for host in hosts]
        options = ("--rate", str(rate), "--parallel", "2", "--no-robots", "--workers", "4")
        done = shoal.run("crawl", *urls, *options, "--json")
        assert done.code == 0, done.err
        hits = site.hits
    assert done.json["pages"] == 40 * len(hosts)
    burst = max(1, rate * 0.1)
    for host in {hit.host_header for hit in hits}:
        times = sorted(hit.at_monotonic for hit in hits if hit.host_header == host)
        assert max(hit.in_flight for hit in hits if hit.host_header == host) <= 2
        for first in range(len(times)):
            for last in range(first + 1, len(times)):
                allowed = burst + rate * (times[last] - times[first] + 0.05)
                assert last - first + 1 <= allowed + 1


def test_every_queue_is_served_by_default(shoal: Shoal) -> None:
    with serve(LinkedSite(pages=3, links=2, size=500)) as site, shoal.running("worker"):
        lanes = [queue.partition(".")[2] for queue in ALL_QUEUES if queue.startswith("http.")]
        jobs = [shoal.run("crawl", site.url, *FAST, "--lane", lane, "--detach").out.strip() for lane in lanes]
        for job in jobs:
            wait_until(lambda job=job: shoal.status(job)["state"] == "finished", within=timedelta(seconds=60))


def test_workers_of_two_homes_share_a_job_over_redis_and_postgresql(
    tmp_path: Path, postgres: Postgres, valkey_url: str
) -> None:
    """Two homes stand for two machines: nothing is shared but Redis and the database."""
    redis = f"{valkey_url}?db=5"
    places = (("SHOAL_REDIS_URL", redis), ("SHOAL_DATABASE_URL", postgres.new_database()))
    shared = (*places, ("SHOAL_PREFIX", "two-homes"))
    watch = Watch.at(RedisUrls.of(redis).frontier, "two-homes")
    here, there = Shoal(tmp_path / "here", shared), Shoal(tmp_path / "there", shared)
    # More slow pages than one process has sockets: there is work for both.
    with serve(SlowSite(delay=0.5, pages=400)) as site, there.running("worker") as joined:
        wait_until(lambda: bool(watch.workers()), within=timedelta(seconds=60))
        done = here.run("crawl", site.url, "--rate", "unlimited", "--no-robots", "--workers", "1", "--json")
        asked = Counter(hit.target for hit in site.hits)
        joined.terminate()
        _, log = joined.communicate(timeout=30)
    assert done.code == 0, done.err
    assert done.json["pages"] == 400
    assert set(asked.values()) == {1}
    watch.close_connections()
    there_did = sum(json.loads(line)["pages"] for line in log.splitlines() if '"slice_done"' in line)
    assert there_did > 0
