"""`python -m benchmarks.data.write_rows URL FOLDER WHAT FORMAT COUNT`: writes rows to a file, prints what that took.

The rows are made once for a database. Everything is imported, and a small file written, before the first figure.
"""

import json
import resource
import sys
import time
from pathlib import Path
from typing import Any

import orjson
import sqlalchemy as sa
from sqlalchemy.engine import Engine

from shoal.core.spec import JobSpec
from shoal.core.url import Url
from shoal.output.formats import write_file
from shoal.output.source import source_of
from shoal.store.database import open_database
from shoal.store.page_rows import PageRow, page_values
from shoal.store.pages import PageStore
from shoal.store.tables import items
from shoal.store.tables import pages as page_table

JOB, SMALL = "export", "small"
AT_ONCE = 10_000
SPEC = JobSpec(fields=dict.fromkeys(("title", "price", "stock", "new", "tags", "money", "text"), ".x"))


def main() -> None:
    url, folder, what, kind, count = sys.argv[1], Path(sys.argv[2]), sys.argv[3], sys.argv[4], int(sys.argv[5])
    assert what in ("items", "pages")
    engine = open_database(url)
    _fill(engine, what, JOB, count)
    _fill(engine, what, SMALL, 100)
    pages, file = PageStore(engine), folder / f"{what}.{kind}"
    write_file(source_of(pages, SMALL, SPEC, what), kind, file)
    before, started, worked = _peak(), time.monotonic(), time.process_time()
    written = write_file(source_of(pages, JOB, SPEC, what), kind, file)
    seconds, cpu = time.monotonic() - started, time.process_time() - worked
    size = file.stat().st_size
    found = {"rows": written.rows, "rise": _peak() - before, "seconds": seconds, "cpu": cpu, "bytes": size}
    print(json.dumps(found))


def _fill(engine: Engine, what: str, job: str, count: int) -> None:
    table, values = (items, _item_values) if what == "items" else (page_table, _page_values)
    with engine.begin() as connection:
        if connection.execute(sa.select(table.c.id).where(table.c.job == job).limit(1)).first():
            return
        for start in range(0, count, AT_ONCE):
            rows = [values(job, number) for number in range(start, min(start + AT_ONCE, count))]
            connection.execute(sa.insert(table), rows)


def _page_values(job: str, number: int) -> dict[str, Any]:
    url = Url("https", f"shop-{number % 50}.example", f"/book/{number}")
    page = PageRow(
        job=job,
        fingerprint=url.fingerprint,
        url=str(url),
        host=url.host,
        status=200,
        depth=number % 9,
        attempt=0,
        content_type="text/html",
        charset="utf-8",
        size=20_000 + number % 999,
        elapsed_ms=number % 400 / 4,
        fetched_ms=1_700_000_000_000 + number,
    )
    return page_values(page)


def _item_values(job: str, number: int) -> dict[str, Any]:
    data = {
        "title": f"The Hollow Island, volume {number}",
        "price": number % 1000 / 4,
        "stock": number % 7,
        "new": number % 2 == 0,
        "tags": ["bestseller", f"shelf-{number % 50}"],
        "money": {"amount": number % 1000 / 4, "currency": "EUR"},
        "text": "All that is known about the book. " * 8,
    }
    url = f"https://books.example/book/{number}"
    return {"job": job, "fingerprint": number, "number": 0, "url": url, "data": orjson.dumps(data).decode()}


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


if __name__ == "__main__":
    main()
