"""What a page costs, in counts that are the same on every machine: calls and bytes of Redis, SQL statements, memory."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, cast

import pytest
import redis
import sqlalchemy as sa
from sqlalchemy import event

from shoal.core.model import ALL_QUEUES, Outcome, Request, Settlement
from shoal.core.spec import JobSpec
from shoal.core.url import Url
from shoal.frontier.frontier import ADMIT_AT_ONCE, Frontier
from shoal.frontier.scripts import connect
from shoal.output.source import source_of
from shoal.store.page_rows import PageRow, page_values
from shoal.store.tables import pages
from tests.contract.test_slice import Plant
from tests.contract.test_slice import each_plant as each_plant
from tests.contract.test_slice import plant as plant
from tests.site.generated import LinkedSite
from tests.site.server import serve

PAGES = 1_000
CALLS = 360
"""Of Python, for a page."""
URLS, HOSTS = 50_000, 500
JOB = "exported"


@dataclass
class Costs:
    """What was counted."""

    statements: int = 0
    calls: int = 0
    sent: int = 0
    """Bytes, to Redis and from it."""


@contextmanager
def counted(plant: Plant) -> Generator[Costs]:
    costs = Costs()

    def note(*_given: object) -> None:
        costs.statements += 1

    client = connect(plant.url)
    before = _traffic(client)
    event.listen(plant.pages.engine, "before_cursor_execute", note)
    try:
        yield costs
    finally:
        event.remove(plant.pages.engine, "before_cursor_execute", note)
        calls, sent = (now - then for now, then in zip(_traffic(client), before, strict=True))
        costs.calls, costs.sent = calls, sent
        client.close()


def _traffic(client: redis.Redis) -> tuple[int, int]:
    stats, commands = _info(client, "stats"), _info(client, "commandstats")
    scripts = sum(
        each["calls"] for name, each in commands.items() if name.startswith(("cmdstat_eval", "cmdstat_fcall"))
    )
    return scripts, stats["total_net_input_bytes"] + stats["total_net_output_bytes"]


def _info(client: redis.Redis, section: str) -> dict[str, Any]:
    return cast("Any", client).info(section)


def _crawl(plant: Plant, **settings: object) -> Costs:
    with serve(LinkedSite(PAGES)) as server:
        job = plant.submit(server.url, archive=False, **settings)
        with counted(plant) as costs:
            plant.run(parallel=128)
    assert plant.counters(job).done == PAGES
    return costs


def _most(plant: Plant, each: int) -> int:
    """Statements for so many in each batch; PostgreSQL needs a lock for it besides, and ends take a few."""
    locks = plant.pages.engine.dialect.name == "postgresql"
    return (each + locks) * plant.pages.calls + 12


def test_a_batch_is_one_statement_for_pages_and_one_for_their_links(each_plant: Plant) -> None:
    costs = _crawl(each_plant)
    assert each_plant.pages.calls < PAGES / 10
    assert costs.statements <= _most(each_plant, 2)


def test_items_cost_three_statements_more_for_a_batch(each_plant: Plant) -> None:
    costs = _crawl(each_plant, fields={"title": "title"})
    assert costs.statements <= _most(each_plant, 5)


def test_a_page_costs_few_calls_and_bytes_of_redis(plant: Plant) -> None:
    costs = _crawl(plant)
    assert costs.calls <= 0.4 * PAGES
    assert costs.sent <= 500 * PAGES


def test_a_page_takes_few_calls_of_python_on_the_event_loop(plant: Plant) -> None:
    """Functions that are called and coroutines that go on; a page of this site has some ten links."""
    calls = 0

    def note(_frame: object, event: str, _value: object) -> None:
        nonlocal calls
        calls += event == "call"

    with serve(LinkedSite(PAGES)) as server:
        job = plant.submit(server.url, archive=False)
        sys.setprofile(note)
        try:
            plant.run(parallel=128)
        finally:
            sys.setprofile(None)
    assert plant.counters(job).done == PAGES
    assert PAGES < calls <= CALLS * PAGES


@pytest.mark.parametrize(("hosts", "a_url", "a_page"), [(1, 1.05, 1.0), (2_000, 2.05, 4.0)])
def test_the_commands_within_scripts_follow_the_hosts_and_not_the_pages(
    plant: Plant, hosts: int, a_url: float, a_page: float
) -> None:
    """A URL is one, and one more for each host that gets some; a page is none, and three for each host of a batch."""
    frontier, client, count = plant.frontier, connect(plant.url), 4_000
    frontier.create("costly", JobSpec(rate="unlimited"), count)
    urls = [Url("https", f"host-{n % hosts}.example", f"/{n}") for n in range(count)]
    before = _commands(client)
    assert frontier.admit_submitted("costly", urls).admitted == count
    assert _commands(client) - before <= a_url * count
    _take(frontier, 64)
    before = _commands(client)
    done = sum(_take(frontier, 128) for _ in range(15))
    assert done == 15 * 128
    assert _commands(client) - before <= a_page * done
    client.close()


def test_a_page_takes_as_many_commands_however_many_urls_wait(plant: Plant) -> None:
    frontier, client, spent = plant.frontier, connect(plant.url), list[int]()
    frontier.create("costly", JobSpec(rate="unlimited"), 40_000)
    for start, end in ((0, 4_000), (4_000, 40_000)):
        urls = [Url("https", f"host-{n % 100}.example", f"/{n}") for n in range(start, end)]
        assert frontier.admit_submitted("costly", urls).admitted == end - start
        _take(frontier, 128)
        before = _commands(client)
        assert sum(_take(frontier, 128) for _ in range(10)) == 1_280
        spent.append(_commands(client) - before)
    client.close()
    assert spent[1] <= 1.05 * spent[0]


def _take(frontier: Frontier, limit: int) -> int:
    leases = frontier.lease(queues=ALL_QUEUES, limit=limit, lease_for=timedelta(minutes=1)).leases
    for start in range(0, len(leases), 64):
        some = leases[start : start + 64]
        frontier.settle([Settlement(each, Outcome.DONE, latency=timedelta(milliseconds=40)) for each in some])
    return len(leases)


def _commands(client: redis.Redis) -> int:
    """Those within scripts as well."""
    return sum(each["calls"] for each in _info(client, "commandstats").values())


def test_a_submission_of_ten_thousand_urls_costs_few_calls_and_statements(each_plant: Plant) -> None:
    urls = [f"https://shop-{n % 50}.example/catalogue/item-{n}.html" for n in range(10_000)]
    with counted(each_plant) as costs:
        taken = each_plant.intake.submit(JobSpec.model_validate({"urls": urls, "follow": False}))
    assert taken.report.admitted == len(urls)
    assert costs.calls <= 3 + len(urls) / ADMIT_AT_ONCE
    assert costs.statements <= 6


def test_a_thousand_rows_of_an_export_are_one_statement(each_plant: Plant) -> None:
    count = 10_000
    values = [page_values(_page(n)) for n in range(count)]
    with each_plant.pages.engine.begin() as connection:
        connection.execute(sa.insert(pages), values)
    with counted(each_plant) as costs:
        source = source_of(each_plant.pages, JOB, JobSpec(), "pages")
        assert sum(len(batch) for batch in source.batches()) == count
    assert costs.statements <= count / 1_000 + 4


def _page(n: int) -> PageRow:
    return PageRow(JOB, n, f"http://a/{n}", "a", 200, 0, 0, "text/html", "utf-8", 100, 1.5, 1_700_000_000_000)


def test_a_url_that_waits_costs_little_more_than_its_path(plant: Plant) -> None:
    client = connect(plant.url)
    plant.frontier.create("costly", JobSpec(), URLS)
    before = _info(client, "memory")["used_memory"]
    paths = 0
    for start in range(0, URLS, 1_000):
        batch = [
            Url("https", f"host-{n % HOSTS}.example", f"/catalogue/item-{n}.html") for n in range(start, start + 1_000)
        ]
        paths += sum(len(url.target) for url in batch)
        plant.frontier.admit("costly", [Request(url) for url in batch])
    grown = _info(client, "memory")["used_memory"] - before
    client.close()
    assert (grown - paths) / URLS <= 60
