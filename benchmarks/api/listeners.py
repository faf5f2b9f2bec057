"""What listeners cost: many of them on one job that changes once a second, and one API process."""

# redis-py's hints leave gaps: what falls into them is unknown to the checker in this file only.
# pyright: reportUnknownMemberType=false
import json
import subprocess
import time
from statistics import median

import redis

from benchmarks.api.client import Client
from benchmarks.api.listen import READY, START_S
from benchmarks.api.stage import BenchError, Stage, a_stage
from benchmarks.api.urls import urls
from benchmarks.process import Child, wait_ready
from benchmarks.result import Row
from shoal.core.model import Request
from shoal.core.url import parse
from shoal.frontier.frontier import Frontier
from shoal.frontier.scripts import connect

LISTENERS, LISTENERS_QUICK = 200, 20
SECONDS, SECONDS_QUICK = 20, 2
NAME = "listen"
MAX_CPU_PERCENT = 10.0
END_S = 30.0


def measure(quick: bool) -> list[Row]:
    """Change the job once a second, straight through the frontier, and see what the API does about it."""
    count, seconds = (LISTENERS_QUICK, SECONDS_QUICK) if quick else (LISTENERS, SECONDS)
    with a_stage() as stage, connect(stage.redis.frontier) as server:
        frontier = Frontier(server)
        before = _connections(server)
        with stage.api() as api, Client(api.port) as client:
            job: str = client.post("/jobs", {"urls": urls(0, 1), "open": True, "follow": False}).json["id"]
            listening = (str(api.port), job, str(count), str(seconds))
            with stage.process("benchmarks.api.listen", NAME, *listening) as listener:
                wait_ready(listener, lambda: READY in stage.written(NAME), seconds=START_S)
                started, cpu = time.monotonic(), api.cpu_seconds
                _change(frontier, job, seconds)
                used, over = api.cpu_seconds - cpu, time.monotonic() - started
                opened = _connections(server) - before
                heard = _heard(stage, listener)
    spread = f"{min(heard)} to {max(heard)} over {seconds} s"
    return [
        Row(
            f"CPU of the API with {count} listeners",
            used / over * 100,
            "% of a core",
            f"over {over:.0f} s",
            at_most=MAX_CPU_PERCENT,
        ),
        Row("events that each listener heard, median", median(heard), "events", spread),
        Row(f"connections of the API to Redis with {count} listeners", opened, "connections", "its pools included"),
    ]


def _change(frontier: Frontier, job: str, times: int) -> None:
    """Once a second, let one more URL in."""
    started = time.monotonic()
    for number, url in enumerate(urls(1, times), 1):
        frontier.admit(job, [Request(parse(url))])
        time.sleep(max(0.0, started + number - time.monotonic()))


def _heard(stage: Stage, listener: Child) -> list[int]:
    try:
        code = listener.wait(END_S)
    except subprocess.TimeoutExpired:
        raise BenchError("the listeners do not end") from None
    if code:
        raise BenchError(f"the listeners ended with {code}: {(stage.home / f'{NAME}.log').read_text()[-500:]}")
    return json.loads(stage.written(NAME).splitlines()[-1])


def _connections(server: "redis.Redis") -> int:
    return int(server.info("clients")["connected_clients"])
