"""Extractions from stored pages: begun once, done by whoever comes, never twice, gone with their job."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from sqlalchemy.engine import Engine

from shoal.again.grip import Grip
from shoal.changes import comparison
from shoal.errors import Conflict
from shoal.frontier import parts as parts_module
from shoal.frontier.frontier import Frontier
from shoal.frontier.parts import Claim, Parts
from shoal.store.extractions import ExtractionState, ExtractionStore, Part
from shoal.store.items import ItemRow, Quarantined
from shoal.store.page_rows import PageRow
from shoal.store.pages import PageStore
from shoal.store.row_filter import RowFilter
from tests.contract.api import Desk, page, refused, told
from tests.waiting import wait_until

SPEC = {"fields": {"title": "h1"}}


def _pages(store: PageStore, count: int, job: str = "job") -> None:
    rows = [
        PageRow(
            job=job,
            fingerprint=number,
            url=f"http://shop.example/{number}",
            host="shop.example",
            status=200,
            depth=0,
            attempt=0,
            content_type="text/html",
            charset="utf-8",
            size=10,
            elapsed_ms=1.0,
            fetched_ms=1_700_000_000_000,
            redirect="http://shop.example/" if number % 2 else None,
        )
        for number in range(count)
    ]
    store.write(rows, [], [])


def _item(number: int) -> ItemRow:
    return ItemRow("job", number, 0, f"http://shop.example/{number}", {"title": str(number)}, "v2")


def _part(store: ExtractionStore, extraction: int, number: int) -> Part:
    part = store.part(extraction, number)
    assert part is not None
    return part


def test_pages_are_shared_out_and_redirects_do_not_count(engine: Engine) -> None:
    store = ExtractionStore(engine)
    _pages(PageStore(engine), 1_100)
    begun = store.begin("job", "v2", SPEC, 5)
    assert (begun.total, store.undone(begun.id)) == (550, [1, 2, 3])
    first, second = _part(store, begun.id, 1), _part(store, begun.id, 2)
    assert second.first_id == first.last_id + 1
    assert store.begin("none", "v2", SPEC, 5).state is ExtractionState.DONE
    with pytest.raises(Conflict):
        store.begin("job", "v2", SPEC, 6)


def test_of_two_who_work_on_a_part_one_writes(engine: Engine) -> None:
    store, pages = ExtractionStore(engine), PageStore(engine)
    _pages(pages, 10)
    begun = store.begin("job", "v2", SPEC, 5)
    part = _part(store, begun.id, 1)
    moved = part.moved(part.first_id + 3, 2, 1, {"body_missing": 1})
    assert store.advance("job", part, moved, [_item(2)])
    assert not store.advance("job", part, moved, [_item(4)])
    assert not store.finish(begun.id, 7)
    rest = _part(store, begun.id, 1)
    assert rest == moved
    assert store.advance("job", rest, rest.moved(rest.last_id, 3, 0, {"body_missing": 2}), [])
    assert store.finish(begun.id, 7)
    done = store.progress(store.of_job("job")[0])
    assert (done.pages, done.items, done.failed, done.reasons) == (5, 1, 3, {"body_missing": 3})
    assert [row.data for row in pages.items("job", RowFilter(version="v2"))] == [{"title": "2"}]


def test_nobody_writes_for_an_extraction_that_was_given_up_or_whose_job_is_gone(engine: Engine) -> None:
    store, pages = ExtractionStore(engine), PageStore(engine)
    _pages(pages, 10)
    for version in ("v2", "v3"):
        begun = store.begin("job", version, SPEC, 5)
        part = _part(store, begun.id, 1)
        moved = part.moved(part.first_id, 1, 1, {})
        assert store.advance("job", part, moved, [_item(2)])
        store.cancel(begun, 6) if version == "v2" else store.remove("job")
        assert not store.advance("job", moved, moved.moved(moved.last_id, 1, 1, {}), [_item(4)])
        while version == "v2" and not store.clear(begun):
            pass
        assert store.find("job", version) is None
    assert list(pages.items("job", RowFilter(version="v3"))) == []


def test_a_part_is_one_workers_until_he_is_silent_or_gives_it_back(frontier: Frontier) -> None:
    parts = frontier.parts
    parts.offer(7, [1, 2])
    first, second = parts.claim(), parts.claim()
    assert first is not None
    assert second is not None
    assert {first.part, second.part} == {1, 2}
    assert (parts.claim(), parts.free()) == (None, 0)
    parts.offer(7, [1, 2])
    assert parts.free() == 0, "offered again, they stay with those who have them"
    parts.give_back(first)
    again = parts.claim()
    assert again is not None
    assert (again.part, again.times) == (first.part, 1)
    held = parts.hold(again, moved=True)
    assert held is not None
    parts.give_back(first)
    assert parts.free() == 0, "he has it no more"
    parts.finish(held)
    assert parts.hold(held) is None
    parts.drop(7)
    assert parts.known() == []
    assert parts.claim() is None


def _claimed(parts: Parts) -> Claim:
    parts.offer(7, [1])
    claim = parts.claim()
    assert claim is not None
    return claim


def test_a_claim_outlives_its_time_while_the_work_goes_on(frontier: Frontier, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts_module, "CLAIM", timedelta(milliseconds=1_500))
    claim = _claimed(frontier.parts)
    with Grip(frontier.parts, claim, hold_s=0.02) as grip:
        wait_until(lambda: grip.claim.until_ms > claim.until_ms + 1_500)
        assert frontier.parts.claim() is None
        assert not grip.lost
        grip.give_back()
    assert frontier.parts.claim() is not None


def test_who_is_stuck_loses_the_part_and_does_not_take_it_from_the_next(
    frontier: Frontier, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts_module, "CLAIM", timedelta(milliseconds=500))
    claim = _claimed(frontier.parts)
    with Grip(frontier.parts, claim, hold_s=0.02, patience_s=0.0) as grip:
        wait_until(lambda: frontier.parts.free() == 1)
        monkeypatch.setattr(parts_module, "CLAIM", timedelta(seconds=60))
        other = frontier.parts.claim()
        assert other is not None
        assert other.times == 2
        grip.moved()
        assert grip.lost
        grip.give_back()
        assert frontier.parts.free() == 0
    assert frontier.parts.hold(other) is not None


def test_the_api_starts_shows_and_drops_a_version(each: Desk) -> None:
    job = each.submit("http://shop.example/1", fields={"n": "h1"})
    each.work(lambda lease: page(lease, item={"n": 1}))
    begun = told(each.post(f"jobs/{job}/extractions", {"spec": SPEC}), 202)
    assert (begun["version"], begun["state"], begun["total"], begun["spec"]) == ("v2", "running", 1, SPEC)
    again = told(each.post(f"jobs/{job}/extractions", {"spec": SPEC, "version": "v2"}), 202)
    assert again["created_at"] == begun["created_at"]
    refused(each.post(f"jobs/{job}/extractions", {"spec": {"fields": {"a": "b"}}, "version": "v2"}), 409)
    refused(each.post(f"jobs/{job}/extractions", {"spec": {"fields": {"a": ""}}}), 422)
    refused(each.post(f"jobs/{job}/extractions", {"spec": {}}), 422)
    refused(each.get(f"jobs/{job}/extractions/v9"), 404)
    assert [row["version"] for row in told(each.get(f"jobs/{job}/extractions"))["data"]] == ["v2"]
    assert each.delete(f"jobs/{job}/extractions/v2").status_code == 204


def test_a_jobs_contract_holds_for_a_further_version_unless_the_order_has_a_word_on_it(each: Desk) -> None:
    contract = {"schema": {"type": "object", "required": ["n"]}, "tolerance": 0.5}
    job = each.submit("http://shop.example/1", fields={"n": "h1"}, contract=contract)
    each.work(lambda lease: page(lease, item={"n": 1}))
    place = f"jobs/{job}/extractions"
    begun = told(each.post(place, {"spec": SPEC}), 202)
    assert begun["spec"] == {**SPEC, "contract": contract}
    for same in (SPEC, {**SPEC, "contract": contract}):
        again = told(each.post(place, {"spec": same, "version": "v2"}), 202)
        assert again["created_at"] == begun["created_at"], "the same order"
    refused(each.post(place, {"spec": {**SPEC, "contract": None}, "version": "v2"}), 409)
    dropped = told(each.post(place, {"spec": {**SPEC, "contract": None}}), 202)
    assert (dropped["version"], dropped["spec"]) == ("v3", SPEC)
    own = {"schema": {"type": "object"}}
    assert told(each.post(place, {"spec": {**SPEC, "contract": own}}), 202)["spec"] == {**SPEC, "contract": own}
    platform = each.platform
    row = platform.control.job(job)
    held = [platform.extractions.choose(job, row.spec, name).spec.contract for name in ("v2", "v3")]
    assert held == [row.spec.contract, None]


def test_what_breaks_the_contract_of_a_version_is_counted_beside_its_items(engine: Engine) -> None:
    store = ExtractionStore(engine)
    _pages(PageStore(engine), 10)
    begun = store.begin("job", "v2", {**SPEC, "contract": {"schema": {"required": ["n"]}}}, 5)
    part = _part(store, begun.id, 1)
    refused_items = [Quarantined(_item(number), ("n: is required",)) for number in (4, 6)]
    assert store.advance("job", part, part.moved(part.last_id, 5, 1, {}), [_item(2)], refused_items)
    done = store.progress(begun)
    assert (done.items, done.quarantined, done.record["quarantined"]) == (1, 2, 2)


def test_the_api_compares_two_versions_part_by_part(each: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    job = each.submit(*(f"http://shop.example/{number}" for number in range(6)), fields={"n": "h1"})
    each.work(lambda lease: page(lease, item={"n": 1}))
    told(each.post(f"jobs/{job}/extractions", {"spec": SPEC}), 202)
    first = list(each.platform.pages.items_by_page(job, "v1"))
    assert len(first) == 6
    values = (1, 1.0, True, 2, None, 1)
    rows = [replace(item, data={"n": value}, version="v2") for item, value in zip(first, values, strict=True)]
    each.platform.pages.write([], [*rows[:5], replace(rows[0], number=1)], [])
    whole = told(each.get(f"jobs/{job}/diff?before=v1&after=v2"))
    kinds = [(row["change"], row["url"], row["number"]) for row in whole["data"]]
    assert (whole["more"], whole["cursor"]) == (False, None)
    assert kinds == [
        ("added", first[0].url, 1),
        *(("changed", first[place].url, 0) for place in (2, 3, 4)),
        ("removed", first[5].url, 0),
    ]
    assert whole["summary"] == {
        "added": 1,
        "removed": 1,
        "changed": 3,
        "same": 2,
        "fields": {"n": {"changed": 2, "filled": 0, "emptied": 1}},
    }
    monkeypatch.setattr(comparison, "STRETCH", 2)
    for limit in (1, 2, 100):
        parts = [told(each.get(f"jobs/{job}/diff?before=v1&after=v2&limit={limit}"))]
        while parts[-1]["more"]:
            place = parts[-1]["cursor"]
            parts.append(told(each.get(f"jobs/{job}/diff?before=v1&after=v2&limit={limit}&cursor={place}")))
        assert len(parts) > 2
        assert [row for part in parts for row in part["data"]] == whole["data"]
        for name in ("added", "removed", "changed", "same"):
            assert sum(part["summary"][name] for part in parts) == whole["summary"][name]
    refused(each.get(f"jobs/{job}/diff?before=v2&after=v1&cursor={parts[0]['cursor']}"), 422)
    refused(each.get(f"jobs/{job}/diff?after=v9"), 404)
    refused(each.get("jobs/nobody/diff"), 404)
