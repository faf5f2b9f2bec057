"""A worker that serves `control` beside the other queues: its housekeeping waits for no slice."""

from __future__ import annotations

from datetime import timedelta

from shoal.store.database import open_database
from shoal.store.jobs import JobStore
from tests.command import Shoal
from tests.site.generated import SlowSite
from tests.site.server import serve
from tests.waiting import wait_until

SOON = timedelta(seconds=30)


def test_housekeeping_goes_on_while_every_process_is_in_a_long_slice(shoal: Shoal) -> None:
    given_up = shoal.run("crawl", "http://127.0.0.1:9/", "--detach").out.strip()
    shoal.run("cancel", given_up)
    hurried = Shoal(shoal.home, (("SHOAL_GRACE_SECONDS", "1"),))
    engine = open_database(shoal.settings.sql_url)
    jobs = JobStore(engine)
    with serve(SlowSite(delay=90, pages=3)) as site, hurried.running("worker", "--beat") as worker:
        job = shoal.run("crawl", site.url, "--no-robots", "--timeout", "120", "--detach").out.strip()
        wait_until(lambda: len(site.hits) == 1, within=SOON)  # the one process has nothing else to do for long
        jobs.give_up(given_up, at_ms=1)
        wait_until(lambda: not jobs.given_up(), within=SOON)
        assert shoal.status(job)["counters"]["leased"] == 1
        worker.terminate()
        worker.communicate(timeout=30)
    assert worker.returncode == 0
    assert shoal.status(job)["counters"]["leased"] == 0
    engine.dispose()
