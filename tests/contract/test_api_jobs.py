"""Jobs after their submission: shown, listed, changed, paused, ended, deleted."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from shoal.core.fleet import WorkerBeat
from shoal.core.manners import Manners, Signal
from shoal.core.model import ALL_QUEUES, JobState, Lease, Outcome, Settlement
from shoal.frontier.frontier import Frontier
from shoal.frontier.host_change import HostChange
from shoal.frontier.scripts import connect
from shoal.store import tables
from shoal.wiring import redis_urls
from tests.contract.api import Desk, dead, flaws, page, refused, some_dead, told
from tests.contract.keyspace import key_names
from tests.waiting import wait_until

URL = "http://shop.example/"
MINUTE = timedelta(minutes=1)


def _names(desk: Desk, query: str = "") -> list[str]:
    return [job["name"] for job in desk.rows(f"jobs?{query}" if query else "jobs")]


def _iso(at: datetime) -> str:
    return at.isoformat().replace("+", "%2B")


# --- shown -----------------------------------------------------------------------------------------------------------


def test_a_running_job_shows_its_sums_rate_and_errors(desk: Desk) -> None:
    job = desk.submit(*(f"{URL}{n}" for n in range(20)))
    desk.work(some_dead("/1", "/3"), at_most=10)
    shown = desk.job(job)
    counters = shown["counters"]
    assert (counters["queued"], counters["done"], counters["dead"]) == (10, 8, 2)
    assert (shown["pages"], shown["pending"], shown["reconciles"]) == (8, 10, True)
    assert shown["errors"] == {"http_404": 2}
    assert shown["rate"] > 0
    assert shown["eta_seconds"] > 0
    assert (shown["started_at"] is None, shown["ended_at"]) == (False, None)


def test_a_job_that_waits_for_its_hosts_names_three_of_them_with_their_reasons(desk: Desk) -> None:
    platform = desk.platform
    platform.frontier.crew.heartbeat(WorkerBeat("one", ("http.batch",), 1, 0, 0, 1, 1, "0.1.0"))
    held, paused = [f"http://held{n}.example/" for n in range(3)], "http://paused.example/"
    job = desk.submit(paused, *held)
    platform.hosts.set("paused.example", HostChange(paused=True))
    for n in range(3):
        platform.hosts.set(f"held{n}.example", HostChange(hold=timedelta(hours=1 + n)))
    assert not platform.frontier.lease(queues=ALL_QUEUES, limit=10, lease_for=MINUTE).leases
    first, second, third = desk.job(job)["waiting_for"].split("; ")
    assert first == "paused.example: paused by an operator"
    assert re.fullmatch(r"held2\.example: held until 20\d\d-\d\d-\d\d \d\d:\d\d:\d\d UTC", second)
    assert third.startswith("held1.example: held until")
    platform.hosts.set("held0.example", HostChange(hold=timedelta()))
    (lease,) = platform.frontier.lease(queues=ALL_QUEUES, limit=10, lease_for=MINUTE).leases
    assert desk.job(job)["waiting_for"] is None
    platform.frontier.release([lease])


def test_a_job_whose_domain_is_paused_says_so(desk: Desk) -> None:
    platform = desk.platform
    platform.frontier.crew.heartbeat(WorkerBeat("one", ("http.batch",), 1, 0, 0, 1, 1, "0.1.0"))
    careful = Frontier.at(redis_urls(platform.settings).frontier, platform.settings.prefix, Manners(by_domain=True))
    job = desk.submit("http://a.shop.example/", "http://b.shop.example/")
    for _ in range(2):
        for held in careful.lease(queues=ALL_QUEUES, limit=10, lease_for=MINUTE).leases:
            careful.meet(held, "", "shop.example")
    platform.hosts.set("@shop.example", HostChange(paused=True))
    assert not careful.lease(queues=ALL_QUEUES, limit=10, lease_for=MINUTE).leases
    assert desk.job(job)["waiting_for"] == "@shop.example: paused by an operator"
    careful.close_connections()


def test_a_job_whose_host_cannot_be_reached_says_so(desk: Desk) -> None:
    frontier = desk.platform.frontier
    frontier.crew.heartbeat(WorkerBeat("one", ("http.batch",), 1, 0, 0, 1, 1, "0.1.0"))
    job = desk.submit(*(f"{URL}{n}" for n in range(20)), rate="unlimited", parallel=10)
    leases = frontier.lease(queues=ALL_QUEUES, limit=10, lease_for=MINUTE).leases
    frontier.settle([Settlement(each, Outcome.RETRY, "connect_refused", MINUTE, signal=Signal.DOWN) for each in leases])
    assert not frontier.lease(queues=ALL_QUEUES, limit=10, lease_for=MINUTE).leases
    assert desk.job(job)["waiting_for"].startswith(
        "shop.example: it could not be reached; the next probe is sent at 20"
    )


def test_a_job_that_nobody_works_for_says_so(desk: Desk) -> None:
    job = desk.submit(URL, lane="slow")
    assert desk.job(job)["waiting_for"] == "no worker serves http.slow"
    beat = WorkerBeat("one", ("http.slow",), 1, 0, 0, 1, 1, "0.1.0")
    desk.platform.frontier.crew.heartbeat(beat)
    assert desk.job(job)["waiting_for"] is None
    desk.platform.frontier.crew.depart("one")
    told(desk.post(f"jobs/{job}/pause"))
    assert desk.job(job)["waiting_for"] is None


def test_errors_are_what_ended_without_a_page_and_reasons_are_all(desk: Desk) -> None:
    job = desk.submit(URL, URL + "robots", URL + "gone")

    def visit(lease: Any) -> Any:
        target = lease.request.url.target
        if target == "/robots":
            return dead(lease, "robots_disallowed", Outcome.ROBOTS)
        return dead(lease, "http_410") if target == "/gone" else page(lease)

    desk.work(visit)
    shown = desk.job(job)
    assert shown["errors"] == {"robots_disallowed": 1, "http_410": 1}
    assert shown["reasons"] == {"robots:robots_disallowed": 1, "dead:http_410": 1}


def test_a_job_that_redis_has_lost_is_still_shown(desk: Desk) -> None:
    job = desk.submit(URL)
    client = connect(redis_urls(desk.platform.settings).frontier)
    client.delete(*key_names(client, desk.platform.settings.prefix))
    client.close()
    shown = desk.job(job)
    assert (shown["state"], shown["counters"]) == ("running", None)


@pytest.mark.parametrize("job", ["nothing2345", "x", "9" * 40])
def test_a_job_that_does_not_exist_is_not_found(desk: Desk, job: str) -> None:
    for path in ("", "/pages", "/items", "/errors", "/dead", "/export", "/events"):
        assert job in refused(desk.get(f"jobs/{job}{path}"), 404)["detail"]
    for path in ("pause", "resume", "cancel", "close"):
        refused(desk.post(f"jobs/{job}/{path}"), 404)
    refused(desk.post(f"jobs/{job}/dead/replay", {}), 404)
    refused(desk.send(job, URL), 404)
    refused(desk.patch(f"jobs/{job}", {"rate": 1}), 404)
    refused(desk.delete(f"jobs/{job}"), 404)


@pytest.mark.parametrize("job", ["A", "a-b", "a%00b", "a%20b", "%2e%2e", "x" * 41, "%C3%A9", "a'b"])
def test_what_cannot_be_a_job_is_no_job(desk: Desk, job: str) -> None:
    refused(desk.get(f"jobs/{job}"), 404)
    refused(desk.post(f"jobs/{job}/cancel"), 404)


# --- listed ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def shelf(each: Desk) -> Desk:
    """Jobs of every kind."""
    each.submit(URL, name="finished", labels=["books", "a.b"])
    each.work()
    each.submit(URL, name="cancelled", lane="slow", labels=["books"])
    told(each.post(f"jobs/{next(iter(each.rows('jobs')))['id']}/cancel"))
    paused = each.submit(URL, name="paused", lane="high", labels=["aXb"])
    told(each.post(f"jobs/{paused}/pause"))
    each.submit(URL, name="running")
    return each


def test_jobs_are_listed_newest_first_and_filtered(shelf: Desk) -> None:
    assert _names(shelf) == ["running", "paused", "cancelled", "finished"]
    for state in JobState:
        assert _names(shelf, f"state={state.value}") == [state.value]
    assert _names(shelf, "lane=high") == ["paused"]
    assert _names(shelf, "lane=batch") == ["running", "finished"]
    assert _names(shelf, "label=books") == ["cancelled", "finished"]
    assert _names(shelf, "label=books&lane=slow&state=cancelled") == ["cancelled"]
    assert _names(shelf, "label=books&state=running") == []


def test_signs_in_a_label_stand_for_themselves(shelf: Desk) -> None:
    assert _names(shelf, "label=a.b") == ["finished"]
    assert _names(shelf, "label=a_b") == []
    assert _names(shelf, "label=book") == []
    assert list(flaws(shelf.get("jobs?label=a%25"))) == ["label"]


def test_jobs_are_listed_by_time(shelf: Desk) -> None:
    now = datetime.now(UTC)
    assert len(_names(shelf, f"since={_iso(now - MINUTE)}")) == 4
    assert _names(shelf, f"since={_iso(now + MINUTE)}") == []
    assert len(_names(shelf, f"until={_iso(now + MINUTE)}")) == 4
    assert _names(shelf, f"until={_iso(now - MINUTE)}") == []
    second = list(shelf.rows("jobs"))[1]["created_at"].replace("+", "%2B")
    assert _names(shelf, f"since={second}") == ["running", "paused"]
    assert _names(shelf, f"until={second}") == ["cancelled", "finished"]


@pytest.mark.parametrize(
    ("time", "fits"),
    [
        ("2020-01-01", True),
        ("2020-01-01T00:00", True),
        ("2020-01-01T00:00:00Z", True),
        ("2020-01-01T00:00:00.5%2B02:00", True),
        ("0001-01-01T00:00:00%2B23:59", True),
        ("yesterday", False),
        ("1700000000", False),
        ("", False),
        ("2020-13-01", False),
    ],
)
def test_a_time_is_iso_or_explained(desk: Desk, time: str, fits: bool) -> None:
    for name in ("since", "until"):
        answer = desk.get(f"jobs?{name}={time}")
        if fits:
            told(answer)
        else:
            assert list(flaws(answer)) == [name]


def test_a_cursor_goes_through_all_jobs_once(each: Desk) -> None:
    made = [each.submit(URL, name=f"{n}") for n in range(23)]
    with each.platform.engine.begin() as connection:  # several of the same millisecond
        connection.execute(sa.update(tables.jobs).values(created_ms=tables.jobs.c.created_ms / 1000 * 1000))
    seen = [job["id"] for job in each.rows("jobs", limit=5)]
    assert len(seen) == 23
    assert set(seen) == set(made)


def test_new_jobs_do_not_move_the_pages_of_a_list(each: Desk) -> None:
    made = [each.submit(URL) for _ in range(6)]
    first = told(each.get("jobs?limit=3"))
    for _ in range(3):
        each.submit(URL)
    second = told(each.get(f"jobs?limit=3&cursor={first['cursor']}"))
    assert [job["id"] for job in (*first["data"], *second["data"])] == made[::-1]
    assert second["more"] is False


@pytest.mark.parametrize(
    "cursor", ["x", "!!", "é", "WzFd", "W10", "bnVsbA", "eyJhIjoxfQ", "WzEsMl0", "WyJhIiwxXQ", "=", "A" * 501]
)
def test_a_cursor_that_was_never_given_is_refused(desk: Desk, cursor: str) -> None:
    for path in ("jobs", "hosts"):
        assert list(flaws(desk.get(f"{path}?cursor={cursor}"))) == ["cursor"]


@pytest.mark.parametrize(
    ("query", "field"),
    [("limit=0", "limit"), ("limit=1001", "limit"), ("limit=x", "limit"), ("state=done", "state"), ("lane=x", "lane")],
)
def test_a_filter_that_cannot_be_is_named(desk: Desk, query: str, field: str) -> None:
    assert list(flaws(desk.get(f"jobs?{query}"))) == [field]


def test_an_unknown_filter_is_named_with_what_was_meant(desk: Desk) -> None:
    assert flaws(desk.get("jobs?limt=5")) == {"limt": "there is no such setting; did you mean 'limit'?"}


# --- found and sorted ------------------------------------------------------------------------------------------------


def test_jobs_are_found_by_parts_of_names_ids_and_labels(shelf: Desk) -> None:
    assert _names(shelf, "find=NISH") == ["finished"]
    assert _names(shelf, "find=ooks") == ["cancelled", "finished"]
    assert _names(shelf, "find=i") == ["running", "finished"]  # a letter that no id has
    assert _names(shelf, "find=i&state=running") == ["running"]
    newest = next(iter(shelf.rows("jobs")))
    assert _names(shelf, f"find={newest['id'][3:]}") == [newest["name"]]
    for sign in ("%25", "_", "%5C", "'"):
        assert _names(shelf, f"find={sign}") == []
    assert list(flaws(shelf.get(f"jobs?find={'x' * 201}"))) == ["find"]


@pytest.fixture
def ranks(each: Desk) -> Desk:
    """Jobs that differ in everything that they can be sorted by; two have ended, two live."""
    for name, count, bad in (("b", 3, 1), ("d", 5, 0)):
        each.submit(*(f"{URL}{name}/{n}" for n in range(count)), name=name)
        each.work(some_dead(*(f"{name}/{n}" for n in range(bad))))
    each.submit(*(f"{URL}c/{n}" for n in range(9)), name="c")
    each.work(some_dead("c/0", "c/1", "c/2"), at_most=7)
    each.submit(URL, f"{URL}a", name="a")
    return each


@pytest.mark.parametrize(
    ("sort", "names"),
    [
        ("created", "acdb"),
        ("name", "dcba"),
        ("state", "acdb"),
        ("pages", "dcba"),
        ("errors", "cbad"),
        ("pending", "acdb"),
        ("progress", "dbca"),
        ("rate", None),
        ("eta", None),
    ],
)
def test_jobs_are_sorted_over_all_of_them_and_read_page_by_page(ranks: Desk, sort: str, names: str | None) -> None:
    for order in ("desc", "asc"):
        found = "".join(job["name"] for job in ranks.rows(f"jobs?sort={sort}&order={order}", limit=1))
        assert sorted(found) == [*"abcd"], "each once"
        assert found == "".join(job["name"] for job in ranks.rows(f"jobs?sort={sort}&order={order}"))
        if names:
            assert found == (names if order == "desc" else names[::-1])
    assert [*_names(ranks, f"sort={sort}&state=running")] != []


def test_who_has_no_time_left_to_tell_comes_last(ranks: Desk) -> None:
    for order in ("asc", "desc"):
        told_times = [job["eta_seconds"] for job in ranks.rows(f"jobs?sort=eta&order={order}")]
        known = [time for time in told_times if time is not None]
        assert told_times[: len(known)] == sorted(known, reverse=order == "desc")


def test_a_cursor_belongs_to_its_order(ranks: Desk) -> None:
    place = told(ranks.get("jobs?sort=name&limit=1"))["cursor"]
    for other in ("sort=state", "sort=name&order=asc", "sort=pages", ""):
        assert list(flaws(ranks.get(f"jobs?{other}&cursor={place}"))) == ["cursor"]
    name = "ü" * 200
    ranks.submit(URL, name=name)
    place = told(ranks.get("jobs?sort=name&limit=1"))["cursor"]
    assert told(ranks.get(f"jobs?sort=name&limit=1&cursor={place}"))["data"][0]["name"] == "d"


# --- changed ---------------------------------------------------------------------------------------------------------


def test_a_running_job_can_be_changed(each: Desk) -> None:
    job = each.submit(*(f"{URL}{n}" for n in range(5)), rate="1/m", name="slow")
    assert len(each.work()) == 1
    change = {"rate": "unlimited", "lane": "high", "name": "quick", "labels": ["now"], "weight": 2.5, "parallel": 7}
    shown = told(each.patch(f"jobs/{job}", change))
    assert (shown["name"], shown["lane"], shown["labels"]) == ("quick", "high", ["now"])
    assert {name: shown["spec"][name] for name in ("rate", "weight", "parallel")} == {
        "rate": "unlimited",
        "weight": 2.5,
        "parallel": 7,
    }
    assert each.rings[-1][0] == "http.high"
    assert _names(each, "lane=high&label=now") == ["quick"]
    leases: list[Lease] = []

    def leased() -> bool:
        leases.extend(each.platform.frontier.lease(queues=["http.high"], limit=10, lease_for=MINUTE).leases)
        return bool(leases)

    wait_until(leased)
    assert len(leases) == 4


def test_a_change_leaves_everything_else_alone(each: Desk) -> None:
    job = each.submit(URL, rate=2, parallel=3, pages=9, fields={"t": "h1"}, headers={"Cookie": "a=b"}, depth=4)
    before = each.job(job)["spec"]
    assert told(each.patch(f"jobs/{job}", {}))["spec"] == before
    assert told(each.patch(f"jobs/{job}", {"rate": 5}))["spec"] == {**before, "rate": 5.0}
    assert told(each.patch(f"jobs/{job}", {"parallel": None, "pages": None}))["spec"] == {
        **before,
        "rate": 5.0,
        "parallel": None,
        "pages": None,
    }
    row = each.platform.jobs.get(job)
    assert row is not None
    assert row.spec.headers == {"Cookie": "a=b"}


def test_a_page_budget_can_be_raised(desk: Desk) -> None:
    job = desk.submit(*(f"{URL}{n}" for n in range(5)), pages=2, open=True)
    assert desk.job(job)["counters"]["filtered"] == 3
    told(desk.patch(f"jobs/{job}", {"pages": 4}))
    assert told(desk.send(job, f"{URL}a\n{URL}b\n{URL}c"))["accepted"] == 2


def test_a_rate_can_be_taken_back_to_what_robots_txt_or_the_default_says(each: Desk) -> None:
    job = each.submit(URL, rate=2)
    assert told(each.patch(f"jobs/{job}", {"rate": None}))["spec"]["rate"] is None


def test_every_budget_can_be_changed_and_taken_back(each: Desk) -> None:
    job = each.submit(URL)
    budgets = {"bytes": "500MB", "seconds": "2h", "host_pages": 7, "host_bytes": 1_000, "host_seconds": 90}
    shown = told(each.patch(f"jobs/{job}", budgets))["spec"]
    assert {name: shown[name] for name in budgets} == {
        "bytes": 500_000_000,
        "seconds": 7200.0,
        "host_pages": 7,
        "host_bytes": 1_000,
        "host_seconds": 90.0,
    }
    shown = told(each.patch(f"jobs/{job}", dict.fromkeys(budgets)))["spec"]
    assert {shown[name] for name in budgets} == {None}


@pytest.mark.parametrize(
    ("budget", "little", "reason"),
    [
        ("bytes", 1, "over_bytes"),
        ("seconds", 0.001, "over_seconds"),
        ("host_bytes", 1, "over_host_bytes"),
        ("host_seconds", 0.001, "over_host_seconds"),
    ],
)
def test_a_budget_set_while_a_job_runs_ends_what_waits(desk: Desk, budget: str, little: float, reason: str) -> None:
    """A host's budgets count from the moment when they are set."""
    job = desk.submit(*(f"{URL}{n}" for n in range(8)), rate="unlimited", **{budget: 1_000})
    assert len(desk.work(at_most=2)) == 2
    told(desk.patch(f"jobs/{job}", {budget: little}))
    wait_until(lambda: desk.work() == [] and desk.state(job) is JobState.FINISHED)
    shown = desk.job(job)
    assert (shown["pages"], shown["counters"]["dropped"], shown["reconciles"]) == (2, 6, True)
    assert shown["reasons"] == {f"filtered:{reason}": 6}


