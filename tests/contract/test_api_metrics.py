"""What Prometheus reads: everything once, with few labels, and counters that begin at zero or only grow."""

# redis-py's hints leave gaps: what falls into them is unknown to the checker in this file only.
# pyright: reportUnknownMemberType=false
from __future__ import annotations

import os
import signal
from datetime import timedelta
from pathlib import Path
from typing import Any, NoReturn

import pytest
from prometheus_client import parser

from shoal.api import health
from shoal.core.access import Permission
from shoal.core.fleet import WorkerBeat
from shoal.core.model import ALL_QUEUES, Outcome
from shoal.errors import RedisUnavailable
from shoal.frontier.frontier import Frontier
from shoal.frontier.host_change import HostChange
from shoal.frontier.scripts import connect
from shoal.frontier.watch import Watch
from shoal.history import History
from tests import servers
from tests.contract.api import NOW_MS, Desk, a_desk, dead, page, some_dead

URL = "http://shop.example/"
MINUTE = timedelta(minutes=1)


def _samples(desk: Desk) -> dict[str, list[tuple[dict[str, str], float]]]:
    answer = desk.get("/metrics")
    assert answer.headers["Content-Type"].startswith("text/plain")
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    for family in parser.text_string_to_metric_families(answer.get_data(as_text=True)):
        assert family.documentation
        for sample in family.samples:
            found.setdefault(sample.name, []).append((dict(sample.labels), sample.value))
    return found


def test_metrics_tell_what_is_asked_of_them(desk: Desk) -> None:
    desk.platform.frontier.crew.heartbeat(WorkerBeat("one", ALL_QUEUES, 2, 1, 7, 120, NOW_MS, "0.1.0"))
    desk.submit(URL, URL + "2", URL + "3")
    desk.work(some_dead("/2"), at_most=2)
    desk.platform.frontier.lease(queues=ALL_QUEUES, limit=1, lease_for=timedelta())
    desk.platform.frontier.configure_host("held.example", HostChange(hold=MINUTE))
    desk.platform.frontier.reap()
    desk.platform.housekeeper.sampler.sample()
    found = _samples(desk)
    depth = {(labels["queue"], labels["place"]): value for labels, value in found["shoal_queue_urls"]}
    assert len(depth) == 18
    assert depth["http.batch", "queued"] == 1
    outcomes = {(labels["outcome"], labels["reason"]): value for labels, value in found["shoal_outcomes_total"]}
    assert {name: count for name, count in outcomes.items() if count} == {("done", ""): 1, ("dead", "http_404"): 1}
    jobs = {labels["queue"]: value for labels, value in found["shoal_queue_jobs"]}
    assert jobs == {queue: int(queue == "http.batch") for queue in ALL_QUEUES}
    for name, value in (
        ("shoal_redis_up", 1),
        ("shoal_in_flight", 0),
        ("shoal_leases_reaped_total", 1),
        ("shoal_fence_refusals_total", 0),
        ("shoal_slices_total", 0),
        ("shoal_workers", 1),
        ("shoal_worker_processes", 2),
        ("shoal_jobs_living", 1),
        ("shoal_received_bytes_total", len(b"<h1>hello</h1>")),
        ("shoal_redis_memory_limit_bytes", desk.platform.settings.frontier_bytes),
    ):
        assert found[name] == [({}, value)], name
    assert found["shoal_history_age_seconds"][0][1] < 60
    overdue = {labels["queue"]: value for labels, value in found["shoal_queue_overdue_seconds"]}
    assert set(overdue) == set(ALL_QUEUES)
    useful = {labels["queue"]: value for labels, value in found["shoal_workers_useful"]}
    assert useful == {queue: 0.01 if queue == "http.batch" else 0.0 for queue in ALL_QUEUES}
    ((labels, held),) = found["shoal_host_hold_seconds"]
    assert labels == {"host": "held.example"}
    assert 50 < held <= 60
    assert {labels["state"] for labels, _ in found["shoal_hosts"]} == {
        "open",
        "at_cap",
        "slowed",
        "held",
        "tripped",
        "down",
        "paused",
    }
    assert found["shoal_redis_memory_bytes"][0][1] > 0


def test_what_an_alert_compares_is_there_before_anything_was_settled(desk: Desk) -> None:
    """Nobody can see that nothing has grown where there is no series."""
    found = [(labels["outcome"], labels["reason"], value) for labels, value in _samples(desk)["shoal_outcomes_total"]]
    assert sorted(found) == sorted((outcome.value, "", 0) for outcome in Outcome)


def _counted(desk: Desk) -> dict[str, float]:
    found = _samples(desk)
    names = ("shoal_outcomes_total", "shoal_received_bytes_total", "shoal_slices_total", "shoal_outages_total")
    return {name: sum(value for _, value in found[name]) for name in names}


def test_counters_of_a_server_that_was_started_again_begin_at_zero_whatever_it_has_lost(desk: Desk) -> None:
    desk.submit(*(f"{URL}{n}" for n in range(4)))
    desk.work(page, at_most=3)
    for _ in range(5):
        desk.platform.frontier.crew.count_slice()
    before = _counted(desk)
    assert (before["shoal_outcomes_total"], before["shoal_slices_total"]) == (3, 5)
    prefix, client = desk.platform.settings.prefix, connect(f"{desk.platform.settings.redis_url}?db=2")
    client.hset(f"{prefix}:base", "run", "the run before")
    client.hset(f"{prefix}:stats", mapping={"done": 2, "slices": 4})  # the last ones were lost
    client.hincrby(f"{prefix}:outages", "archive", 7)
    assert set(_counted(desk).values()) == {0}
    desk.work(page)
    after = _counted(desk)
    assert (after["shoal_outcomes_total"], after["shoal_slices_total"]) == (1, 0)
    assert desk.platform.watch.stats()["done"] == 3  # which is a sum, and no counter
    assert after == _counted(desk)
    client.delete(f"{prefix}:base", f"{prefix}:stats")  # and where everything is lost, too
    client.hset(f"{prefix}:stats", mapping={"done": 1})
    client.close()
    assert _counted(desk)["shoal_outcomes_total"] == 1


