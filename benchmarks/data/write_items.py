"""`python -m benchmarks.data.write_items FOLDER FORMAT COUNT`: writes items to a file and prints what that took.

The items are made once for a folder. Everything is imported, and a small file written, before the first figure.
"""

import json
import resource
import sys
import time
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Engine

from shoal.core.spec import JobSpec
from shoal.output.formats import write_file
from shoal.output.source import source_of
from shoal.store.database import open_database
from shoal.store.pages import PageStore
from shoal.store.tables import items

JOB, SMALL = "export", "small"
AT_ONCE = 10_000
SPEC = JobSpec(fields=dict.fromkeys(("title", "price", "stock", "new", "tags", "money", "text"), ".x"))


def main() -> None:
    folder, kind, count = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    engine = open_database(f"sqlite:///{folder / 'shoal.db'}")
    _fill(engine, JOB, count)
    _fill(engine, SMALL, 100)
    pages, file = PageStore(engine), folder / f"items.{kind}"
    write_file(source_of(pages, SMALL, SPEC), kind, file)
    before, started = _peak(), time.monotonic()
    written = write_file(source_of(pages, JOB, SPEC), kind, file)
    seconds = time.monotonic() - started
    found = {"rows": written.rows, "rise": _peak() - before, "seconds": seconds, "bytes": file.stat().st_size}
    print(json.dumps(found))


def _fill(engine: Engine, job: str, count: int) -> None:
    with engine.begin() as connection:
        if connection.execute(sa.select(items.c.id).where(items.c.job == job).limit(1)).first():
            return
        for start in range(0, count, AT_ONCE):
            rows = [_values(job, number) for number in range(start, min(start + AT_ONCE, count))]
            connection.execute(sa.insert(items), rows)


def _values(job: str, number: int) -> dict[str, Any]:
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
    return {"job": job, "fingerprint": number, "number": 0, "url": url, "data": json.dumps(data)}


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


if __name__ == "__main__":
    main()