def test_a_job_that_has_got_more_of_its_budget_takes_urls_again(desk: Desk) -> None:
    job = desk.submit(*(f"{URL}{n}" for n in range(3)), open=True, host_pages=2)
    assert desk.job(job)["counters"]["filtered"] == 1
    told(desk.patch(f"jobs/{job}", {"host_pages": 4}))
    assert told(desk.send(job, f"{URL}a\n{URL}b\n{URL}c"))["accepted"] == 2


def test_a_change_that_cannot_be_is_refused_whole(desk: Desk) -> None:
    job = desk.submit(URL, rate=2)
    found = flaws(
        desk.patch(
            f"jobs/{job}",
            {"rate": -1, "lanes": "high", "pages": 0, "follow": True, "name": "x" * 201}
            | {
                "bytes": "many",
                "seconds": 0,
                "host_pages": 2**53,
                "host_bytes": -1,
                "host_seconds": "soon",
                "weight": 0,
            },
        )
    )
    assert set(found) == {
        *("rate", "lanes", "pages", "follow", "name"),
        *("bytes", "seconds", "host_pages", "host_bytes", "host_seconds", "weight"),
    }
    assert found["lanes"] == "there is no such setting; did you mean 'lane'?"
    assert found["follow"] == "this can be set only when a job is submitted"
    assert desk.job(job)["spec"]["rate"] == 2


