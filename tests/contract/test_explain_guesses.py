"""What is said about URLs of which nothing was kept, or that wait: no more than is known, and in the order of time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from shoal.core.fleet import WorkerBeat
from shoal.core.ledger import Ask
from shoal.core.model import Candidate, Rejected
from shoal.core.url import parse
from shoal.store import traces
from shoal.worker.result import handed_over
from tests.contract.api import NOW_MS, Desk, Visit, dead, page, told

HOST = "shop.example"
SITE = f"http://{HOST}"
HOUR_MS = 3_600_000


def explain(desk: Desk, job: str, target: str) -> dict[str, Any]:
    url = target if "://" in target else f"{SITE}{target}"
    return told(desk.get(f"jobs/{job}/explain", query_string={"url": url}))


def step(found: dict[str, Any], name: str) -> dict[str, Any]:
    return next(each for each in found["steps"] if each["name"] == name)


def leading_to(*found: Candidate) -> Visit:
    """Every page has these links."""
    return lambda lease: replace(page(lease), candidates=found)


def rejected(targets: Sequence[str], reason: str) -> list[Rejected]:
    return [Rejected(parse(f"{SITE}{target}"), reason) for target in targets]


def test_a_submitted_url_is_not_said_to_be_denied(desk: Desk) -> None:
    """`deny` is about links: what was named fell with the job, although other URLs were denied."""
    job = desk.submit(f"{SITE}/a", f"{SITE}/deny/named", follow=True, deny=["/deny/"])
    desk.work(leading_to(*rejected(["/deny/linked"], "denied")), at_most=1)
    told(desk.post(f"jobs/{job}/cancel"))
    found = explain(desk, job, "/deny/named")
    assert (found["verdict"], found["certain"]) == ("dropped", True), found
    assert "denied" not in str(found)


def test_a_submitted_url_that_allow_does_not_match_fell_to_the_budget(desk: Desk) -> None:
    job = desk.submit(f"{SITE}/a", f"{SITE}/b", follow=True, allow=["/books/"], pages=1)
    desk.work(leading_to(*rejected(["/c"], "not_allowed")))
    found = explain(desk, job, "/b")
    assert (found["verdict"], found["certain"]) == ("filtered", True), found
    assert "beyond the budget pages: 1 (1 URL was left out as over_budget)" in found["summary"]


def test_a_url_whose_link_was_denied_before_it_was_sent_is_told_so(desk: Desk) -> None:
    job = desk.submit(f"{SITE}/a", f"{SITE}/b", follow=True, open=True, hosts=[HOST], deny=["/deny/"])
    desk.work(leading_to(*rejected(["/deny/1"], "denied")), at_most=1)
    assert told(desk.send(job, f"{SITE}/deny/1\n{SITE}/deny/2\n"))["seen"] == 1
    late, taken = (explain(desk, job, f"/deny/{number}") for number in (1, 2))
    assert (late["verdict"], taken["verdict"]) == ("filtered", "queued")
    assert late["summary"].startswith("a link to it was filtered by deny: /deny/ before it was submitted")


def test_after_the_end_a_rule_claims_no_url_that_it_may_never_have_met(desk: Desk) -> None:
    """The count is that of all patterns together, and is told as such; what was met is told while it is known."""
    job = desk.submit(f"{SITE}/a", f"{SITE}/b", follow=True, deny=["/deny/", "/never/"])
    desk.work(leading_to(*rejected(["/deny/1", "/deny/2"], "denied")), at_most=1)
    living = [explain(desk, job, target) for target in ("/deny/1", "/never/1")]
    assert [(each["verdict"], each["certain"]) for each in living] == [("filtered", True), ("never_seen", True)]
    desk.work()
    ended = explain(desk, job, "/never/1")
    assert (ended["verdict"], ended["certain"]) == ("filtered", False)
    assert ended["summary"] == (
        "if it was met at all, which is not kept: filtered by deny: /never/ "
        "(2 URLs were left out as denied, by whichever rule)"
    )


def test_what_may_have_fallen_to_a_budget_is_told_with_what_else_stood_against_it(desk: Desk) -> None:
    job = desk.submit(f"{SITE}/a", f"{SITE}/b", follow=True, depth=2, pages=1, robots=False)
    desk.work()
    found = explain(desk, job, "/somewhere")
    assert (found["verdict"], found["certain"]) == ("filtered", False)
    assert found["summary"].startswith("if it was met at all, which is not kept: left out beyond the budget pages: 1")
    assert "robots: false" in step(found, "robots")["reason"]
    assert "up to depth 2" in step(found, "depth")["reason"]


def test_a_job_that_goes_nowhere_has_met_what_was_submitted_and_no_more(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That is known after its end too, unless there is more of it than is looked through."""
    job = desk.submit(f"{SITE}/a", f"{SITE}/b", pages=1)
    desk.work()
    found = explain(desk, job, "/somewhere")
    assert (found["verdict"], found["certain"]) == ("never_seen", True), found
    dropped = desk.submit(f"{SITE}/a", f"{SITE}/b")
    told(desk.post(f"jobs/{dropped}/cancel"))
    found = explain(desk, dropped, "/somewhere")
    assert (found["verdict"], found["certain"]) == ("never_seen", True), found
    monkeypatch.setattr(traces, "MOST_SUBMISSIONS", 0)
    assert explain(desk, job, "/somewhere")["certain"] is False


