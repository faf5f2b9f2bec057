"""How PostgreSQL finds the rows of one job among those of others: by indexes, and without passing over anybody's.

Every statement that the stores send is explained as it was sent. One job has stored as much before the one that is
read as that one itself: whoever takes the job's rows for spread evenly would walk through all of them.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.engine import Engine

from shoal.store.database import open_database
from shoal.store.ended import EndedJobs
from shoal.store.extractions import ExtractionStore
from shoal.store.history import HistoryStore, ItemCount
from shoal.store.orphans import Orphans
from shoal.store.pages import PageStore
from shoal.store.row_filter import RowFilter
from shoal.store.run_pages import RunPages
from tests.contract.databases import a_postgresql
from tests.postgres import Postgres

EARLY, LATE, SMALL = "early", "late", "small"
SIZES = {EARLY: 20_000, LATE: 20_000, SMALL: 500}
FILLED = {
    "pages": "url, host, status, depth, attempt, content_type, charset, size, elapsed_ms, fetched_ms: "
    "'http://shop.example/' || n, 'h' || mod(n, 9), 200, 1, 0, 'text/html', 'utf-8', 10, 1.5, n",
    "dead_letters": "url, host, outcome, reason, detail, depth, attempts, at_ms: "
    "'/' || n, 'h', 'dead', 'r', '', 1, 1, n",
    "items": "number, url, data: 0, '/' || n, '{}'",
    "quarantine": "number, url, data, reasons: 1, '/' || n, '{}', '[]'",
    "links": f"depth, urls: 1, '\\x{zlib.compress(b'http://shop.example/').hex()}'::bytea",
    "outlinks": "found: 'x'::bytea",
}
"""Table → columns: values of the n-th row."""

Statement = tuple[str, Any]
Plan = dict[str, Any]


@pytest.fixture(scope="module")
def full(postgres: Postgres) -> Generator[Engine]:
    """A database with rows of three jobs, the one after the other."""
    engine = open_database(a_postgresql(postgres))
    with engine.begin() as connection:
        for job, count in SIZES.items():
            for table, filled in FILLED.items():
                columns, values = filled.split(": ", 1)
                connection.exec_driver_sql(
                    f"INSERT INTO {table} (job, fingerprint, {columns}) SELECT '{job}', n * 7919, {values} "
                    f"FROM generate_series(1, {count}) AS n"
                )
        connection.exec_driver_sql("ANALYZE")
    yield engine
    engine.dispose()


@contextmanager
def _sent(engine: Engine) -> Generator[list[Statement]]:
    """What is asked of the six tables meanwhile."""
    found: list[Statement] = []

    def note(_connection: Any, _cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        if any(f" {table}" in statement for table in FILLED):
            found.append((statement, parameters))

    event.listen(engine, "before_cursor_execute", note)
    try:
        yield found
    finally:
        event.remove(engine, "before_cursor_execute", note)


def _nodes(engine: Engine, statement: Statement) -> Iterator[Plan]:
    """Of the plan, as it was carried out; what it changes is taken back."""
    text, parameters = statement
    with engine.connect() as connection:
        told: Any = connection.exec_driver_sql(f"EXPLAIN (ANALYZE, FORMAT JSON) {text}", parameters).scalar_one()
        connection.rollback()
    yield from _parts(told[0]["Plan"])


def _prepared_nodes(engine: Engine, text: str) -> Iterator[Plan]:
    """Of the plan that is kept for any values, once the driver has sent the statement a few times."""
    numbers: dict[str, int] = {}
    numbered = re.sub(r"%\((\w+)\)s", lambda name: f"${numbers.setdefault(name[1], len(numbers) + 1)}", text)
    with engine.connect() as connection:
        told: Any = connection.exec_driver_sql(f"EXPLAIN (GENERIC_PLAN, FORMAT JSON) {numbered}").scalar_one()
    yield from _parts(told[0]["Plan"])


def _parts(plan: Plan) -> Iterator[Plan]:
    waiting = [plan]
    while waiting:
        node = waiting.pop()
        waiting += node.get("Plans", [])
        yield node


READS: dict[str, Callable[[Engine], object]] = {
    "pages": lambda engine: PageStore(engine).pages_after(LATE, 0, 100),
    "last pages": lambda engine: PageStore(engine).pages_after(LATE, SIZES[EARLY] + SIZES[LATE] - 5, 100),
    "items": lambda engine: PageStore(engine).items_after(LATE, 0, 100),
    "last items": lambda engine: PageStore(engine).items_after(LATE, SIZES[EARLY] + SIZES[LATE] - 5, 100),
    "quarantine": lambda engine: PageStore(engine).quarantine_after(LATE, 0, 100),
    "dead letters": lambda engine: PageStore(engine).letters_after(LATE, 0, 100),
    "links": lambda engine: PageStore(engine).links_after(LATE, 0, 100),
    "items by page": lambda engine: next(PageStore(engine).items_by_page(LATE, "v1")),
    "seen": lambda engine: next(PageStore(engine).seen(LATE)),
    "newest": lambda engine: PageStore(engine).newest(LATE),
    "page": lambda engine: PageStore(engine).page(LATE, 7919),
    "known": lambda engine: PageStore(engine).known(LATE, [7919, 2 * 7919, 5]),
    "stored": lambda engine: PageStore(engine).stored({LATE: [7919, 5]}),
    "run": lambda engine: RunPages(engine).after(LATE, 0, 100),
    "new items": lambda engine: HistoryStore(engine).count_items(LATE, ItemCount(), 100),
    "small: count": lambda engine: PageStore(engine).count(SMALL),
    "small: pages without redirects": lambda engine: PageStore(engine).count(SMALL, redirects=False),
    "small: items": lambda engine: PageStore(engine).count_items(SMALL),
    "small: known": lambda engine: PageStore(engine).count_known(SMALL),
    "small: segments": lambda engine: Orphans(engine).segments_in_use(SMALL),
    "small: unended": lambda engine: EndedJobs(engine).unended(10),
}


BY_KEY = ("page", "known", "stored")
"""A few rows, in any order."""


@pytest.mark.parametrize("name", READS)
def test_rows_of_a_job_are_read_without_passing_over_those_of_others(full: Engine, name: str) -> None:
    with _sent(full) as sent:
        READS[name](full)
    for statement in sent:
        for node in _nodes(full, statement):
            assert node["Node Type"] != "Seq Scan", statement
            assert node.get("Rows Removed by Filter", 0) <= (SIZES[SMALL] if SMALL in name else 0), statement


@pytest.mark.parametrize("name", [name for name in READS if name not in BY_KEY and SMALL not in name])
def test_plans_that_are_kept_read_in_order_too(full: Engine, name: str) -> None:
    with _sent(full) as sent:
        READS[name](full)
    for text, _ in sent:
        kinds = {node["Node Type"] for node in _prepared_nodes(full, text)}
        assert not kinds & {"Seq Scan", "Sort", "Incremental Sort", "Bitmap Heap Scan"}, (kinds, text)


def test_a_filter_passes_over_rows_of_the_job_alone(full: Engine) -> None:
    with _sent(full) as sent:
        PageStore(full).pages_after(LATE, 0, 100, RowFilter(host="h7"))
        PageStore(full).items_after(LATE, 0, 100, RowFilter(host="h7"))
    for node in (node for statement in sent for node in _nodes(full, statement)):
        assert node.get("Rows Removed by Filter", 0) < SIZES[LATE]
        assert node["Node Type"] != "Seq Scan"
        if "Index Cond" in node:
            assert "job" in node["Index Cond"], node


def test_parts_of_an_extraction_are_cut_by_the_index(full: Engine) -> None:
    with _sent(full) as sent:
        shares, total = ExtractionStore(full)._shares(SMALL)  # pyright: ignore[reportPrivateUsage]
    assert (len(shares), total) == (1, SIZES[SMALL])
    assert all(node["Node Type"] != "Seq Scan" for each in sent for node in _nodes(full, each))


def test_a_job_is_removed_in_batches_that_touch_its_own_rows_alone(full: Engine) -> None:
    with _sent(full) as sent, full.connect() as connection:
        store = PageStore(full)
        assert not store.remove(LATE, at_most=50)
        left = connection.execute(sa.text(f"SELECT count(*) FROM pages WHERE job = '{LATE}'")).scalar_one()
    assert left == SIZES[LATE] - 50
    removing = [each for each in sent if each[0].startswith("DELETE")]
    assert len(removing) == len(FILLED)
    for statement in removing:
        for node in _nodes(full, statement):
            assert node["Node Type"] != "Seq Scan", statement
            assert node.get("Rows Removed by Filter", 0) == 0, statement
            assert node.get("Actual Rows", 0) * node.get("Actual Loops", 1) <= 50, statement