def test_an_ended_job_keeps_its_limits_and_may_be_renamed(each: Desk) -> None:
    job = each.submit(URL)
    each.work()
    assert "finished" in refused(each.patch(f"jobs/{job}", {"rate": 1}), 409)["detail"]
    assert told(each.patch(f"jobs/{job}", {"name": "later", "labels": ["old"]}))["name"] == "later"
    assert each.state(job) is JobState.FINISHED


# --- paused, resumed, closed, cancelled ------------------------------------------------------------------------------


def test_a_paused_job_hands_out_nothing_until_it_is_resumed(each: Desk) -> None:
    job = each.submit(URL)
    assert told(each.post(f"jobs/{job}/pause"))["state"] == "paused"
    assert told(each.post(f"jobs/{job}/pause"))["state"] == "paused"
    assert each.work() == []
    rings = len(each.rings)
    assert told(each.post(f"jobs/{job}/resume"))["state"] == "running"
    assert len(each.rings) > rings
    assert each.work() == [URL]
    assert each.state(job) is JobState.FINISHED


def test_a_cancelled_job_drops_what_waits_and_keeps_what_it_has(each: Desk) -> None:
    job = each.submit(*(f"{URL}{n}" for n in range(10)))
    each.work(at_most=4)
    shown = told(each.post(f"jobs/{job}/cancel"))
    assert (shown["state"], shown["pages"], shown["counters"]["dropped"]) == ("cancelled", 4, 6)
    assert shown["reconciles"]
    assert len(list(each.rows(f"jobs/{job}/pages"))) == 4
    assert each.work() == []
    assert told(each.post(f"jobs/{job}/cancel"))["state"] == "cancelled"


