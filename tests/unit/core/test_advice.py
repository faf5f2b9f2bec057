"""How many worker processes are useful: what hosts allow, by what one process does."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from shoal.core.advice import (
    USUAL_PACE,
    Fleet,
    QueueAdvice,
    QueueSample,
    SampledHost,
    advise,
    by_kind,
    crew_of,
    whole,
)
from shoal.core.fleet import QueueDepth, WorkerBeat
from shoal.core.model import ALL_QUEUES
from shoal.core.trouble import Need, Trouble

LATE = timedelta(seconds=20)
MILLION = 1_000_000
HTTP = ("http.high", "http.batch", "http.slow")


def _worker(
    processes: int = 1, pace: float = 0.0, *, queues: tuple[str, ...] = HTTP, name: str = "w", **more: int
) -> WorkerBeat:
    beat = WorkerBeat(name, queues, processes, processes, 1, 100, 1, "0", pace=pace)
    return replace(beat, **{"sockets": 128, "slow_sockets": 32, "browser_pages": 4, **more})


def _host(number: int = 0, waiting: int = MILLION, **limits: float | int | str | bool) -> SampledHost:
    given = {"weight": 1.0, "latency_ms": 200, "bucket": f"h{number}.test", **limits}
    return SampledHost(waiting=waiting, **given)  # pyright: ignore[reportArgumentType]


def _fleet(
    *hosts: SampledHost, queue: str = "http.batch", leased: int = 0, late: bool = False, **more: object
) -> Fleet:
    waiting = round(sum(host.weight * host.waiting for host in hosts))
    full = QueueDepth(queue, waiting, 0, leased, 1)
    fleet = Fleet(
        [full if name == queue else QueueDepth(name, 0, 0, 0, 0) for name in ALL_QUEUES],
        {queue: LATE} if late else {},
        [QueueSample(queue, hosts)],
    )
    return replace(fleet, **more)


def _of(fleet: Fleet, queue: str = "http.batch") -> QueueAdvice:
    return next(row for row in advise(fleet) if row.queue == queue)


def test_nothing_waits_so_nobody_is_needed() -> None:
    rows = advise(_fleet(workers=[_worker(4)]))
    assert {(row.need, row.useful, row.why) for row in rows} == {(0.0, 0, "nothing waits")}
    assert [(kind.kind, kind.processes, kind.useful) for kind in by_kind(rows, [_worker(4)])] == [
        ("http", 4, 0),
        ("browser", 0, 0),
    ]


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("workers", [[], [_worker()], [_worker(4, 2.0)]], ids=["none", "one", "four"])
def test_one_host_with_a_million_urls_needs_one_process(workers: list[WorkerBeat], late: bool) -> None:
    advice = _of(_fleet(_host(rate=2.0, parallel=2), late=late, workers=workers))
    assert advice.useful == 1
    assert "hosts at their limits give 2 pages a second" in advice.why


def test_hosts_at_their_limits_need_no_more_than_keep_up_with_them() -> None:
    """A thousand hosts at a page a second, and ten processes: what a process does is a guess, and they keep up."""
    hosts = [_host(n, rate=1.0, parallel=2) for n in range(1000)]
    keeping_up = _of(_fleet(*hosts, workers=[_worker(10, 100.0)], leased=200))
    assert keeping_up.useful == 1000 / USUAL_PACE
    assert "no work waits for a free worker" in keeping_up.why
    assert _of(_fleet(*hosts, workers=[_worker(2, 500.0)], leased=200)).useful == 2
    assert _of(_fleet(*hosts, workers=[_worker(3, 100.0)], leased=100)).useful == 3  # a guess of five, but three do


def test_hosts_without_limits_and_processes_that_are_full_need_more() -> None:
    hosts = [_host(n, 600) for n in range(1000)]
    advice = _of(_fleet(*hosts, late=True, leased=256, workers=[_worker(2, 250.0)]))
    assert advice.full
    assert advice.useful == 40  # 600,000 URLs in a minute are 10,000 a second
    assert advice.why == "what waits is done within a minute at 10,000 pages a second; a process does 250"


def test_full_sockets_tell_as_well_as_work_that_waits_for_long() -> None:
    """One host without limits is never late: whenever it is asked, it is asked for all that there is room for."""
    full = _fleet(_host(0, 60_000), leased=128, workers=[_worker(1, 300.0)])
    assert _of(full).useful == 4
    assert _of(replace(full, depths=[QueueDepth("http.batch", 60_000, 0, 20, 1)])).useful == 1


def test_a_short_job_is_no_reason_for_a_second_process() -> None:
    assert _of(_fleet(*[_host(n, 5) for n in range(200)], late=True, workers=[_worker(1, 50.0)])).useful == 1


def test_slow_answers_need_sockets() -> None:
    """Answers that take five seconds, and eight sockets: a process does 1.6 pages a second at the most."""
    hosts = [_host(n, 30, latency_ms=5000, parallel=2) for n in range(200)]
    small = _worker(1, sockets=8, slow_sockets=8)
    advice = _of(_fleet(*hosts, leased=8, workers=[small]))
    assert advice.useful == 50  # 80 pages a second, by the cap of each host
    assert advice.why == "hosts at their limits give 80 pages a second; a process may do 1.6"


def test_the_slow_lane_has_a_part_of_the_sockets() -> None:
    hosts = [_host(n, latency_ms=4000, parallel=1) for n in range(128)]
    shared, own = _worker(1), _worker(1, queues=("http.slow",), slow_sockets=128)
    full = _fleet(*hosts, queue="http.slow", late=True)
    assert _of(replace(full, workers=[shared]), "http.slow").useful == 4
    assert _of(replace(full, workers=[own]), "http.slow").useful == 1
    assert _of(full, "http.slow").useful == 1  # nobody serves it: as if workers were for it alone


def test_browsers_are_counted_by_the_pages_that_they_show_at_once() -> None:
    queue, browsers = "browser.batch", _worker(1, queues=("browser.high", "browser.batch", "browser.slow"))
    hosts = [_host(n, latency_ms=4000, rate=4.0, parallel=2) for n in range(10)]
    advice = _of(_fleet(*hosts, queue=queue), queue)
    assert advice.useful == 5  # 20 pages at once, four in each
    assert advice.why == "hosts at their limits give 5 pages a second; no worker serves it"
    full = _fleet(*hosts, queue=queue, leased=6, workers=[replace(browsers, pace=0.5)])
    assert _of(full, queue).useful == 10  # its pages take longer than the hosts say
    mixed = replace(browsers, queues=ALL_QUEUES, pace=400.0)
    assert _of(replace(full, workers=[mixed]), queue).useful == 5  # pages without a browser tell nothing


@pytest.mark.parametrize("state", ["paused", "held"])
def test_hosts_that_rest_need_nobody(state: str) -> None:
    advice = _of(_fleet(_host(state=state), _host(1, state=state), late=True, workers=[_worker()]))
    assert (advice.need, advice.why) == (0.0, "no host of what waits may be asked within a minute")


def test_a_job_that_is_paused_needs_nobody() -> None:
    depths = [QueueDepth("http.batch", MILLION, 0, 0, 0)]
    advice = _of(Fleet(depths, {}, [QueueSample("http.batch")], [_worker(2)]))
    assert (advice.need, advice.why) == (0.0, "no host of what waits may be asked within a minute")


def test_somebody_must_look_at_a_host_that_is_down_and_at_what_is_tried_again() -> None:
    advice = _of(_fleet(_host(state="down"), late=True))
    assert (advice.useful, advice.why) == (1, "a host that was down is looked at again")
    retries = replace(_fleet(), samples=[QueueSample("http.batch", retries=3.0)])
    assert _of(retries).useful == 1


def test_what_is_under_way_keeps_its_processes() -> None:
    advice = _of(_fleet(leased=200, workers=[_worker(4)]))
    assert (advice.useful, advice.why) == (2, "what is under way comes to its end")
    assert _of(_fleet(leased=2000, workers=[_worker(4)])).useful == 4


def test_while_a_store_is_away_more_workers_would_wait_as_well() -> None:
    hosts = [_host(n, 600) for n in range(1000)]
    away = [Trouble(Need.DATABASE, "locked", 1)]
    advice = _of(_fleet(*hosts, late=True, workers=[_worker(2, 1.0)], troubles=away))
    assert (advice.useful, advice.full) == (2, False)
    assert advice.why == "workers cannot use what they need (database): more of them would wait as well"
    assert _of(_fleet(*hosts, troubles=away)).useful > 2  # nobody is there to be sure


def test_hosts_that_are_not_in_the_sample_are_stood_for() -> None:
    """A hundred of 100,000 at a page a second each."""
    hosts = [_host(n, rate=1.0, weight=1000.0) for n in range(100)]
    assert _of(_fleet(*hosts)).useful == 500


def test_a_large_job_does_not_stand_for_others_as_large() -> None:
    """One of 3,000 jobs has nearly all URLs, and is in a sample of 32."""
    hosts = [_host(n, 3, weight=90.0 * 3000) for n in range(3)] + [_host(9 + n, 1, weight=90.0) for n in range(31)]
    fleet = replace(_fleet(*hosts), depths=[QueueDepth("http.batch", 30_000, 0, 0, 3000)])
    assert _of(fleet).why.startswith("what waits is done within a minute at 500 pages a second")


def test_a_bucket_counts_once_whoever_shares_it() -> None:
    domain = [_host(n, rate=4.0, shared=True, weight=100.0, bucket="@shop.test") for n in range(50)]
    assert "hosts at their limits give 4 pages a second" in _of(_fleet(*domain)).why
    alone = [_host(n, rate=4.0, shared=True, weight=100.0, bucket=f"@{n}.test") for n in range(50)]
    assert "give 20,000 pages a second" in _of(_fleet(*alone)).why
    in_two_jobs = [_host(0, rate=4.0), _host(0, rate=1.0)]
    assert "give 4 pages a second" in _of(_fleet(*in_two_jobs)).why


def test_two_queues_share_the_rate_of_a_host() -> None:
    fleet = _fleet(_host(rate=4.0, waiting=3000))
    both = [*fleet.samples, QueueSample("browser.batch", (_host(rate=4.0, waiting=1000),))]
    depths = [replace(depth, queued=4000) for depth in fleet.depths]
    rows = {row.queue: row for row in advise(replace(fleet, samples=both, depths=depths))}
    assert "give 2 pages a second" in rows["http.batch"].why
    assert "give 2 pages a second" in rows["browser.batch"].why
    assert rows["http.batch"].useful == rows["browser.batch"].useful == 1


def test_an_address_has_a_limit_of_its_own() -> None:
    hosts = [_host(n, latency_ms=1000, address="#192.0.2.1") for n in range(100)]
    assert "give 8 pages a second" in _of(_fleet(*hosts, address_parallel=8)).why
    assert _of(_fleet(*hosts)).useful > 1


def test_queues_of_a_kind_add_up_and_workers_count_once() -> None:
    workers = [_worker(2, queues=("http.high", "http.batch"))]
    rows = [
        QueueAdvice("http.high", 2, 2, 0.05, ""),
        QueueAdvice("http.batch", 2, 2, 1.0, ""),
        QueueAdvice("browser.batch", 0, 0, 0.01, ""),
    ]
    found = {kind.kind: (kind.processes, kind.useful) for kind in by_kind(rows, workers)}
    assert found == {"http": (2, 1), "browser": (0, 1)}
    high = [replace(row, need=2.0, full=row.queue == "http.batch") for row in rows]
    assert by_kind(high, workers)[0].useful == 4
    assert by_kind([replace(row, full=False) for row in high], workers)[0].useful == 2  # nothing waits for a worker
    assert by_kind([], workers) == []


def test_workers_that_do_not_say_what_they_can_are_taken_for_usual_ones() -> None:
    old = WorkerBeat("w", ALL_QUEUES, 2, 1, 1, 100, 1, "0")
    assert crew_of("http.batch", [old]).places == crew_of("http.batch", []).places == 128
    assert crew_of("browser.batch", [old]).places == 4
    both = [old, replace(old, sockets=64, processes=6, pace=30.0)]
    assert (crew_of("http.batch", both).places, crew_of("http.batch", both).pace) == (80, 30.0)


def test_a_tenth_of_a_process_is_no_process() -> None:
    assert [whole(need) for need in (0.0, 0.01, 1.0, 1.1, 1.2, 2.5)] == [0, 1, 1, 1, 2, 3]
