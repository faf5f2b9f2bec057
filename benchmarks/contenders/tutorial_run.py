"""Runs the tutorial stack: starts its worker, gives it the first URL, and waits until the site is crawled.

Run as `python tutorial_run.py URL PAGES POOL` with `TUTORIAL_REDIS` set; the pool is `prefork` or `gevent`. Celery
writes a key for each finished task into the result database, so the size of that database is the number of pages done:
the tasks need not count for us.
"""

# pyright: basic, reportMissingImports=false

import json
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import redis
from tutorial import REDIS, app, enqueue_links

POOLS = {"prefork": ("--pool", "prefork", "--concurrency", "2"), "gevent": ("--pool", "gevent", "--concurrency", "100")}
POLL_SECONDS = 0.1
STALLED_SECONDS = 60.0
START_SECONDS = 60.0
END_SECONDS = 15.0
WORKER = [
    *(sys.executable, "-m", "celery", "-A", "tutorial", "worker"),
    *("--queues", "fetch", "--loglevel", "WARNING"),
]


def main(url: str, pages: int, pool: str) -> None:
    """Crawl the site of the first argument, which has as many pages as the second says."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # through `finally`, so that the worker ends too
    with _worker(pool):
        started = time.perf_counter()
        enqueue_links([url])
        done, ended = _wait_for(pages)
    print(json.dumps({"pages": done, "seconds": ended - started}))


@contextmanager
def _worker(pool: str) -> Generator[None]:
    """Run a worker while the block lasts, which begins when it answers."""
    with tempfile.TemporaryFile() as log:
        worker = subprocess.Popen([*WORKER, *POOLS[pool]], cwd=Path(__file__).parent, stdout=log, stderr=log)
        try:
            _wait_ready(worker)
            yield
        finally:
            _end(worker)
            log.seek(0)
            sys.stderr.write(log.read().decode(errors="replace")[-4000:])


def _wait_ready(worker: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + START_SECONDS
    while not app.control.ping(timeout=0.5, limit=1):
        if worker.poll() is not None or time.monotonic() > deadline:
            sys.exit("the worker does not answer")


def _end(worker: "subprocess.Popen[bytes]") -> None:
    worker.terminate()
    try:
        worker.wait(END_SECONDS)
    except subprocess.TimeoutExpired:
        worker.kill()


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
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