def test_an_ended_job_stays_ended_whatever_is_asked(each: Desk) -> None:
    job = each.submit(URL)
    each.work()
    for action in ("cancel", "close"):
        assert told(each.post(f"jobs/{job}/{action}"))["state"] == "finished"
    for action in ("pause", "resume"):
        assert "finished" in refused(each.post(f"jobs/{job}/{action}"), 409)["detail"]
    assert each.platform.frontier.known_jobs() == []


def test_an_open_job_waits_until_it_is_closed(each: Desk) -> None:
    job = each.submit(URL, open=True)
    each.work()
    assert (each.job(job)["state"], each.job(job)["open"]) == ("running", True)
    told(each.send(job, URL + "2"))
    each.work()
    shown = told(each.post(f"jobs/{job}/close"))
    assert (shown["state"], shown["open"], shown["pages"]) == ("finished", False, 2)


def test_closing_a_job_with_work_lets_it_finish(each: Desk) -> None:
    job = each.submit(URL, open=True)
    shown = told(each.post(f"jobs/{job}/close"))
    assert (shown["state"], shown["open"]) == ("running", False)
    each.work()
    assert each.state(job) is JobState.FINISHED


# --- deleted ---------------------------------------------------------------------------------------------------------


def test_a_deleted_job_is_gone_at_once_and_its_data_soon(each: Desk) -> None:
    other = each.submit(URL + "other")
    job = each.submit(*(f"{URL}{n}" for n in range(6)), fields={"t": "h1"})
    each.work(lambda lease: dead(lease) if lease.request.url.target == "/1" else page(lease, item={"t": "x"}))
    page_id = next(iter(each.rows(f"jobs/{job}/pages")))["id"]
    each.archive.close()
    answer = each.delete(f"jobs/{job}")
    assert (answer.status_code, answer.get_data()) == (204, b"")
    refused(each.get(f"jobs/{job}"), 404)
    refused(each.get(f"pages/{page_id}/body"), 404)
    refused(each.delete(f"jobs/{job}"), 404)
    assert [row["id"] for row in each.rows("jobs")] == [other]
    assert _rows(each, job) > 6
    each.platform.housekeeper.tick()
    assert _rows(each, job) == 0
    assert [path.name for path in each.platform.settings.archive_path.glob("[!.]*")] == [other]
    assert not [key for key in _keys(each) if job in key]
    assert len(list(each.rows(f"jobs/{other}/pages"))) == 1