def test_a_redis_that_takes_nothing_new_is_still_measured(desk: Desk) -> None:
    """Its memory is full: that is when people look."""
    desk.submit(URL)
    desk.work(page)
    assert _counted(desk)["shoal_outcomes_total"] == 1
    prefix, client = desk.platform.settings.prefix, connect(f"{desk.platform.settings.redis_url}?db=2")
    client.hset(f"{prefix}:base", "run", "the run before")
    client.config_set("maxmemory", "1")
    try:
        assert _counted(desk)["shoal_outcomes_total"] == 0
        assert _samples(desk)["shoal_redis_up"] == [({}, 1)]
    finally:
        client.config_set("maxmemory", "0")
    assert _counted(desk)["shoal_outcomes_total"] == 0
    assert client.hget(f"{prefix}:base", "run") != "the run before"
    client.close()


def test_a_redis_that_goes_away_in_between_is_away(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(*args: object) -> NoReturn:
        raise RedisUnavailable("it has just gone")

    monkeypatch.setattr(Watch, "hosts", gone)
    found = _samples(desk)
    assert found["shoal_redis_up"] == [({}, 0)]
    assert "shoal_workers" not in found


def test_a_redis_that_hangs_is_away_before_prometheus_gives_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It waits ten seconds for an answer, as long as all others do for Redis."""

    def patient(*args: object) -> NoReturn:
        raise AssertionError("this one would be waited for")

    with servers.running(servers.valkey()) as url, a_desk(url, tmp_path) as desk:
        _, reader = desk.make_key(Permission.ADMIN)
        desk.platform.housekeeper.sampler.sample()
        client = connect(url)
        process = int(client.info("server")["process_id"])
        monkeypatch.setattr(health, "REDIS_PATIENCE_S", 0.2)
        monkeypatch.setattr(Frontier, "throttle", patient)
        monkeypatch.setattr(History, "now_ms", patient)
        os.kill(process, signal.SIGSTOP)
        try:
            text = reader.get("/metrics").get_data(as_text=True)
        finally:
            os.kill(process, signal.SIGCONT)
            client.close()
    assert "shoal_redis_up 0.0" in text
    assert 'shoal_trouble{what="redis"} 1.0' in text


def test_requests_are_counted_by_route_and_not_by_path(desk: Desk) -> None:
    job = desk.submit(URL)
    before = _requests(desk)
    for _ in range(3):
        desk.get(f"jobs/{job}")
        desk.get("jobs/nothing")
    for n in range(20):
        desk.get(f"/nothing/{n}")
        desk.ask(f"METHOD{n}", "/healthz")
        desk.ask(f"METHOD{n}", f"/nothing/{n}")
    after = _requests(desk)
    grown = {key: value - before.get(key, 0) for key, value in after.items() if value != before.get(key, 0)}
    assert grown["GET", "/api/v1/jobs/<job>", "200"] == 3
    assert grown["GET", "/api/v1/jobs/<job>", "404"] == 3
    assert grown["other", "none", "404"] == 40
    assert grown["other", "none", "405"] == 20
    assert not [key for key in after if "METHOD" in key[0] or "nothing" in key[1] or job in key[1]]
    times = {labels["route"]: value for labels, value in _samples(desk)["shoal_api_request_seconds_count"]}
    assert times["/api/v1/jobs/<job>"] >= 6


def _requests(desk: Desk) -> dict[tuple[str, str, str], float]:
    found = _samples(desk).get("shoal_api_requests_total", [])
    return {(labels["method"], labels["route"], labels["status"]): value for labels, value in found}


def test_the_number_of_labels_is_bounded_whatever_the_web_does(desk: Desk) -> None:
    job = desk.submit(*(f"http://h{n}.example/{n}" for n in range(400)))

    def visit(lease: Any) -> Any:
        number = int(lease.request.url.target[1:])
        return dead(lease, f"made_up_{number}") if number % 2 else page(lease)

    desk.work(visit)
    assert desk.job(job)["state"] == "finished"
    for n in range(100):
        desk.platform.frontier.configure_host(f"h{n}.example", HostChange(hold=timedelta(seconds=60 + n)))
    client = connect(f"{desk.platform.settings.redis_url}?db=2")
    client.hset(f"{desk.platform.settings.prefix}:stats", mapping={'dead:"} evil{': 1, "dead:" + "x" * 200: 1})
    client.close()
    found = _samples(desk)
    assert len(found["shoal_outcomes_total"]) <= 200
    assert len(found["shoal_host_hold_seconds"]) == 20
    assert found["shoal_host_hold_seconds"][0][0] == {"host": "h99.example"}
    web = {name: samples for name, samples in found.items() if not name.startswith("shoal_api_")}
    assert len(web) > 20
    assert sum(map(len, web.values())) < 2_000  # the others are counted by route, and come from other tests as well
    assert "evil" not in str(found)