def test_a_replay_stands_between_the_requests_before_it_and_behind_it(desk: Desk) -> None:
    job = desk.submit(f"{SITE}/fickle")
    desk.work(dead)
    assert told(desk.post(f"jobs/{job}/dead/replay", {})) == {"replayed": 1}
    before, later = (desk.platform.history.now_ms() + way * HOUR_MS for way in (-1, 1))
    desk.work(lambda lease: page(lease, fetched_ms=later))
    first = Ask(before, HOST, job, f"{SITE}/fickle", 404)
    with desk.platform.engine.begin() as connection:
        desk.platform.ledger.write(connection, [first, replace(first, at_ms=later, status=200)])
    names = [each["name"] for each in explain(desk, job, "/fickle")["steps"]]
    assert names[:5] == ["submitted", "asked", "replayed", "asked", "fetched"]


def test_a_page_for_the_browser_is_told_that_nobody_serves_its_queue(desk: Desk) -> None:
    """The worker that serves the rest of an `auto` job has asked for it, and will not again."""
    job = desk.submit(f"{SITE}/app", engine="auto")
    beat = WorkerBeat("w1", ("http.batch",), 1, 0, 0, 0, NOW_MS, "0")
    desk.platform.frontier.crew.heartbeat(beat, timedelta(minutes=1))
    desk.work(lambda lease: handed_over(lease, "needs_browser"), at_most=1)
    found = explain(desk, job, "/app")
    assert found["verdict"] in ("queued", "delayed")
    assert step(found, "worker")["detail"] == {"queue": "browser.batch"}


def test_what_an_open_job_would_refuse_is_not_offered(desk: Desk) -> None:
    """`shoal add` takes what `deny` is against, but no other host; and a shell reads a URL as one word."""
    job = desk.submit(f"{SITE}/a", follow=True, open=True, hosts=[HOST], deny=["/deny/"])
    assert step(explain(desk, job, "/deny/1?x=1&y=$(id)"), "open")["reason"].endswith(
        f"shoal add {job} '{SITE}/deny/1?x=1&y=$(id)'"
    )
    elsewhere = explain(desk, job, "http://other.example/")
    assert [each["name"] for each in elsewhere["steps"]] == ["filtered"]


def test_a_redirect_to_what_has_no_page_says_how_to_ask(desk: Desk) -> None:
    job = desk.submit(f"{SITE}/go", f"{SITE}/stays")
    target = f"{SITE}/to?a=1&b=2"
    desk.work(lambda lease: page(lease, status=302, redirect=target), at_most=1)
    found = explain(desk, job, "/go")
    assert found["verdict"] == "redirected"
    assert step(found, "target")["reason"] == (f"{target}, which has no page: shoal explain {job} '{target}' tells why")