def test_a_running_job_can_be_deleted_and_is_removed_when_no_worker_holds_it(each: Desk) -> None:
    job = each.submit(*(f"{URL}{n}" for n in range(6)))
    held = each.platform.frontier.lease(queues=ALL_QUEUES, limit=2, lease_for=MINUTE).leases
    assert each.delete(f"jobs/{job}").status_code == 204
    each.platform.housekeeper.tick()
    assert _rows(each, job) > 0  # a worker may still store the pages that it holds
    each.platform.frontier.settle([Settlement(lease, Outcome.DONE) for lease in held])
    each.platform.housekeeper.tick()
    assert _rows(each, job) == 0
    assert not [key for key in _keys(each) if job in key]
    assert each.work() == []


def _rows(desk: Desk, job: str) -> int:
    """Over all tables."""
    others = (tables.pages, tables.items, tables.dead_letters, tables.submissions, tables.idempotency)
    mine = [tables.jobs.c.id == job, *(table.c.job == job for table in others)]
    with desk.platform.engine.connect() as connection:
        return sum(connection.execute(sa.select(sa.func.count()).where(part)).scalar_one() for part in mine)


def _keys(desk: Desk) -> list[str]:
    client = connect(redis_urls(desk.platform.settings).frontier)
    names = key_names(client, desk.platform.settings.prefix)
    client.close()
    return names
