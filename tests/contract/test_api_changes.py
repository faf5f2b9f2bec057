"""Changes over the API: a part at a time, of one's own runs only."""

from __future__ import annotations

import pytest

from shoal.api import changes as changes_module
from shoal.changes import pages as pages_module
from tests.changing import HUBS, ROOT, Site, cases, page
from tests.contract.api import Desk, flaws, refused, told
from tests.contract.test_changes import ITEMS, crawl


def test_changes_are_listed_part_by_part_and_counted(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages_module, "STRETCH", 9)
    prepared = cases(60)
    earlier = crawl(desk, Site(prepared, later=False).answer)
    run = crawl(desk, Site(prepared, later=True).answer)
    path = f"jobs/{run.id}/changes"
    all_kinds = "new,changed,gone,unchanged,unknown"
    rows = list(desk.rows(f"{path}?kind={all_kinds}", limit=7))
    by_url = {row["url"].removeprefix(ROOT): (row["kind"], row["why"]) for row in rows}
    assert len(by_url) == len(rows)
    assert {name: by_url[f"/p/{name}"] for name, case in enumerate(prepared) if case.verdict} == {
        name: case.verdict for name, case in enumerate(prepared) if case.verdict
    }
    assert {row["kind"] for row in desk.rows(path, limit=1_000)} == {"new", "changed", "gone", "unknown"}
    (gone, *_) = [row for row in desk.rows(f"{path}?kind=gone") if row["why"] == "http_404"]
    assert (gone["before"]["status"], gone["after"]) == (200, None)
    sums = told(desk.get(f"{path}/summary?since={earlier.id}"))
    assert {kind: sums[kind] for kind in ("changed", "gone")} == {
        kind: sum(row["kind"] == kind for row in rows) for kind in ("changed", "gone")
    }
    assert (sums["more"], sums["since"], sums["why"]["gone"]["http_410"]) == (False, earlier.id, 1)
    monkeypatch.setattr(changes_module, "WORK_S", -1.0)
    part = told(desk.get(f"{path}/summary"))
    assert part["more"]
    total, cursor = 0, ""
    while True:
        part = told(desk.get(f"{path}/summary{cursor}"))
        total += part["unchanged"]
        if not part["more"]:
            break
        cursor = f"?cursor={part['cursor']}"
    assert total == sums["unchanged"] > HUBS


def test_the_difference_of_a_page_is_shown(desk: Desk) -> None:
    crawl(desk, lambda _: page("<p>Open daily</p><p>Tea</p>"))
    run = crawl(desk, lambda _: page("<p>Closed</p><p>Tea</p>"))
    shown = told(desk.get(f"jobs/{run.id}/changes/page", query_string={"url": f"{ROOT}/"}))
    assert shown["diff"]["lines"] == ["@@ -1,2 +1,2 @@", "-Open daily", "+Closed", " Tea"]
    assert (shown["kind"], shown["why"]) == ("changed", "content")
    refused(desk.get(f"jobs/{run.id}/changes/page", query_string={"url": f"{ROOT}/none"}), 404)


def test_items_are_compared_by_place_or_by_key(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = ["<li><b>1</b><i>1</i></li><li><b>2</b><i>2</i></li>", "<li><b>2</b><i>3</i></li>"]
    earlier, placed = (crawl(desk, lambda _, text=text: page(text), changes=True, **ITEMS) for text in texts)
    (first, second) = desk.rows(f"jobs/{placed.id}/changes?of=items", limit=1)
    assert (first["kind"], sorted(first["fields"]), second["kind"]) == ("changed", ["price", "sku"], "gone")
    keyed = crawl(desk, lambda _: page(texts[1]), changes={"key": "sku"}, **ITEMS)
    path = f"jobs/{keyed.id}/changes?of=items&since={earlier.id}"
    assert [(row["kind"], row["key"]) for row in desk.rows(path, limit=1)] == [("gone", "1"), ("changed", "2")]
    sums = told(desk.get(f"jobs/{keyed.id}/changes/summary?of=items&since={earlier.id}"))
    assert (sums["changed"], sums["fields"]) == (1, {"price": 1})
    monkeypatch.setattr(changes_module, "MOST_KEYED", 2)
    assert "too many" in refused(desk.get(path), 409)["detail"]


def test_only_runs_of_ones_own_can_be_compared(desk: Desk) -> None:
    run = crawl(desk, lambda _: page("<p>a</p>"))
    _, stranger = desk.make_key(tenant="other")
    theirs = stranger.submit(f"{ROOT}/", name="watched")
    _, owner = desk.make_key()
    refused(owner.get(f"jobs/{run.id}/changes?since={theirs}"), 404)
    refused(stranger.get(f"jobs/{run.id}/changes"), 404)
    assert "no finished run of 'watched'" in refused(owner.get(f"jobs/{run.id}/changes"), 404)["detail"]
    refused(owner.get(f"jobs/{run.id}/changes?since={run.id}"), 422)
    assert "kind" in flaws(owner.get(f"jobs/{run.id}/changes?kind=odd"))
    assert "cursor" in flaws(owner.get(f"jobs/{run.id}/changes?since={run.id}&cursor=WzFd"))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"ignore": ["p["]}, "not a CSS selector"),
        ({"key": "sku"}, "no field 'sku'"),
        ({"ignore_dtes": True}, "did you mean 'ignore_dates'?"),
        ("yes", "write true"),
    ],
)
def test_rules_that_cannot_be_used_are_refused(desk: Desk, given: object, said: str) -> None:
    answer = desk.post("jobs", {"urls": [f"{ROOT}/"], "changes": given})
    assert any(said in text for text in flaws(answer).values()), flaws(answer)
