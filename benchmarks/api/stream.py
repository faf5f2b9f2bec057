"""A million URLs, streamed to an open job as NDJSON that is made while it is sent."""

from benchmarks.api.client import Client
from benchmarks.api.memory import Rise
from benchmarks.api.stage import BenchError, a_stage
from benchmarks.api.urls import ndjson
from benchmarks.result import Row

URLS, URLS_QUICK = 1_000_000, 20_000
MAX_SECONDS = 30.0
MAX_RISE_MB = 64.0
PATIENCE_S = 300.0


def measure(quick: bool) -> list[Row]:
    """Stream them, and watch the API's memory meanwhile."""
    count = URLS_QUICK if quick else URLS
    with a_stage() as stage, stage.api() as api, Client(api.port, patience_s=PATIENCE_S) as client:
        job = client.post("/jobs", {"urls": [], "open": True, "follow": False}).json["id"]
        with Rise(lambda: api.processes) as rise:
            answer = client.stream(f"/jobs/{job}/urls", ndjson(count), "application/x-ndjson")
    if answer.json["accepted"] != count:
        raise BenchError(f"of {count} URLs {answer.json['accepted']} were accepted: {answer.body[:500]!r}")
    seconds, grown = answer.seconds, max(rise.rss, rise.pss) / 1e6
    rate = f"{count / seconds:,.0f} URLs/s"
    return [
        Row(f"{count:,} URLs streamed as NDJSON", seconds, "s", rate, at_most=MAX_SECONDS),
        Row("rise of the API's memory meanwhile", grown, "MB", rise.describe(), at_most=MAX_RISE_MB),
    ]
