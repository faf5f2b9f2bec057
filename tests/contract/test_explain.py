"""What became of a URL, over the API and on each database: whose jobs, how quickly, and by which indexes."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.engine import Engine

from shoal.core.access import Permission
from shoal.core.ledger import Ask
from shoal.core.model import Outcome
from shoal.core.url import Url, parse
from shoal.store.page_rows import ArchiveRef, DeadLetter, PageRow
from shoal.store.pages import PageStore
from shoal.store.submissions import Submissions
from shoal.store.traces import Naming, Traces
from tests.contract.api import Desk, flaws, told

HOST = "shop.example"
SLOWEST_S = 0.5
"""For a lookup in an index, on a machine with other things to do."""


def url_of(number: int) -> Url:
    return parse(f"http://{HOST}/item/{number}")


def a_page(number: int, job: str = "job") -> PageRow:
    url = url_of(number)
    kind, place = "text/html", ArchiveRef("job/1.warc.gz", number, 10)
    return PageRow(job, url.fingerprint, str(url), HOST, 200, 1, 0, kind, "utf-8", 9, 1.0, number, archive=place)


def explain(desk: Desk, job: str, url: str) -> dict[str, Any]:
    return told(desk.get(f"jobs/{job}/explain", query_string={"url": url}))


def test_a_url_is_explained_over_the_api(each: Desk) -> None:
    job = each.submit(f"http://{HOST}/a", f"http://{HOST}/b")
    waiting = explain(each, job, f"http://{HOST}/b#part")
    assert (waiting["verdict"], waiting["url"], waiting["certain"]) == ("queued", f"http://{HOST}/b", True)
    each.work()
    stored = explain(each, job, f"http://{HOST}/b")
    assert stored["verdict"] == "stored"
    assert [step["name"] for step in stored["steps"]][:2] == ["submitted", "fetched"]
    assert all(step["at"] for step in stored["steps"][:2])
    never = explain(each, job, f"http://{HOST}/c")
    assert (never["verdict"], never["certain"]) == ("never_seen", True)


def test_a_bad_url_is_named_and_a_missing_one_asked_for(desk: Desk) -> None:
    job = desk.submit(f"http://{HOST}/a")
    bad = desk.get(f"jobs/{job}/explain", query_string={"url": "shop.example/a"})
    assert "url" in flaws(bad)
    assert "url" in flaws(desk.get(f"jobs/{job}/explain"))


def test_another_tenants_job_is_not_explained(desk: Desk) -> None:
    _, red = desk.make_key(Permission.SUBMIT, Permission.READ, tenant="red")
    _, blue = desk.make_key(Permission.READ, tenant="blue")
    _, deaf = desk.make_key(Permission.SUBMIT, tenant="red")
    job = red.submit(f"http://{HOST}/a")
    query = {"url": f"http://{HOST}/a"}
    assert told(red.get(f"jobs/{job}/explain", query_string=query))["verdict"] == "queued"
    assert blue.get(f"jobs/{job}/explain", query_string=query).status_code == 404
    assert deaf.get(f"jobs/{job}/explain", query_string=query).status_code == 403
    assert red.get("jobs/nosuchjob/explain", query_string=query).status_code == 404


def test_submissions_tell_which_of_them_named_a_url(engine: Engine) -> None:
    kept, traces = Submissions(engine), Traces(engine)
    first = kept.keep("job", [str(url_of(number)) for number in range(10)], 1)
    second = kept.keep("job", [str(url_of(number)) for number in range(10, 20)], 2)
    replay = kept.keep(
        "job", [f"1~AAAAAAAAAAA http_404 {url_of(11)}", f"0 http_404 {url_of(1)}\tcall\t"], 3, kind="replay"
    )
    kept.mark_admitted([first])
    assert traces.named("job", url_of(1)) == Naming(first, 1, 10, admitted=True)
    assert traces.named("job", url_of(19)) == Naming(second, 2, 10, admitted=False)
    assert traces.named("job", parse(f"http://{HOST}/item/")) is None, "the beginning of a URL is not the URL"
    assert traces.named("another", url_of(1)) is None
    assert [bool(traces.replayed("job", url_of(number))) for number in (1, 2, 11)] == [True, False, True]
    assert traces.replayed("job", url_of(1)) == Naming(replay, 3, 2, admitted=False)


def test_requests_are_found_among_those_to_the_host(engine: Engine) -> None:
    store, traces = PageStore(engine), Traces(engine)
    asks = [Ask(number, HOST, "job", str(url_of(number % 7)), 200) for number in range(1, 100)]
    store.write([], [], [], [*asks, Ask(50, HOST, "another", str(url_of(3)), 500)])
    found = traces.asks("job", url_of(3), until_ms=60)
    assert [ask.at_ms for ask in found] == [number for number in range(1, 61) if number % 7 == 3]


def test_rows_about_a_url_are_found_by_indexes(engine: Engine) -> None:
    letter = DeadLetter("job", 1, "http://a/", HOST, Outcome.DEAD.value, "http_404", "", 0, 1, 1)
    store, traces = PageStore(engine), Traces(engine)
    for start in range(0, 5_000, 1_000):
        rows = [a_page(number) for number in range(start, start + 1_000)]
        letters = [replace(letter, fingerprint=number) for number in range(start, start + 1_000)]
        store.write(rows, [], letters, [Ask(row.fetched_ms, HOST, "job", row.url, 200) for row in rows])
    plans: list[str] = []

    def explain_first(_: Any, cursor: Any, statement: str, parameters: Any, *_more: Any) -> tuple[str, Any]:
        if statement.startswith("SELECT"):
            asked = "EXPLAIN QUERY PLAN " if engine.dialect.name == "sqlite" else "EXPLAIN "
            cursor.execute(asked + statement, parameters)
            plans.append(str(cursor.fetchall()))
        return statement, parameters

    if engine.dialect.name == "postgresql":
        with engine.connect() as connection:
            connection.execution_options(isolation_level="AUTOCOMMIT").execute(sa.text("ANALYZE"))
    event.listen(engine, "before_cursor_execute", explain_first, retval=True)
    began = time.monotonic()
    assert traces.page("job", url_of(4_000).fingerprint) is not None
    assert traces.letter("job", 4_000) is not None
    traces.item_counts("job", url_of(4_000).fingerprint, ["v1", "v2"])
    assert len(traces.asks("job", url_of(4_000), until_ms=4_500)) == 1
    assert time.monotonic() - began < SLOWEST_S
    scans = (
        "SCAN pages",
        "SCAN dead",
        "SCAN items",
        "SCAN quarantine",
        "SCAN ledger",
        "Seq Scan on pages",
        "Seq Scan on dead",
    )
    assert len(plans) == 5
    assert not [plan for plan in plans if any(scan in plan for scan in scans)], plans
