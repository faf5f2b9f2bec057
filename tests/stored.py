"""What a home has stored of a job."""

from __future__ import annotations

import json
from typing import Any

import sqlalchemy as sa

from shoal.store.database import open_database
from shoal.store.objects import Objects
from shoal.store.page_rows import PageRow
from shoal.store.pages import PageStore
from tests.command import Shoal


def page_rows(shoal: Shoal, job: str) -> list[PageRow]:
    """The pages of a job, as they stand in the database."""
    engine = open_database(shoal.settings.sql_url)
    try:
        return list(PageStore(engine).pages(job))
    finally:
        engine.dispose()


def count_rows(shoal: Shoal, *names: str) -> int:
    """Rows of these tables of the database."""
    engine = open_database(shoal.settings.sql_url)
    try:
        with engine.connect() as connection:
            return sum(connection.execute(sa.text(f"SELECT count(*) FROM {name}")).scalar_one() for name in names)
    finally:
        engine.dispose()


def archived(shoal: Shoal) -> dict[str, int]:
    """Job → bytes that the archive has of it, in its folder or its object store."""
    settings = shoal.settings
    if place := settings.archive_place:
        sizes = [(found.name, found.size) for found in Objects(place).listed("")]
    else:
        root = settings.archive_path
        sizes = [(str(path.relative_to(root)), path.stat().st_size) for path in root.rglob("*") if path.is_file()]
    total: dict[str, int] = {}
    for name, size in sizes:
        job, slash, _ = name.partition("/")
        if slash and not job.startswith("."):
            total[job] = total.get(job, 0) + size
    return total


def segments(shoal: Shoal, job: str) -> list[bytes]:
    """Each whole segment of a job, wherever it is."""
    settings = shoal.settings
    if place := settings.archive_place:
        store = Objects(place)
        return [store.get(found.name, 0, found.size) or b"" for found in store.listed(job)]
    return [path.read_bytes() for path in sorted((settings.archive_path / job).glob("*.warc.gz"))]


def read_archived(shoal: Shoal, key: str, start: int, length: int) -> bytes | None:
    """Bytes of one of them."""
    settings = shoal.settings
    if place := settings.archive_place:
        return Objects(place).get(key, start, start + length)
    return (settings.archive_path / key).read_bytes()[start : start + length]


def log_events(shoal: Shoal, event: str) -> list[dict[str, Any]]:
    """Lines of this event in the logs of workers that commands brought along."""
    logs = sorted((shoal.home / "logs").glob("worker-*.log"))
    lines = [line for log in logs for line in log.read_text().splitlines()]
    return events_in(lines, event)


def events_in(lines: list[str], event: str) -> list[dict[str, Any]]:
    """Lines of this event among others."""
    return [json.loads(line) for line in lines if f'"event":"{event}"' in line.replace('": "', '":"')]
