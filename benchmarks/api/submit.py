"""One submission of 10,000 URLs, beside one Celery message for each of them, in turn.

The API is idle: no worker runs, so that what is measured is validating, recording and admitting, and nothing else.
"""

import sys
import tempfile
from pathlib import Path

from benchmarks.api.client import Client, dump
from benchmarks.api.messages import Messages
from benchmarks.api.spread import Spread
from benchmarks.api.stage import BenchError, a_stage, embedded_redis
from benchmarks.api.urls import urls
from benchmarks.result import Row

URLS, URLS_QUICK = 10_000, 200
TIMES, TIMES_QUICK = 40, 2
MAX_P95_MS = 150.0
MIN_RATIO = 20.0


def measure(quick: bool) -> list[Row]:
    """Submit and send in turn, so that the noise of the machine hits both alike."""
    count, times = (URLS_QUICK, TIMES_QUICK) if quick else (URLS, TIMES)
    submitting, sending = _run(count, times)
    ratio = sending.median / submitting.median
    return [
        Row(
            f"`POST /jobs` with {count:,} URLs, p95",
            submitting.percentile(95) * 1000,
            "ms",
            submitting.describe(50, 95),
            at_most=MAX_P95_MS,
        ),
        Row(f"{count:,} Celery messages, one for each URL, median", sending.median, "s", sending.describe(50, 95)),
        Row(f"`POST /jobs` against {count:,} Celery messages", ratio, "×", "ratio of medians", at_least=MIN_RATIO),
    ]


def _run(count: int, times: int) -> tuple[Spread, Spread]:
    submitting: list[float] = []
    sending: list[float] = []
    with (
        tempfile.TemporaryDirectory(prefix="shoal-bench-celery-") as folder,
        embedded_redis(Path(folder)) as redis,
        Messages(redis.broker) as messages,
        a_stage() as stage,
        stage.api() as api,
        Client(api.port) as client,
    ):
        for number in range(times):
            chosen = urls(number * count, count)
            submitting.append(_submit(client, chosen))
            sending.append(messages.send(chosen))
            print(f"submit {number + 1}: {submitting[-1]:.3f} s, {sending[-1]:.3f} s", file=sys.stderr, flush=True)
    return Spread(submitting), Spread(sending)


def _submit(client: Client, chosen: list[str]) -> float:
    answer = client.post("/jobs", dump({"urls": chosen, "follow": False}))
    if answer.json["accepted"] != len(chosen):
        raise BenchError(f"of {len(chosen)} URLs {answer.json['accepted']} were accepted")
    return answer.seconds
