"""What the dashboard asks of a job reads no more rows of a big job than of a small one."""

from __future__ import annotations

import sqlite3
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.engine import Engine

from shoal import history
from shoal.store import tables
from tests.contract.api import Desk, told

VIEWS = {
    "the job": "jobs/{job}",
    "its charts": "jobs/{job}/history?points=120",
    "pages": "jobs/{job}/pages?limit=50",
    "items": "jobs/{job}/items?limit=50",
    "versions": "jobs/{job}/extractions",
    "dead letters": "jobs/{job}/dead?limit=50",
    "errors": "jobs/{job}/errors?limit=3",
    "examples": "jobs/{job}/errors?limit=3&reason=http_404",
    "all jobs": "jobs?limit=50",
    "jobs that run": "jobs?state=running&limit=8",
    "overview": "overview",
}
"""The first views of the dashboard, and those behind a job's tabs."""
SMALL, BIG = 300, 6_000
MOST_ROWS = 400
"""That one view may read of the big tables."""
STEP = 10


def _fill(desk: Desk, job: str, count: int) -> None:
    """A job with so many pages, items and dead letters."""
    common = {"job": job, "url": "http://shop.example/", "host": "shop.example", "depth": 1}
    page = {"status": 200, "attempt": 0, "content_type": "", "charset": "", "size": 9, "elapsed_ms": 1.0}
    letter = {"outcome": "dead", "reason": "http_404", "detail": "", "attempts": 1, "at_ms": 1}
    item = {"job": job, "url": common["url"], "number": 0, "data": '{"title": "x"}'}
    with desk.platform.engine.begin() as connection:
        numbers = range(count)
        connection.execute(
            sa.insert(tables.pages), [{**common, **page, "fingerprint": n, "fetched_ms": n} for n in numbers]
        )
        connection.execute(sa.insert(tables.dead_letters), [{**common, **letter, "fingerprint": n} for n in numbers])
        connection.execute(sa.insert(tables.items), [{**item, "fingerprint": n} for n in numbers])


@pytest.fixture(autouse=True)
def _few(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is counted while somebody waits has a bound, which is below the small job here."""
    monkeypatch.setattr(history, "COUNTED_NOW", 200)


def test_sqlite_works_as_much_for_a_big_job_as_for_a_small_one(desk: Desk) -> None:
    jobs = {count: desk.submit(f"http://shop.example/{count}", open=True) for count in (SMALL, BIG)}
    for count, job in jobs.items():
        _fill(desk, job, count)
    for view, path in VIEWS.items():
        small, big = (_work(desk, path.format(job=job)) for job in jobs.values())
        assert big <= 1.5 * small + 100 * STEP, f"{view}: {small} steps, then {big}"


def _work(desk: Desk, path: str) -> int:
    told(desk.get(path))
    with _steps(desk.platform.engine) as taken:
        told(desk.get(path))
    return sum(taken)


@contextmanager
def _steps(engine: Engine) -> Generator[list[int]]:
    """How much SQLite's machine has to do for what is asked meanwhile; no clock says so."""
    taken: list[int] = []

    def watch(connection: sqlite3.Connection, *_rest: object) -> None:
        connection.set_progress_handler(lambda: taken.append(STEP), STEP)

    def leave(connection: sqlite3.Connection, *_rest: object) -> None:
        connection.set_progress_handler(None, 0)

    event.listen(engine, "checkout", watch)
    event.listen(engine, "checkin", leave)
    try:
        yield taken
    finally:
        event.remove(engine, "checkout", watch)
        event.remove(engine, "checkin", leave)


@pytest.mark.parametrize("each", ["postgresql"], indirect=True)
def test_postgresql_reads_few_rows_of_a_big_job(each: Desk) -> None:
    job = each.submit("http://shop.example/", open=True)
    _fill(each, job, BIG)
    engine = each.platform.engine
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(sa.text("ANALYZE"))
    for view, path in VIEWS.items():
        with _queries(engine) as asked:
            told(each.get(path.format(job=job)))
        read = sum(_rows_read(engine, *query) for query in asked)
        assert read <= MOST_ROWS, f"{view}: {read} rows"


@contextmanager
def _queries(engine: Engine) -> Generator[list[tuple[str, Any]]]:
    asked: list[tuple[str, Any]] = []

    def note(_connection: object, _cursor: object, statement: str, parameters: Any, *_rest: object) -> None:
        if statement.lstrip().upper().startswith("SELECT"):
            asked.append((statement, parameters))

    event.listen(engine, "before_cursor_execute", note)
    try:
        yield asked
    finally:
        event.remove(engine, "before_cursor_execute", note)


def _rows_read(engine: Engine, statement: str, parameters: Any) -> int:
    """Rows of tables and indexes that a query has looked at."""
    with engine.connect() as connection:
        told_plan = connection.exec_driver_sql(f"EXPLAIN (ANALYZE, FORMAT JSON) {statement}", parameters).scalar_one()
    return sum(
        int((node["Actual Rows"] + node.get("Rows Removed by Filter", 0)) * node["Actual Loops"])
        for node in _nodes(told_plan[0]["Plan"])
        if "Scan" in node["Node Type"]
    )


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for inner in plan.get("Plans", ()):
        yield from _nodes(inner)
