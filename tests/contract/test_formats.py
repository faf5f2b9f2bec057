"""Files of every format, read by programs that are not ours."""

from __future__ import annotations

import csv
import io
import json
import sqlite3
import sys
from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest

from shoal.core.model import Lease
from shoal.errors import InputError, PlaceUnavailable
from shoal.output.formats import FORMATS, write_file
from shoal.output.sending import send_file
from shoal.output.source import Source, What, source_of
from shoal.worker.result import Result
from tests.contract.api import Desk, page, refused, some_dead
from tests.duck import read
from tests.s3 import S3

URL = "http://shop.example/"
ITEMS: list[dict[str, Any]] = [
    {"title": "One", "price": 12, "stock": True, "tags": ["a", "b"], "money": {"amount": 1.5, "currency": "EUR"}},
    {"title": "=cmd()", "price": 9.75, "stock": False, "tags": [], "money": None},
    {"title": None, "price": None, "stock": None, "tags": None, "money": {"amount": 3}},
    {"title": "Half \u200b", "price": 3, "stock": True, "tags": ["c"], "money": {"amount": 2.0, "currency": "USD"}},
]


def with_items(items: list[dict[str, Any]]) -> Callable[[Lease], Result]:
    return lambda lease: page(lease, item=items[int(str(lease.request.url).rpartition("/")[2])])


def a_job(desk: Desk, items: list[dict[str, Any]] | None = None) -> str:
    chosen = ITEMS if items is None else items
    fields = {"title": "h1", "price": ".price", "stock": ".stock", "tags[]": ".tag", "money": ".money"}
    job = desk.submit(*(f"{URL}{number}" for number in range(len(chosen))), fields=fields)
    desk.work(with_items(chosen))
    return job


def a_source(desk: Desk, job: str, what: What | None = None) -> Source:
    return source_of(desk.platform.pages, job, desk.platform.control.job(job).spec, what)


def exported(desk: Desk, job: str, kind: str, what: str = "") -> bytes:
    answer = desk.get(f"jobs/{job}/export?format={kind}" + (f"&what={what}" if what else ""))
    assert answer.status_code == 200, answer.get_data()[:500]
    return answer.get_data()


def test_duckdb_reads_parquet_with_the_right_types(each: Desk, tmp_path: Path) -> None:
    job = a_job(each)
    file = tmp_path / "items.parquet"
    file.write_bytes(exported(each, job, "parquet"))
    found = read(file)
    assert found.types == {
        "url": "VARCHAR",
        "title": "VARCHAR",
        "price": "DOUBLE",
        "stock": "BOOLEAN",
        "tags": "VARCHAR[]",
        "money": "STRUCT(amount DOUBLE, currency VARCHAR)",
    }
    rows = sorted(found.rows, key=lambda row: row["url"])
    assert rows[0] == {"url": f"{URL}0", **ITEMS[0], "price": 12.0}
    assert rows[1]["tags"] == []
    assert rows[2]["money"] == {"amount": 3.0, "currency": None}
    assert rows[3]["title"] == "Half \u200b"


TYPED: dict[str, Any] = {
    "price:number": ".price",
    "stock:integer": ".stock",
    "new": {"css": ".new", "as": "exists"},
    "day:date": ".day",
    "at:date": ".at",
    "days[]:date": ".days",
    "cost:money": ".cost",
    "size:number": {"css": ".size", "default": "unknown"},
    "never:date": ".never",
    "maker": {
        "css": ".maker",
        "fields": {"name": "b", "since:date": "i", "sums": {"css": "u", "many": True, "type": "money"}},
    },
}


def test_a_field_with_a_type_gives_its_column_that_type(each: Desk, tmp_path: Path) -> None:
    cost = {"amount": 5, "currency": None}
    one = {"price": 3, "stock": 4, "new": True, "day": "2024-03-12", "at": "2024-03-12", "days": ["2024-01-02"]}
    maker = {"name": "A", "since": "1999-12-31", "sums": [cost]}
    two = {**one, "at": "2024-03-12T14:30:00+01:00", "days": [], "size": "unknown", "never": None}
    items = [{**one, "cost": cost, "size": 1, "maker": maker}, {**two, "cost": None, "maker": None}]
    job = each.submit(f"{URL}0", f"{URL}1", fields=TYPED)
    each.work(with_items(items))
    file = tmp_path / "items.parquet"
    file.write_bytes(exported(each, job, "parquet"))
    found = read(file)
    money = "STRUCT(amount DOUBLE, currency VARCHAR)"
    assert found.types == {
        "url": "VARCHAR",
        "price": "DOUBLE",
        "stock": "BIGINT",
        "new": "BOOLEAN",
        "day": "DATE",
        "at": "TIMESTAMP WITH TIME ZONE",
        "days": "DATE[]",
        "cost": money,
        "size": "VARCHAR",
        "never": "DATE",
        "maker": f'STRUCT("name" VARCHAR, since DATE, sums {money}[])',
    }
    first, second = sorted(found.rows, key=lambda row: row["url"])
    assert (first["day"], first["days"]) == (date(2024, 3, 12), [date(2024, 1, 2)])
    assert second["at"] - first["at"] == timedelta(hours=13, minutes=30)
    assert first["maker"] == {"name": "A", "since": date(1999, 12, 31), "sums": [{"amount": 5.0, "currency": None}]}
    assert (first["size"], second["size"]) == ("1", "unknown")

    table = tmp_path / "items.sqlite"
    table.write_bytes(exported(each, job, "sqlite"))
    with sqlite3.connect(table) as connection:
        kinds = {row[1]: row[2] for row in connection.execute("PRAGMA table_info(items)")}
        rows = connection.execute("SELECT price, day, at FROM items ORDER BY url").fetchall()
    connection.close()
    assert (kinds["price"], kinds["stock"], kinds["new"], kinds["day"]) == ("REAL", "INTEGER", "BOOLEAN", "TEXT")
    assert rows == [
        (3.0, "2024-03-12", "2024-03-12T00:00:00.000+00:00"),
        (3.0, "2024-03-12", "2024-03-12T13:30:00.000+00:00"),
    ]


