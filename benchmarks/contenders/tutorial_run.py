"""Runs the tutorial stack: starts its worker, gives it the first URL, and waits until the site is crawled.

Run as `python -m benchmarks.contenders.tutorial_run URL PAGES` with `TUTORIAL_REDIS` set. Celery writes a key
for each finished task into the result database, so the size of that database is the number of pages done: the
tasks need not count for us.
"""

# pyright: basic, reportMissingImports=false

import json
import sys
import tempfile
import time
from pathlib import Path

import redis

from benchmarks.contenders.tutorial import REDIS, app, enqueue_links
from benchmarks.process import exit_on_term, running, wait_ready

CONCURRENCY = 2
POLL_SECONDS = 0.1
STALLED_SECONDS = 20.0
WORKER = [
    *(sys.executable, "-m", "celery", "-A", "benchmarks.contenders.tutorial", "worker"),
    *("--queues", "fetch", "--concurrency", str(CONCURRENCY), "--loglevel", "WARNING"),
]


def main() -> None:
    """Crawl the site of the first argument, which has as many pages as the second says."""
    url, pages = sys.argv[1], int(sys.argv[2])
    exit_on_term()
    with tempfile.TemporaryDirectory(prefix="shoal-bench-tutorial-") as folder:
        log = Path(folder) / "worker.log"
        with running(WORKER, log=log) as worker:
            wait_ready(worker, lambda: bool(app.control.ping(timeout=0.5)), seconds=60)
            started = time.perf_counter()
            enqueue_links([url])
            done, ended = _wait_for(pages)
        sys.stderr.write(log.read_text(errors="replace")[-4000:])
    print(json.dumps({"pages": done, "seconds": ended - started}))


def _wait_for(pages: int) -> tuple[int, float]:
    """Wait until all pages are done or no more come; returns their number and the time of the last."""
    results = redis.Redis.from_url(f"{REDIS}/1")
    done, changed = 0, time.perf_counter()
    while done < pages and time.perf_counter() - changed < STALLED_SECONDS:
        time.sleep(POLL_SECONDS)
        now_done = results.dbsize()
        if now_done > done:
            done, changed = now_done, time.perf_counter()
    return done, changed


if __name__ == "__main__":
    main()
