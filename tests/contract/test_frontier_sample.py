"""A sample of the hosts that have work: what each allows, as a lease would treat it, and how many it stands for."""

from __future__ import annotations

from datetime import timedelta

import pytest
import redis

from shoal.core.advice import QueueSample, SampledHost
from shoal.core.manners import Signal
from shoal.core.model import ALL_QUEUES, Engine, Lane, Outcome, Request
from shoal.core.url import Url
from shoal.frontier.frontier import Frontier
from shoal.frontier.host_change import HostChange
from shoal.frontier.watch import SAMPLED_HOSTS, Watch
from tests.contract.frontier_calls import MINUTE, SOON, lease, pages, settle, start
from tests.contract.keyspace import read_keys

HOUR = timedelta(hours=1)


def sampled(watch: Watch, queue: str = "http.batch") -> dict[str, SampledHost]:
    """Bucket → host."""
    return {host.bucket: host for host in _sample(watch, queue).hosts}


def _sample(watch: Watch, queue: str = "http.batch") -> QueueSample:
    return dict(zip(ALL_QUEUES, watch.samples(), strict=True))[queue]


def test_an_empty_frontier_has_nobody_to_show(frontier: Frontier, watch: Watch) -> None:
    assert watch.samples() == [QueueSample(queue) for queue in ALL_QUEUES]


def test_hosts_show_what_waits_and_whose_limits_hold(frontier: Frontier, watch: Watch) -> None:
    start(frontier, "free", pages("free.test", 3), parallel="unlimited")
    start(frontier, "kept", [*pages("a.test", 7), *pages("set.test", 2)], rate=2.5, parallel=3)
    frontier.configure_host("set.test", HostChange(rate=9.0, parallel=1))
    found = sampled(watch)
    assert found["free.test"] == SampledHost(1.0, 3, 0.0, 0, bucket="free.test")
    assert found["a.test"] == SampledHost(1.0, 7, 2.5, 3, bucket="a.test")
    assert found["set.test"] == SampledHost(1.0, 2, 9.0, 1, bucket="set.test")
    assert len(found) == 3


def test_what_was_learnt_of_a_host_counts(frontier: Frontier, watch: Watch) -> None:
    start(frontier, "job", pages("a.test", 20), rate=8.0)
    settle(frontier, lease(frontier, 1), latency=timedelta(milliseconds=400))
    assert sampled(watch)["a.test"].latency_ms == 400
    assert sampled(watch)["a.test"].waiting == 19


def test_each_queue_has_the_hosts_that_it_is_served_from(frontier: Frontier, watch: Watch) -> None:
    start(frontier, "urgent", pages("a.test", 1), lane=Lane.HIGH)
    both = [*pages("b.test", 2), Request(Url("https", "b.test", "/shown"), render=True)]
    start(frontier, "auto", both, engine=Engine.AUTO)
    start(frontier, "shown", pages("c.test", 4), engine=Engine.BROWSER, lane=Lane.SLOW)
    found = {sample.queue: {host.bucket: host.waiting for host in sample.hosts} for sample in watch.samples()}
    assert found == {
        "http.high": {"a.test": 1},
        "browser.high": {},
        "http.batch": {"b.test": 2},
        "browser.batch": {"b.test": 1},
        "http.slow": {},
        "browser.slow": {"c.test": 4},
    }


def test_a_slow_host_is_in_the_slow_lane(frontier: Frontier, watch: Watch) -> None:
    start(frontier, "job", pages("a.test", 9))
    settle(frontier, lease(frontier, 1), latency=timedelta(seconds=5))
    lease(frontier, 1)  # which finds out
    assert sampled(watch) == {}
    assert sampled(watch, "http.slow")["a.test"].latency_ms == 5000


def test_hosts_and_jobs_that_rest_are_told_or_left_out(frontier: Frontier, watch: Watch) -> None:
    names = ("paused.test", "held.test", "soon.test", "down.test")
    start(frontier, "job", [request for host in names for request in pages(host, 30)])
    start(frontier, "other", pages("other.test", 5))
    frontier.pause("other")
    frontier.configure_host("paused.test", HostChange(paused=True))
    frontier.configure_host("held.test", HostChange(hold=HOUR))
    frontier.configure_host("soon.test", HostChange(hold=timedelta(seconds=20)))
    for _ in range(5):
        settle(frontier, lease(frontier, 1), Outcome.RETRY, reason="connect", signal=Signal.DOWN, delay=HOUR)
    found = {host: each.state for host, each in sampled(watch).items()}
    assert found == {"soon.test": "open", "down.test": "down"}  # a lease has put the others off
    frontier.configure_host("soon.test", HostChange(paused=True))
    assert sampled(watch)["soon.test"].state == "paused"  # before any lease
    frontier.configure_host("soon.test", HostChange(paused=False, hold=HOUR))
    assert sampled(watch)["soon.test"].state == "held"


def test_what_is_tried_again_soon_is_counted(frontier: Frontier, watch: Watch) -> None:
    start(frontier, "job", [*pages("a.test", 6), Request(Url("https", "a.test", "/shown"), render=True)])
    first, second, third, *_ = held = lease(frontier)
    settle(frontier, [first], Outcome.RETRY, delay=SOON)
    settle(frontier, [second], Outcome.RETRY, delay=timedelta(seconds=30))
    settle(frontier, [third], Outcome.RETRY, delay=HOUR)
    shown = [each for each in held if each.request.render]
    settle(frontier, shown, Outcome.RETRY, delay=SOON)
    assert (_sample(watch).retries, _sample(watch, "browser.batch").retries) == (2.0, 1.0)


def test_many_hosts_are_stood_for_by_some(frontier: Frontier, watch: Watch) -> None:
    hosts = 3000
    start(frontier, "job", [page for n in range(hosts) for page in pages(f"h{n}.test", 1)])
    (sample,) = (sample for sample in watch.samples() if sample.hosts)
    assert sum(host.weight for host in sample.hosts) == pytest.approx(hosts)
    assert SAMPLED_HOSTS / 2 <= len(sample.hosts) <= 5 * SAMPLED_HOSTS
    assert len({host.bucket for host in sample.hosts}) == len(sample.hosts)
    few = next(sample for sample in watch.samples(7) if sample.hosts)
    assert sum(host.weight for host in few.hosts) == pytest.approx(hosts)


def test_many_jobs_are_stood_for_by_some(frontier: Frontier, watch: Watch) -> None:
    for n in range(300):
        start(frontier, f"job{n}", pages(f"h{n}.test", 2))
    hosts = _sample(watch).hosts
    assert sum(host.weight for host in hosts) == pytest.approx(300)
    assert {host.waiting for host in hosts} == {2}


def test_looking_changes_nothing(frontier: Frontier, watch: Watch, client: redis.Redis, prefix: str) -> None:
    start(frontier, "job", [*pages("a.test", 6), *pages("b.test", 6)], rate=1.0)
    settle(frontier, lease(frontier, 2)[:1], Outcome.RETRY, delay=MINUTE)
    before = [(key.key, key.value) for key in read_keys(client, prefix)]
    watch.samples()
    assert [(key.key, key.value) for key in read_keys(client, prefix)] == before
