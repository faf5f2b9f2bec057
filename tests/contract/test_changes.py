"""Two runs compared: of a thousand prepared pages, each is told as what became of it, on every database."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest

from shoal.changes import pages as pages_module
from shoal.changes.items import BEGINNING, ItemChange
from shoal.changes.pages import PageChange
from shoal.core.model import Lease
from shoal.errors import InputError, NotFound
from shoal.fetch.port import Response
from shoal.store.job_rows import JobRow
from shoal.worker.context import JobContext
from shoal.worker.reader import Reader
from shoal.worker.reading import read_page, read_redirect
from shoal.worker.result import Result
from tests.changing import HUBS, ROOT, RULES, Answer, Case, Site, cases, page
from tests.contract.api import Desk, dead

PAGES = 1_000
UNCHANGED = ("unchanged", "")


@contextmanager
def _visitor(desk: Desk, answer: Callable[[str], Answer]) -> Generator[Callable[[Lease], Result]]:
    """Reads what the site answers as a worker does."""
    contexts: dict[str, JobContext] = {}
    loop, reader = asyncio.new_event_loop(), Reader()

    def visit(lease: Lease) -> Result:
        if lease.job not in contexts:
            row = desk.platform.jobs.get(lease.job)
            assert row is not None
            contexts[lease.job] = JobContext.of(lease.job, row.spec)
        url = lease.request.url
        said = answer(url.target)
        if said.failure:
            return dead(lease, said.failure)
        headers = ((b"content-type", said.content_type.encode()),)
        response = Response(url, said.status, "OK", headers, said.body, timedelta(milliseconds=1))
        if said.location:
            return read_redirect(contexts[lease.job], lease, response, said.location)
        return loop.run_until_complete(read_page(contexts[lease.job], lease, response, reader))

    try:
        yield visit
    finally:
        loop.run_until_complete(reader.end())
        loop.close()


def crawl(desk: Desk, answer: Callable[[str], Answer], **settings: Any) -> JobRow:
    """A whole run over a site, of which only the web is not real."""
    spec: dict[str, Any] = {"follow": True, "name": "watched", "robots": False, "changes": RULES, **settings}
    job = desk.submit(f"{ROOT}/", **spec)
    with _visitor(desk, answer) as visit:
        desk.work(visit)
    return desk.platform.control.job(job)


def _told(desk: Desk, run: JobRow, earlier: JobRow) -> dict[str, tuple[str, str]]:
    changes = list(desk.platform.changes.pages(run, earlier))
    told = {change.page.url.removeprefix(ROOT): (change.kind.value, change.why) for change in changes}
    assert len(told) == len(changes)
    return told


def _expected(prepared: list[Case]) -> dict[str, tuple[str, str]]:
    known = {f"/p/{number}": case.verdict for number, case in enumerate(prepared) if case.verdict}
    return {**known, "/": UNCHANGED, **{f"/hub/{hub}": UNCHANGED for hub in range(HUBS)}}


def _assert_right(prepared: list[Case], told: dict[str, tuple[str, str]], unlike: tuple[str, ...] = ()) -> None:
    """Every page as it is expected, but for cases that this comparison is not about."""
    targets = {path: told.pop(path) for path in list(told) if path.startswith(("/moved/", "/far/"))}
    assert {(path.split("/")[1], *verdict) for path, verdict in targets.items()} == {
        ("moved", "unchanged", ""),
        ("far", "new", ""),
    }
    names = {f"/p/{number}": case.name for number, case in enumerate(prepared)}
    wrong = {
        (path, names.get(path)): (told.get(path), wanted)
        for path, wanted in _expected(prepared).items()
        if told.get(path) != wanted and names.get(path) not in unlike
    }
    assert not wrong
    assert told.keys() == _expected(prepared).keys()


def test_each_of_a_thousand_prepared_pages_is_told_as_what_became_of_it(each: Desk) -> None:
    prepared = cases(PAGES)
    earlier = crawl(each, Site(prepared, later=False).answer)
    run = crawl(each, Site(prepared, later=True).answer)
    assert each.platform.changes.earlier(run) == earlier.id
    _assert_right(prepared, _told(each, run, earlier))
    assert {page.digest is None for page in each.platform.pages.pages(run.id) if not page.redirect} == {False}


def test_runs_without_digests_or_with_other_rules_are_compared_from_the_archive(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages_module, "FEW", 7)
    prepared = cases(70)
    earlier = crawl(desk, Site(prepared, later=False).answer, changes=False)
    run = crawl(desk, Site(prepared, later=True).answer)
    assert {page.digest for page in desk.platform.pages.pages(earlier.id)} == {None}
    _assert_right(prepared, _told(desk, run, earlier))
    other = crawl(desk, Site(prepared, later=True).answer, changes={"ignore_dates": False, "ignore": RULES["ignore"]})
    told = _told(desk, other, earlier)
    dated = {f"/p/{number}" for number, case in enumerate(prepared) if case.name in ("date", "time ago", "iso time")}
    assert {told[path] for path in dated} == {("changed", "content")}
    bare = crawl(desk, Site(prepared, later=True).answer, changes=False, archive=False)
    unknown = Counter(_told(desk, bare, earlier).values())
    assert unknown["unknown", "body_not_kept"] > 30
    assert not unknown["changed", "content"]


def test_a_page_that_a_run_has_not_reached_is_not_gone(desk: Desk) -> None:
    prepared = cases(60)
    earlier = crawl(desk, Site(prepared, later=False).answer)
    assert set(_told(desk, crawl(desk, Site(prepared, later=False).answer), earlier).values()) == {UNCHANGED}
    lost = crawl(desk, Site(prepared, later=True, lost=3).answer)
    told = _told(desk, lost, earlier)
    behind = {told.get(f"/p/{number}") for number, case in enumerate(prepared) if number % HUBS == 3 and case.before}
    assert behind <= {("unknown", "not_reached"), None}
    assert ("unknown", "not_reached") in behind
    assert told["/hub/3"] == ("unknown", "not_reached")
    short = crawl(desk, Site(prepared, later=True).answer, pages=20)
    whys = {why for kind, why in _told(desk, short, earlier).values() if kind == "gone"}
    assert whys <= {"http_404", "http_410"}
    denied = crawl(desk, Site(prepared, later=True).answer, deny=["/hub/4"])
    (change,) = [
        change for change in desk.platform.changes.pages(denied, earlier) if change.page.url == f"{ROOT}/hub/4"
    ]
    assert (change.kind, change.why, change.detail) == ("unknown", "not_reached", "out_of_scope")


def test_the_difference_of_a_page_is_told_line_by_line(desk: Desk) -> None:
    texts = [
        "<h1>Shop</h1><p>Open daily</p><p>Since 3 May 2026</p>",
        "<h1>Shop</h1><p>Closed</p><p>Since 4 May 2026</p>",
    ]
    earlier, run = (crawl(desk, lambda _, text=text: page(text)) for text in texts)
    change, compared = desk.platform.changes.page(run, earlier, f"{ROOT}/")
    diff = compared.diff(change)
    assert diff.lines == ("@@ -1,3 +1,3 @@", " Shop", "-Open daily", "+Closed", " Since [date]")
    assert (diff.added, diff.removed, diff.note) == (1, 1, "")
    picture = crawl(desk, lambda _: Answer(b"\x89PNG\0", "image/png"))
    change, compared = desk.platform.changes.page(picture, run, f"{ROOT}/")
    assert (change.kind, compared.diff(change).note[:13]) == ("changed", "it is no text")
    with pytest.raises(NotFound, match="neither job"):
        desk.platform.changes.page(run, earlier, f"{ROOT}/none")
    with pytest.raises(InputError, match="itself"):
        desk.platform.changes.page(run, run, f"{ROOT}/")


def test_a_run_without_a_name_or_a_forerunner_says_so(desk: Desk) -> None:
    first = crawl(desk, lambda _: page("<p>x</p>"), name="")
    with pytest.raises(NotFound, match="has no name"):
        desk.platform.changes.earlier(first)
    with pytest.raises(NotFound, match="no finished run of 'alone'"):
        desk.platform.changes.earlier(crawl(desk, lambda _: page("<p>x</p>"), name="alone"))


# --- items ------------------------------------------------------------------------------------------------------------

SHELVES = 20
EACH = 25


def _shelf(number: int, *, later: bool) -> Answer:
    """A page of items: some change, some move to the next shelf, some come and go."""
    if later and number == 3:
        return Answer(failure="http_404")
    if later and number == 4:
        return Answer(failure="http_503")
    rows = "".join(_row(number * EACH + place, later=later) for place in range(EACH))
    borrowed = "".join(_row(100_000 + number * EACH + place, later=later) for place in range(2)) if later else ""
    return page(f"<ul>{rows if not later else borrowed + rows}</ul>")


def _row(sku: int, *, later: bool) -> str:
    if later and sku % 7 == 0:
        return ""
    price = sku + 1 if later and sku % 5 == 0 else sku
    return f"<li><b>{sku}</b><i>{price}</i><u>{sku * 3 + later}</u></li>"


def _shop(path: str, *, later: bool) -> Answer:
    if path == "/":
        return page("".join(f'<a href="/shelf/{number}">{number}</a>' for number in range(SHELVES)))
    return _shelf(int(path.removeprefix("/shelf/")), later=later)


ITEMS = {"each": "li", "fields": {"sku": "b", "price": "i", "views": "u"}}


def _expected_item(sku: int) -> tuple[str, str]:
    if sku >= 100_000:
        return "new", ""
    if sku // EACH == 3:
        return "gone", "http_404"
    if sku // EACH == 4:
        return "unknown", "not_reached"
    return ("gone", "") if sku % 7 == 0 else ("changed", "") if sku % 5 == 0 else UNCHANGED


def _by_sku(changes: list[ItemChange]) -> dict[int, tuple[str, str]]:
    return {int(change.change.item.data["sku"]): (change.kind.value, change.why) for change in changes}


def test_each_item_is_told_by_its_key_as_what_became_of_it(each: Desk) -> None:
    rules = {"key": "sku", "ignore_fields": ["views"]}
    earlier = crawl(each, lambda path: _shop(path, later=False), changes=rules, **ITEMS)
    run = crawl(each, lambda path: _shop(path, later=True), changes=rules, **ITEMS)
    changes = list(each.platform.changes.items(run, earlier))
    told = _by_sku(changes)
    fresh = {100_000 + shelf * EACH + place for shelf in range(SHELVES) for place in range(2) if shelf not in (3, 4)}
    known = {*range(SHELVES * EACH), *(sku for sku in fresh if sku % 7)}
    assert told == {sku: _expected_item(sku) for sku in known}
    (change,) = [change for change in changes if change.change.item.data["sku"] == "5"]
    assert change.change.fields == {"price": ("5", "6")}


def test_without_a_key_items_are_known_by_their_places(desk: Desk) -> None:
    texts = ["<li><b>1</b><i>1</i></li><li><b>2</b><i>2</i></li>", "<li><b>1</b><i>7</i></li>"]
    earlier, run = (crawl(desk, lambda _, text=text: page(text), changes=True, **ITEMS) for text in texts)
    compared = desk.platform.changes.compare_items(run, earlier)
    found, upto = compared.stretch(BEGINNING, 10)
    assert [(change.kind, dict(change.change.fields)) for change in found] == [
        ("changed", {"price": ("1", "7")}),
        ("gone", {}),
    ]
    assert upto is None


def test_an_item_that_went_into_quarantine_is_not_gone(desk: Desk) -> None:
    contract = {"schema": {"properties": {"price": {"maxLength": 2}}}}
    texts = ["<li><b>1</b><i>1</i></li>", "<li><b>1</b><i>1000</i></li>"]
    rules = {"key": "sku"}
    earlier, run = (
        crawl(desk, lambda _, text=text: page(text), changes=rules, contract=contract, **ITEMS) for text in texts
    )
    (change,) = desk.platform.changes.items(run, earlier)
    assert (change.kind, change.why) == ("unknown", "quarantined")


def test_a_change_is_told_to_programs(desk: Desk) -> None:
    earlier, run = (crawl(desk, lambda _, text=text: page(text)) for text in ("<p>a</p>", "<p>b</p>"))
    (change,) = desk.platform.changes.pages(run, earlier)
    assert isinstance(change, PageChange)
    told = change.as_json
    assert {name: told[name] for name in ("kind", "url", "why")} == {
        "kind": "changed",
        "url": f"{ROOT}/",
        "why": "content",
    }
    assert told["before"]["status"] == told["after"]["status"] == 200