def test_pages_and_errors_have_times_and_numbers_of_their_own(each: Desk, tmp_path: Path) -> None:
    job = each.submit(f"{URL}1", f"{URL}2")
    each.work(some_dead("2"))
    for what, wanted in (
        ("pages", {"fetched_at": "TIMESTAMP WITH TIME ZONE", "status": "BIGINT", "elapsed_ms": "DOUBLE"}),
        ("errors", {"at": "TIMESTAMP WITH TIME ZONE", "attempts": "BIGINT", "reason": "VARCHAR"}),
    ):
        file = tmp_path / f"{what}.parquet"
        file.write_bytes(exported(each, job, "parquet", what))
        found = read(file)
        assert {name: found.types[name] for name in wanted} == wanted
        assert len(found.rows) == 1


def test_a_sqlite_file_has_numbers_as_numbers_and_lists_as_json(each: Desk, tmp_path: Path) -> None:
    file = tmp_path / "items.sqlite"
    file.write_bytes(exported(each, a_job(each), "sqlite"))
    with sqlite3.connect(file) as connection:
        rows = connection.execute("SELECT title, price, stock, tags, money FROM items ORDER BY url").fetchall()
    connection.close()
    assert rows[0] == ("One", 12.0, 1, '["a","b"]', '{"amount":1.5,"currency":"EUR"}')
    assert rows[1] == ("=cmd()", 9.75, 0, "[]", None)


def test_every_format_has_every_row(desk: Desk, tmp_path: Path) -> None:
    job = a_job(desk)
    lines = [json.loads(line) for line in exported(desk, job, "jsonl").decode().splitlines()]
    cells = list(csv.DictReader(io.StringIO(exported(desk, job, "csv").decode())))
    assert [row["url"] for row in lines] == [row["url"] for row in cells] == [f"{URL}{n}" for n in range(4)]
    assert cells[1]["title"] == "'=cmd()"
    for kind in FORMATS:
        assert write_file(a_source(desk, job), kind, tmp_path / f"x.{kind}").rows == 4


def test_a_value_that_fits_nothing_in_row_5000_makes_its_column_a_text(desk: Desk, tmp_path: Path) -> None:
    items: list[dict[str, Any]] = [{"price": n} for n in range(5_000)]
    items[4_999] = {"price": ["n/a"]}
    job = a_job(desk, items)
    file = tmp_path / "items.parquet"
    written = write_file(a_source(desk, job), "parquet", file)
    assert written.rows == 5_000
    found = read(file)
    assert found.types["price"] == "VARCHAR"
    assert {row["price"] for row in found.rows} == {*map(str, range(4_999)), '["n/a"]'}


@pytest.mark.parametrize("what", ["items", "pages", "errors"])
@pytest.mark.parametrize("kind", FORMATS)
def test_a_job_without_rows_is_a_file_without_rows(desk: Desk, tmp_path: Path, kind: str, what: What) -> None:
    job = desk.submit(URL, fields={"title": "h1"})
    file = tmp_path / f"none.{kind}"
    assert write_file(a_source(desk, job, what), kind, file).rows == 0
    if kind == "parquet":
        assert read(file).rows == []


def test_names_that_a_database_takes_for_the_same_are_told_apart(desk: Desk, tmp_path: Path) -> None:
    job = a_job(desk, [{"Title": "a", "title": "b", 'x"y': 1, "": 2}])
    file = tmp_path / "x.sqlite"
    write_file(a_source(desk, job), "sqlite", file)
    with sqlite3.connect(file) as connection:
        names = [name for _, name, *_ in connection.execute("PRAGMA table_info(items)")]
    connection.close()
    assert len({name.casefold() for name in names}) == len(names)


def test_a_file_can_go_to_an_object_store(desk: Desk, s3: S3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in s3.environment.items():
        monkeypatch.setenv(name, value)
    bucket, source = s3.new_bucket(), a_source(desk, a_job(desk))
    assert send_file(source, "parquet", f"s3://{bucket}/a/books.parquet").rows == 4
    file = tmp_path / "books.parquet"
    file.write_bytes(s3.get(bucket, "a/books.parquet"))
    assert len(read(file).rows) == 4
    with pytest.raises(PlaceUnavailable, match="cannot use s3://no-such-bucket"):
        send_file(source, "jsonl", "s3://no-such-bucket/x.jsonl")


def test_a_file_that_cannot_be_written_leaves_the_old_one(desk: Desk, tmp_path: Path) -> None:
    source = a_source(desk, a_job(desk))
    target = tmp_path / "books.sqlite"
    send_file(source, "sqlite", str(target))
    before = target.read_bytes()

    def fails(after: int, limit: int) -> Any:
        raise PlaceUnavailable(f"on purpose, after {after} {limit}")

    broken = type(source)(source.what, source.names, source.types, source.closed, fails)
    with pytest.raises(PlaceUnavailable):
        send_file(broken, "sqlite", str(target))
    assert target.read_bytes() == before
    assert [path.name for path in tmp_path.glob(".*.part")] == []


def test_parquet_without_pyarrow_says_what_to_install(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    job = a_job(desk)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert "shoal[parquet]" in refused(desk.get(f"jobs/{job}/export?format=parquet"), 422)["detail"]
    with pytest.raises(InputError, match=r"shoal\[parquet\]"):
        send_file(a_source(desk, job), "parquet", "x.parquet")
