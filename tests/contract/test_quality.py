"""Contracts, quarantine, fields in numbers and drift, on each database."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from sqlalchemy.engine import Engine

from shoal.core.model import Lease
from shoal.store.items import ItemRow, Quarantined
from shoal.store.page_rows import PageRow
from shoal.store.pages import PageStore
from shoal.store.tables import FIRST_VERSION
from shoal.store.tallies import Counted, Tallies
from shoal.worker.result import Result
from tests.contract.api import Desk, flaws, page, told

SCHEMA = {"type": "object", "required": ["price"], "properties": {"price": {"type": "number"}}}
URLS = [f"http://shop{number % 2}.example/{number}" for number in range(10)]


def takes(item_of: Callable[[int], dict[str, Any]]) -> Callable[[Lease], Result]:
    """A worker that finds this item on the page with this number."""
    return lambda lease: page(lease, item=item_of(int(str(lease.request.url).rpartition("/")[2])))


def run_job(desk: Desk, item_of: Callable[[int], dict[str, Any]], count: int = 10, name: str = "prices") -> str:
    job = desk.submit(*URLS[:count], name=name, fields={"price": ".price"})
    desk.work(takes(item_of))
    desk.platform.housekeeper.tick()
    return job


def a_page(job: str, fingerprint: int) -> PageRow:
    return PageRow(
        job, fingerprint, "http://shop.example/1", "shop.example", 200, 0, 0, "text/html", "utf-8", 1, 1.0, 1
    )


# --- quarantine ------------------------------------------------------------------------------------------------------


def test_an_item_is_among_the_items_or_in_quarantine_and_never_in_both(engine: Engine) -> None:
    store = PageStore(engine)
    pages = [a_page("job", 1)]
    first = ItemRow("job", 1, 0, "http://shop.example/1", {"price": 1})
    second = replace(first, number=1, data={"price": "?"})
    store.write(pages, [first], [], quarantined=[Quarantined(second, ("price: no",))])
    assert ([*store.items("job")], [each.item for each in store.quarantined("job")]) == ([first], [second])
    store.write(pages, [second], [], quarantined=[Quarantined(first, ("price: no",))])
    assert ([*store.items("job")], [each.item for each in store.quarantined("job")]) == ([second], [first])
    assert (store.count_items("job"), store.count_quarantine("job")) == (1, 1)


def test_the_quarantine_goes_with_its_job(engine: Engine) -> None:
    store = PageStore(engine)
    item = ItemRow("job", 1, 0, "http://shop.example/1", {"a": 1})
    store.write([a_page("job", 1)], [], [], quarantined=[Quarantined(item, ("no",))])
    assert not store.remove("job")
    assert store.remove("job")
    assert store.count_quarantine("job") == 0


def test_the_api_lists_what_breaks_the_contract_with_its_reasons(each: Desk) -> None:
    job = each.submit(*URLS, fields={"price": ".price"}, contract={"schema": SCHEMA})

    def visit(lease: Lease) -> Result:
        found = takes(lambda number: {"price": number})(lease)
        if str(lease.request.url).endswith(("/3", "/4")):
            broken = tuple(Quarantined(item, ("price: bad",)) for item in found.items)
            return replace(found, items=(), quarantined=broken)
        return found

    each.work(visit)
    assert len(list(each.rows(f"jobs/{job}/items", limit=3))) == 8
    listed = list(each.rows(f"jobs/{job}/quarantine", limit=1))
    assert sorted(row["data"]["price"] for row in listed) == [3, 4]
    assert {tuple(row["reasons"]) for row in listed} == {("price: bad",)}
    assert [row["url"] for row in each.rows(f"jobs/{job}/quarantine?host=shop1.example")] == [URLS[3]]
    assert told(each.get(f"jobs/{job}/fields"))["quarantined"] == 2


def test_a_contract_that_cannot_be_used_is_refused_with_its_place(desk: Desk) -> None:
    answer = desk.post("jobs", {"urls": URLS, "fields": {"a": "h1"}, "contract": {"schema": {"type": 7}}})
    assert "not a JSON Schema" in flaws(answer)["contract.schema"]


# --- fields in numbers -----------------------------------------------------------------------------------------------


def test_fields_are_shown_in_numbers_by_host_and_together(each: Desk) -> None:
    job = run_job(each, lambda number: {"price": number if number % 2 else None, "title": "x"})
    shown = told(each.get(f"jobs/{job}/fields?hosts=true"))
    assert (shown["items"], shown["complete"], shown["fields"]["price"]["fill_rate"]) == (10, True, 0.5)
    assert shown["fields"]["price"] | {"low": 1.0, "high": 9.0, "distinct": 5} == shown["fields"]["price"]
    assert shown["hosts"]["shop0.example"]["fields"]["price"]["filled"] == 0
    assert shown["hosts"]["shop1.example"]["fields"]["price"]["fill_rate"] == 1.0
    assert told(each.get(f"jobs/{job}/fields"))["hosts"] == {}


def test_what_comes_later_is_counted_later_and_nothing_twice(desk: Desk) -> None:
    job = desk.submit(*URLS, fields={"price": ".price"})
    stats = desk.platform.field_stats
    desk.work(takes(lambda number: {"price": number}), at_most=4)
    assert stats.count(job).tally.whole.items == 4
    desk.work(takes(lambda number: {"price": number}))
    assert [stats.count(job).tally.whole.items for _ in range(2)] == [10, 10]


def test_who_counts_at_once_counts_each_item_once(engine: Engine) -> None:
    tallies = Tallies(engine)
    mine, yours = tallies.get("job", FIRST_VERSION), tallies.get("job", FIRST_VERSION)
    for counted in (mine, yours):
        counted.tally.add("http://h.example/", {"a": 1})
        counted.last_id = 7
    assert tallies.put("job", FIRST_VERSION, mine, 0)
    assert not tallies.put("job", FIRST_VERSION, yours, 0)
    assert tallies.get("job", FIRST_VERSION).last_id == 7
    assert not tallies.put("job", FIRST_VERSION, Counted(yours.tally, 9), 6)


# --- drift -----------------------------------------------------------------------------------------------------------


def test_a_run_whose_field_is_filled_less_often_is_flagged_in_status_events_and_metrics(each: Desk) -> None:
    for _ in range(2):
        job = run_job(each, lambda number: {"price": number + 1.5})
        assert each.job(job)["drift"] == []
    before = each.platform.watch.last_event()
    bad = run_job(each, lambda number: {"price": number + 1.5 if number < 3 else None, "title": "x"})
    (drift, *_) = each.job(bad)["drift"]
    assert (drift["what"], drift["field"], drift["runs"]) == ("fill", "price", 2)
    assert "30.0%" in drift["detail"]
    kinds = [event.kind for event in each.platform.watch.events_since(before, bad)]
    assert kinds.count("drift") == 1
    metrics = each.get("/metrics").get_data(as_text=True)
    assert 'shoal_drifts_total{what="fill"} 1.0' in metrics


def test_a_run_with_far_fewer_items_is_flagged(desk: Desk) -> None:
    for _ in range(2):
        run_job(desk, lambda number: {"price": number})
    job = run_job(desk, lambda number: {"price": number}, count=4)
    assert [drift["what"] for drift in desk.job(job)["drift"]] == ["volume"]


def test_jobs_of_other_names_tenants_and_states_are_no_earlier_runs(desk: Desk) -> None:
    run_job(desk, lambda number: {"price": number}, name="other")
    cancelled = desk.submit(*URLS, name="prices", fields={"price": ".price"})
    desk.post(f"jobs/{cancelled}/cancel")
    job = run_job(desk, lambda number: {"title": "x"})
    assert desk.job(job)["drift"] == []
    nameless = [run_job(desk, lambda number: {"price": number}, count, name="") for count in (10, 1)]
    assert desk.job(nameless[1])["drift"] == []


def test_a_job_is_judged_once(desk: Desk) -> None:
    for _ in range(2):
        run_job(desk, lambda number: {"price": number})
    job = run_job(desk, lambda number: {"price": number}, count=4)
    before = desk.platform.watch.last_event()
    desk.platform.housekeeper.tick()
    assert desk.platform.watch.events_since(before, job) == []
    assert desk.platform.jobs.unjudged(10) == []
