"""How many page rows two processes store on PostgreSQL, as workers do, against what its driver alone can copy.

`python -m benchmarks.postgres URL ARM JOB FIRST COUNT` is one of the processes: it makes its rows, says that it is
ready, waits for a line, writes them in batches of a worker's size and says that it is done.
"""

import subprocess
import sys
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from operator import itemgetter
from statistics import median

import psycopg
import sqlalchemy as sa

from benchmarks.result import Row
from shoal.store.database import make_engine, open_database
from shoal.store.page_rows import ArchiveRef, PageRow, page_values
from shoal.store.pages import PageStore
from shoal.store.tables import pages
from shoal.worker.deliverer import BATCH_SIZE
from tests.postgres import Postgres, running_postgres

PAGES, QUICK_PAGES = 32_000, 1_280
"""Of each process."""
PROCESSES = 2
ROUNDS = 5
BARE = "bare_pages"
"""A table with the same columns and indexes."""
LEAST_ROWS = 5_000.0
COLUMNS = [str(column.name) for column in pages.c if column.name != "id"]

Batch = Sequence[PageRow]
Write = Callable[[Batch], None]


@dataclass(frozen=True, slots=True)
class Arm:
    """One way of storing, and of which job each process does so."""

    open: Callable[[str], AbstractContextManager[Write]]
    job: str


def measure(quick: bool) -> list[Row]:
    """All ways in turn, round after round, each on a new database of a server that waits for its disk."""
    count, rounds = (QUICK_PAGES, 1) if quick else (PAGES, ROUNDS)
    found: dict[str, list[float]] = {name: [] for name in ARMS}
    with running_postgres() as server:
        for _ in range(rounds):
            for name in ARMS:
                found[name].append(_rate(server, name, count))
    return _rows(found)


def _rows(found: dict[str, list[float]]) -> list[Row]:
    ratios = [ours / bare for ours, bare in zip(found["two jobs"], found["bare COPY"], strict=True)]
    spread = {name: f"{min(rates):,.0f}–{max(rates):,.0f}" for name, rates in found.items()}
    return [
        Row(
            "pages stored on PostgreSQL from 2 processes, two jobs", median(found["two jobs"]), "rows/s",
            f"{spread['two jobs']}; batches of {BATCH_SIZE}", at_least=LEAST_ROWS,
        ),
        Row(
            "pages stored on PostgreSQL from 2 processes, one job", median(found["one job"]), "rows/s",
            f"{spread['one job']}; a job's batches take turns", at_least=LEAST_ROWS,
        ),
        Row("the same rows by bare COPY", median(found["bare COPY"]), "rows/s", spread["bare COPY"]),
        Row("pages stored on PostgreSQL against bare COPY", median(ratios), "×"),
    ]  # fmt: skip


def _rate(server: Postgres, name: str, count: int) -> float:
    url = server.new_database()
    engine = open_database(url)
    with engine.begin() as connection:
        connection.execute(sa.text(f"CREATE TABLE {BARE} (LIKE pages INCLUDING ALL)"))
    command = [sys.executable, "-m", "benchmarks.postgres", url, name]
    jobs = [ARMS[name].job.format(number) for number in range(PROCESSES)]
    children = [_started([*command, job, str(number * count), str(count)]) for number, job in enumerate(jobs)]
    try:
        seconds = _race(children)
        table = BARE if name == "bare COPY" else "pages"
        with engine.connect() as connection:
            stored = connection.execute(sa.text(f"SELECT count(*) FROM {table}")).scalar_one()
    finally:
        for child in children:
            child.kill()
            child.communicate()
        engine.dispose()
    if stored != PROCESSES * count:
        raise RuntimeError(f"{name}: {stored} of {PROCESSES * count} rows were stored")
    return PROCESSES * count / seconds


def _started(command: Sequence[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def _race(children: Sequence[subprocess.Popen[str]]) -> float:
    """From the moment when all are ready to the end of the last one."""
    for child in children:
        _line(child)
    started = time.monotonic()
    for child in children:
        assert child.stdin
        child.stdin.write("go\n")
        child.stdin.flush()
    for child in children:
        _line(child)
    return time.monotonic() - started


def _line(child: subprocess.Popen[str]) -> str:
    assert child.stdout
    line = child.stdout.readline()
    if not line:
        raise RuntimeError(f"{child.args!r} ended early")
    return line


# --- one of the processes --------------------------------------------------------------------------------------------


@contextmanager
def _store(url: str) -> Generator[Write]:
    """As a worker does it."""
    engine = make_engine(url)
    store = PageStore(engine)
    yield lambda batch: store.write(batch, [], [])
    engine.dispose()


@contextmanager
def _copy(url: str) -> Generator[Write]:
    """The driver alone: no lock, and no row that may be there already."""
    line, statement = itemgetter(*COLUMNS), f"COPY {BARE} ({', '.join(COLUMNS)}) FROM STDIN".encode()
    with psycopg.connect(url) as connection:

        def copy(batch: Batch) -> None:
            with connection.cursor().copy(statement) as target:
                for row in batch:
                    target.write_row(line(page_values(row)))
            connection.commit()

        yield copy


ARMS = {
    "two jobs": Arm(_store, "job-{}"),
    "one job": Arm(_store, "job"),
    "bare COPY": Arm(_copy, "job-{}"),
}


def _page(job: str, number: int) -> PageRow:
    """As wide as rows are when bodies are archived."""
    return PageRow(
        job=job,
        fingerprint=number * 0x9E3779B97F4A7C15 % 2**64 - 2**63,
        url=f"https://www.books.example/catalogue/shelf-{number % 97}/the-hollow-island-volume-{number}/index.html",
        host="www.books.example",
        status=200,
        depth=3,
        attempt=0,
        content_type="text/html; charset=utf-8",
        charset="utf-8",
        size=25_000 + number % 1_000,
        elapsed_ms=12.5 + number % 7,
        fetched_ms=1_790_000_000_000 + number,
        archive=ArchiveRef(f"{job}/3f0c-000001.warc.gz", number * 5_000, 4_900),
        request_id="0f8fad5b-d9cb-469f-a165-70867728950e",
        received=6_000,
        etag='"5f2-61a"',
        last_modified="Tue, 17 Nov 2026 10:00:00 GMT",
        found_on=number,
    )


def main() -> None:
    url, name, job, first, count = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5])
    rows = [_page(job, number) for number in range(first, first + count)]
    with ARMS[name].open(url) as write:
        print("ready", flush=True)
        sys.stdin.readline()
        for start in range(0, count, BATCH_SIZE):
            write(rows[start : start + BATCH_SIZE])
        print("done", flush=True)


if __name__ == "__main__":
    main()
