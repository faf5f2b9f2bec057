"""Writes pages of a job as a worker does: `python -m benchmarks.api.write_pages DATABASE JOB FIRST COUNT [PAUSE]`.

In batches of a worker's size, one transaction each, with so many seconds between them.
"""

import sys
import time

from benchmarks.api.urls import url
from shoal.core.url import parse
from shoal.store.database import open_database
from shoal.store.items import ItemRow
from shoal.store.page_rows import PageRow
from shoal.store.pages import PageStore
from shoal.worker.deliverer import BATCH_SIZE


def write(database: str, job: str, first: int, count: int, pause_s: float = 0.0, *, items: bool = False) -> None:
    """Write the pages with these numbers, each with an item or without."""
    engine = open_database(database)
    try:
        store = PageStore(engine)
        for start in range(first, first + count, BATCH_SIZE):
            some = [_page(job, number) for number in range(start, min(start + BATCH_SIZE, first + count))]
            store.write(some, [_item(page) for page in some] if items else [], [])
            time.sleep(pause_s)
    finally:
        engine.dispose()


def _page(job: str, number: int) -> PageRow:
    address = parse(url(number))
    return PageRow(
        job=job,
        fingerprint=address.fingerprint,
        url=str(address),
        host=address.host,
        status=200,
        depth=1,
        attempt=0,
        content_type="text/html; charset=utf-8",
        charset="utf-8",
        size=25_000,
        elapsed_ms=12.5,
        fetched_ms=time.time_ns() // 1_000_000,
    )


def _item(page: PageRow) -> ItemRow:
    return ItemRow(page.job, page.fingerprint, 0, page.url, {"title": page.url, "price": page.size, "tags": ["a", "b"]})


if __name__ == "__main__":
    write(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), float(sys.argv[5]))
