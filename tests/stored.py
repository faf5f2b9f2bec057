"""What a home has stored of a job."""

from __future__ import annotations

import json
from typing import Any

from shoal.store.database import open_database
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


def log_events(shoal: Shoal, event: str) -> list[dict[str, Any]]:
    """Lines of this event in the logs of workers that commands brought along."""
    logs = sorted((shoal.home / "logs").glob("worker-*.log"))
    lines = [line for log in logs for line in log.read_text().splitlines()]
    return events_in(lines, event)


def events_in(lines: list[str], event: str) -> list[dict[str, Any]]:
    """Lines of this event among others."""
    return [json.loads(line) for line in lines if f'"event":"{event}"' in line.replace('": "', '":"')]
