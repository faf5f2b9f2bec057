"""Samples of jobs and of the fleet, thinned out and bounded; charts of them over the API."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from shoal import history
from shoal.core.fleet import WorkerBeat
from shoal.core.history import COARSEST, FINEST, TIERS, Sample, Tier, Window
from shoal.core.model import JobState
from shoal.frontier.scripts import connect
from shoal.store import tables
from shoal.store.history import FLEET, HistoryStore, ItemCount, Taken
from shoal.wiring import redis_urls
from tests.contract.api import Desk, a_desk, flaws, page, refused, some_dead, told
from tests.contract.keyspace import clear
from tests.waiting import wait_until

URL = "http://shop.example/"
HOUR_MS, DAY_MS = 3_600_000, 86_400_000


def _sample(desk: Desk) -> None:
    desk.platform.housekeeper.sampler.sample()


def _sampler(desk: Desk) -> history.Sampler:
    """Of another process."""
    parts = desk.platform
    return history.Sampler(parts.frontier, parts.watch, parts.rebuild, _store(desk), 10_000)


def _store(desk: Desk) -> HistoryStore:
    return HistoryStore(desk.platform.engine)


def _rows(desk: Desk, job: str) -> list[Sample]:
    return _store(desk).read(job, Window(0, 2 * desk.platform.history.now_ms(), FINEST.step_ms))


def _count(desk: Desk) -> int:
    with desk.platform.engine.connect() as connection:
        return connection.execute(sa.select(sa.func.count()).select_from(tables.history)).scalar_one()


def _put(desk: Desk, job: str, *samples: Sample, tier: Tier = COARSEST) -> None:
    _store(desk).write([Taken(job, sample, tier, ItemCount()) for sample in samples])


def _chart(desk: Desk, path: str) -> list[dict[str, Any]]:
    answer = told(desk.get(path))
    assert len(answer["points"]) <= 1_000
    return answer["points"]


def _in_all(points: list[dict[str, Any]], what: str) -> float:
    return sum(point[f"{what}_per_s"] * point["covered_s"] for point in points if point["covered_s"])


def _last(points: list[dict[str, Any]]) -> dict[str, Any]:
    return [point for point in points if point["totals"] is not None][-1]


def _with_item(lease: Any) -> Any:
    return page(lease, item={"title": "x"})


# --- a job -----------------------------------------------------------------------------------------------------------


def test_the_chart_of_a_job_adds_up_to_its_sums(each: Desk) -> None:
    job = each.submit(*(f"{URL}{n}" for n in range(30)))
    _sample(each)
    each.work(_with_item, at_most=10)
    _sample(each)
    each.work(lambda lease: some_dead("/29")(lease) if lease.request.url.target == "/29" else _with_item(lease))
    assert each.state(job) is JobState.FINISHED
    answer = told(each.get(f"jobs/{job}/history"))
    points, view = answer["points"], each.job(job)
    assert (answer["job"], answer["step_s"]) == (job, 5)
    assert [_in_all(points, what) for what in ("pages", "errors", "items")] == pytest.approx([29, 1, 29], abs=0.01)
    assert _in_all(points, "received") == pytest.approx(view["counters"]["received"], rel=0.001)
    assert sum(point["reasons"].get("dead:http_404", 0) * point["covered_s"] for point in points) == pytest.approx(1)
    last = _last(points)
    assert {name: last["totals"][name] for name in ("pages", "errors", "items")} == {
        "pages": 29,
        "errors": 1,
        "items": 29,
    }
    assert [last[place] for place in ("queued", "delayed", "leased")] == [0, 0, 0]


def test_a_job_that_nobody_ever_sampled_has_its_beginning_and_its_end(desk: Desk) -> None:
    job = desk.submit(URL, URL + "2")
    desk.work()
    points = _chart(desk, f"jobs/{job}/history")
    assert _in_all(points, "pages") == pytest.approx(2, abs=0.01)
    assert _last(points)["totals"]["pages"] == 2


def test_a_running_job_is_shown_as_it_stands_now(desk: Desk) -> None:
    job = desk.submit(*(f"{URL}{n}" for n in range(5)))
    _sample(desk)
    desk.work(_with_item, at_most=2)
    last = _last(_chart(desk, f"jobs/{job}/history?since=1m&points=10"))
    assert (last["totals"]["pages"], last["totals"]["items"], last["queued"]) == (2, 2, 3)


def test_items_are_counted_on_whoever_has_sampled_before(each: Desk) -> None:
    job = each.submit(*(f"{URL}{n}" for n in range(9)))
    each.work(_with_item, at_most=4)
    _sample(each)
    another = _sampler(each)
    each.work(_with_item, at_most=3)
    wait_until(lambda: another.sample() or len(_rows(each, job)) == 2)
    assert [sample.counters["items"] for sample in _rows(each, job)] == [4, 7]


def test_a_job_of_another_tenant_has_no_history(desk: Desk) -> None:
    job = desk.submit(URL)
    _, stranger = desk.make_key(tenant="other")
    assert refused(stranger.get(f"jobs/{job}/history"), 404)
    assert refused(stranger.get("jobs/nosuchjob/history"), 404)


def test_a_frontier_that_is_rebuilt_makes_no_negative_rates_and_counts_nothing_twice(each: Desk) -> None:
    each.platform.recovery.look()
    job = each.submit(*(f"{URL}{n}" for n in range(20)))
    each.work(at_most=12)
    _sample(each)
    client = connect(redis_urls(each.platform.settings).frontier)
    clear(client, each.platform.settings.prefix)
    client.close()
    each.platform.recovery.look()
    wait_until(lambda: _sample(each) or len(_rows(each, FLEET)) == 2)
    assert len(_rows(each, job)) == 1  # while its sums are being restored, it is not looked at
    while each.platform.rebuild.places([job]) not in ([""], [None]):
        each.platform.recovery.tick()
    each.work()
    points = _chart(each, f"jobs/{job}/history")
    assert all(point["pages_per_s"] is None or point["pages_per_s"] >= 0 for point in points)
    assert _in_all(points, "pages") == pytest.approx(20, abs=0.01)
    fleet = _chart(each, "stats/history?since=1m")
    assert all(point["pages_per_s"] is None or point["pages_per_s"] >= 0 for point in fleet)


def test_history_goes_with_its_job(each: Desk) -> None:
    job, other = each.submit(URL), each.submit(URL + "2")
    _sample(each)
    each.work()
    assert each.delete(f"jobs/{job}").status_code == 204
    each.platform.housekeeper.tick()
    assert _rows(each, job) == []
    assert len(_rows(each, other)) == 2


# --- the fleet -------------------------------------------------------------------------------------------------------


def test_the_chart_of_the_fleet_has_everything_together(each: Desk) -> None:
    beat = WorkerBeat("w1", ("http.batch",), 3, 2, 1, 100, 1, "0")
    each.platform.frontier.crew.heartbeat(beat)
    each.submit(*(f"{URL}{n}" for n in range(6)))
    each.submit("http://other.example/", lane="high")
    _sample(each)
    each.work(_with_item, at_most=5)
    wait_until(lambda: _sample(each) or len(_rows(each, FLEET)) == 2)
    points = _chart(each, "stats/history?since=10m&points=100")
    assert [_in_all(points, what) for what in ("pages", "items")] == pytest.approx([5, 5], abs=0.01)
    last = _last(points)
    assert (last["queued"], last["queues"]["http.batch"]["queued"]) == (2, 2)  # the urgent one is done
    assert set(last["queues"]) == {
        f"{engine}.{lane}" for engine in ("http", "browser") for lane in ("high", "batch", "slow")
    }
    assert (last["jobs"], last["workers"], last["processes"], last["slices_active"]) == (1, 1, 3, 2)
    assert last["redis_memory_bytes"] > 100_000
    assert sum(last["hosts"].values()) == 2
    assert last["hosts_throttled"] == 0
    assert last["totals"]["received"] == 5 * len(b"<h1>hello</h1>")


def test_an_hour_in_which_nobody_looked_is_shown_as_such(desk: Desk) -> None:
    now = desk.platform.history.now_ms()
    samples = [Sample(now - ago * 60_000, {"pages": 1_000 - ago}, {"queued": 1}) for ago in (122, 121, 120, 2, 1, 0)]
    _put(desk, FLEET, *samples)
    points = _chart(desk, "stats/history?since=2h&points=30")
    known = [point["pages_per_s"] is not None for point in points]
    assert any(known[:2])
    assert known[-1]
    assert not any(known[2:-2])
    assert all(point["queued"] is None and point["hosts"] is None for point in points[2:-2])


def test_a_week_is_shown_in_few_points(desk: Desk) -> None:
    now = desk.platform.history.now_ms()
    step = COARSEST.step_ms
    _put(desk, FLEET, *(Sample(now - ago * step, {"pages": 600 * (1_000 - ago)}) for ago in range(1_000, 0, -1)))
    answer = told(desk.get("stats/history?since=7d&points=200"))
    assert len(answer["points"]) <= 200
    assert answer["step_s"] == 3_600
    rates = [point["pages_per_s"] for point in answer["points"] if point["covered_s"] == 3_600]
    assert len(rates) > 160
    assert rates == pytest.approx([1.0] * len(rates), abs=0.001)


def test_the_history_can_be_read_while_redis_is_away(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    _sample(desk)
    desk.platform.frontier.close_connections()
    away = connect("redis://127.0.0.1:1/0", timeout_s=0.1)
    monkeypatch.setattr(desk.platform.frontier.audit, "_client", away)
    assert _last(_chart(desk, "stats/history"))["jobs"] == 0


@pytest.mark.parametrize(
    ("query", "field"),
    [("since=nonsense", "since"), ("points=1", "points"), ("points=1001", "points"), ("since=1h&until=2h", "")],
)
def test_what_cannot_be_drawn_is_refused(desk: Desk, query: str, field: str) -> None:
    assert list(flaws(desk.get(f"stats/history?{query}"))) == [field]


# --- bounds ----------------------------------------------------------------------------------------------------------


def test_samples_are_thinned_out_with_their_age(each: Desk) -> None:
    now = each.platform.history.now_ms()
    for tier in TIERS:
        _put(each, "j1", Sample(now - tier.kept_ms + 60_000), Sample(now - tier.kept_ms - 60_000), tier=tier)
    assert _store(each).trim(now, 1_000_000) == 3
    assert [now - sample.at_ms for sample in _rows(each, "j1")] == [tier.kept_ms - 60_000 for tier in reversed(TIERS)]


def test_of_too_many_samples_the_oldest_of_the_fullest_tier_go_and_the_fleets_stay(each: Desk) -> None:
    now = each.platform.history.now_ms()
    _put(each, FLEET, *(Sample(now - n) for n in range(10)), tier=FINEST)
    _put(each, "j1", *(Sample(now - n) for n in range(30)), tier=FINEST)
    _put(each, "j2", *(Sample(now - n) for n in range(5)))
    assert _store(each).trim(now + 1, 40) == 5
    assert [len(_rows(each, job)) for job in (FLEET, "j1", "j2")] == [10, 25, 5]
    assert _store(each).trim(now + 1, 40) == 0


def test_the_housekeeping_takes_samples_and_keeps_them_bounded(valkey_url: str, tmp_path: Any) -> None:
    with a_desk(valkey_url, tmp_path, history_rows=5_000) as desk:
        job = desk.submit(URL)
        now = desk.platform.history.now_ms()
        _put(desk, "j1", *(Sample(now - n) for n in range(6_000)))
        desk.platform.housekeeper.tick()
        assert len(_rows(desk, job)) == 1
        assert _count(desk) <= 5_000
        desk.platform.housekeeper.tick()  # not again so soon
        assert len(_rows(desk, FLEET)) == 1


def test_of_many_jobs_each_is_sampled_in_its_turn(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "MAX_FINE_JOBS", 2)
    sampler = _sampler(desk)
    jobs = [desk.submit(f"{URL}{n}") for n in range(5)]
    sampler.sample()  # the first of its minute: all of them
    assert all(len(_rows(desk, job)) == 1 for job in jobs)
    for rounds in (2, 3, 4):
        wait_until(lambda rounds=rounds: sampler.sample() or len(_rows(desk, FLEET)) >= rounds)
    assert all(len(_rows(desk, job)) == 2 for job in jobs)
