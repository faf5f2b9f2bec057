"""What Prometheus can read. Labels have few values: routes, methods, lanes, outcomes; hosts only as the few that wait
longest.

Every process of an API counts its own requests, and one that is asked adds all of them up. All else is read from the
frontier, and the age of the history from the database, at the moment of asking: it is the same whoever is asked, and
however many workers there are. A series that an alert waits for is there from the beginning, at zero.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Histogram,
    generate_latest,
    multiprocess,
    values,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from shoal.core.drift import DRIFTS
from shoal.core.frozen import frozen
from shoal.core.host_status import HostStatus
from shoal.core.model import Outcome
from shoal.core.trouble import Need
from shoal.errors import RedisUnavailable, StoreUnavailable
from shoal.frontier.audit import REPAIRED, RUNS, WEBHOOKS
from shoal.frontier.counters import OUTAGE
from shoal.frontier.crew import DRIFTED, REFUSALS
from shoal.frontier.watch import Watch
from shoal.staffing import Staff
from shoal.webhooks.postman import OUTCOMES

HOSTS_LOOKED_AT = 1_000
HOSTS_SHOWN = 20
MAX_OUTCOMES = 200
RESTARTS = ("died", "stalled", "hung")
"""Why a worker, or a process of one, was started again."""
_OUTCOME = re.compile(r"(done|retry|dead|filtered|robots)(:[a-z0-9_]{1,40})?")

REQUESTS = Counter("shoal_api_requests", "Requests answered", ["method", "route", "status"], registry=None)
LATENCY = Histogram(
    "shoal_api_request_seconds",
    "Time to answer",
    ["route"],
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.3, 0.5, 1, 2.5, 5, 10, 30),
    registry=None,
)


def note(method: str, route: str, status: int, seconds: float) -> None:
    """One request was answered."""
    REQUESTS.labels(method, route, str(status)).inc()
    LATENCY.labels(route).observe(seconds)


def render(collector: FrontierCollector) -> tuple[bytes, str]:
    """(all measurements, their content type)"""
    registry = CollectorRegistry()
    if values.ValueClass is values.MutexValue:
        registry.register(REQUESTS)
        registry.register(LATENCY)
    else:
        multiprocess.MultiProcessCollector(registry)  # all processes of this API
    registry.register(collector)
    return generate_latest(registry), CONTENT_TYPE_LATEST


@frozen
class ScheduleFigures:
    """What the database knows of schedules."""

    by_state: Callable[[], dict[str, int]]
    lateness_s: Callable[[], float | None]
    """Of the slot that was started last; None when there is none."""


class FrontierCollector(Collector):
    """What the frontier knows, and how old the history is, read at the moment of asking."""

    def __init__(
        self,
        watch: Watch,
        memory: int,
        history_age: Callable[[], float | None],
        schedules: ScheduleFigures,
        webhooks: Callable[[], tuple[int, float]],
        staffing: Callable[[Watch], Staff],
    ) -> None:
        self._watch = watch
        self._memory = memory
        """Bytes that Redis may use before submissions are put off."""
        self._history_age = history_age
        """Seconds since the last sample; None when there is none."""
        self._schedules = schedules
        self._webhooks = webhooks
        """(messages that wait, seconds that the oldest has waited)"""
        self._staffing = staffing

    def collect(self) -> Iterable[Metric]:
        try:
            yield from tuple(self._collect())  # all of it, or nothing: no metric is told twice
        except RedisUnavailable:
            yield GaugeMetricFamily("shoal_redis_up", "Does Redis answer?", value=0)
            yield _troubles({Need.REDIS})

    def _collect(self) -> Iterator[Metric]:
        load = self._watch.load()
        yield GaugeMetricFamily("shoal_redis_up", "Does Redis answer?", value=1)
        yield GaugeMetricFamily("shoal_redis_memory_bytes", "Memory that Redis uses", value=load.memory)
        limit = load.most(self._memory)
        yield GaugeMetricFamily("shoal_redis_memory_limit_bytes", "Beyond it, submissions are put off", value=limit)
        yield from self._shards()
        yield GaugeMetricFamily("shoal_jobs_living", "Jobs that have not ended", value=self._watch.living_jobs())
        yield from self._queues()
        counted = self._watch.counted()
        yield from _sums(counted)
        yield from self._workers()
        yield _troubles({trouble.what for trouble in self._watch.troubles()})
        yield _outages(counted)
        yield from _hosts(self._watch.hosts(HOSTS_LOOKED_AT))
        yield from self._history()
        yield _runs(counted)
        yield from self._schedule_figures()
        yield _attempts(counted)
        yield from self._messages()

    def _shards(self) -> Iterator[Metric]:
        there = GaugeMetricFamily("shoal_shard_up", "Does the shard answer?", labels=["shard"])
        slots = GaugeMetricFamily("shoal_shard_slots", "Slots of hosts that a shard has", labels=["shard"])
        memory = GaugeMetricFamily("shoal_shard_memory_bytes", "Memory that a shard uses", labels=["shard"])
        shards = self._watch.shards()
        for shard in shards:
            there.add_metric([shard.name], float(shard.memory is not None))
            slots.add_metric([shard.name], shard.slots)
            if shard.memory is not None:
                memory.add_metric([shard.name], shard.memory)
        if shards:
            yield from (there, slots, memory)

    def _queues(self) -> Iterator[Metric]:
        depth = GaugeMetricFamily("shoal_queue_urls", "URLs in a queue", labels=["queue", "place"])
        jobs = GaugeMetricFamily("shoal_queue_jobs", "Running jobs with something to fetch", labels=["queue"])
        flight = 0
        for queue in self._watch.queues():
            depth.add_metric([queue.queue, "queued"], queue.queued)
            depth.add_metric([queue.queue, "delayed"], queue.delayed)
            depth.add_metric([queue.queue, "leased"], queue.leased)
            jobs.add_metric([queue.queue], queue.jobs_due)
            flight += queue.leased
        yield depth
        yield jobs
        yield GaugeMetricFamily("shoal_in_flight", "Requests that workers hold", value=flight)
        overdue = GaugeMetricFamily("shoal_queue_overdue_seconds", "Time that due work has waited", labels=["queue"])
        for name, waited in self._watch.overdue().items():
            overdue.add_metric([name], waited.total_seconds())
        yield overdue
        expired = self._watch.expired_leases()
        yield GaugeMetricFamily("shoal_leases_expired", "Lease groups past their deadline", value=expired)

    def _workers(self) -> Iterator[Metric]:
        workers = self._watch.workers()
        yield GaugeMetricFamily("shoal_workers", "Workers that live", value=len(workers))
        processes = sum(beat.processes for beat in workers)
        yield GaugeMetricFamily("shoal_worker_processes", "Their processes", value=processes)
        yield GaugeMetricFamily("shoal_slices_active", "Slices under way", value=sum(beat.active for beat in workers))
        memory = sum(beat.memory_mb for beat in workers) * 1_000_000
        yield GaugeMetricFamily("shoal_workers_memory_bytes", "Memory that workers take", value=memory)
        useful = GaugeMetricFamily("shoal_workers_useful", "Processes that a queue would keep busy", labels=["queue"])
        for row in self._staffing(self._watch).queues:
            useful.add_metric([row.queue], row.need)
        yield useful

    def _history(self) -> Iterator[Metric]:
        try:
            age = self._history_age()
        except StoreUnavailable:
            return
        if age is not None:
            yield GaugeMetricFamily("shoal_history_age_seconds", "Since the last sample of the history", value=age)

    def _messages(self) -> Iterator[Metric]:
        try:
            waiting, age = self._webhooks()
        except StoreUnavailable:
            return
        yield GaugeMetricFamily("shoal_webhook_messages_waiting", "Messages of webhooks that wait", value=waiting)
        yield GaugeMetricFamily("shoal_webhook_oldest_seconds", "Time that the oldest of them has waited", value=age)

    def _schedule_figures(self) -> Iterator[Metric]:
        gauge = GaugeMetricFamily("shoal_schedules", "Schedules, by state", labels=["state"])
        try:
            for state, count in self._schedules.by_state().items():
                gauge.add_metric([state], count)
            late = self._schedules.lateness_s()
        except StoreUnavailable:
            return
        yield gauge
        if late is not None:
            yield GaugeMetricFamily("shoal_schedule_late_seconds", "Lateness of the slot last started", value=late)


def _attempts(stats: Mapping[str, int]) -> Metric:
    attempts = CounterMetricFamily("shoal_webhook_attempts", "Attempts to send messages", labels=["outcome"])
    for outcome in OUTCOMES:
        attempts.add_metric([outcome], stats.get(f"{WEBHOOKS}:{outcome}", 0))
    return attempts


def _runs(stats: Mapping[str, int]) -> Metric:
    runs = CounterMetricFamily("shoal_schedule_runs", "Slots of schedules", labels=["outcome", "reason"])
    for name, count in sorted(stats.items()):
        kind, _, what = name.partition(":")
        if kind == RUNS:
            outcome, _, reason = what.partition(":")
            runs.add_metric([outcome, reason], count)
    return runs


def _sums(stats: Mapping[str, int]) -> Iterator[Metric]:
    outcomes = CounterMetricFamily("shoal_outcomes", "Settled requests", labels=["outcome", "reason"])
    known = {outcome.value: 0 for outcome in Outcome} | {
        name: count for name, count in stats.items() if _OUTCOME.fullmatch(name)
    }
    for name, count in sorted(known.items(), key=lambda each: each[1])[-MAX_OUTCOMES:]:
        outcome, _, reason = name.partition(":")
        outcomes.add_metric([outcome, reason], count)
    yield outcomes
    yield CounterMetricFamily("shoal_received_bytes", "Bytes of bodies", value=stats.get("received", 0))
    yield CounterMetricFamily("shoal_leases_reaped", "Requests taken back", value=stats.get("reaped", 0))
    yield CounterMetricFamily("shoal_fence_refusals", "Settlements that came late", value=stats.get("late", 0))
    yield CounterMetricFamily("shoal_jobs_rebuilt", "Lost jobs brought back", value=stats.get("rebuilt", 0))
    yield CounterMetricFamily("shoal_slices", "Slices that were run", value=stats.get("slices", 0))
    repairs = CounterMetricFamily("shoal_repairs", "What the housekeeping put right", labels=["what"])
    for name, count in sorted(stats.items()):
        kind, _, what = name.partition(":")
        if kind == REPAIRED:
            repairs.add_metric([what], count)
    yield repairs
    drifts = CounterMetricFamily("shoal_drifts", "Runs that differ from earlier ones, by what", labels=["what"])
    for what in DRIFTS:
        drifts.add_metric([what], stats.get(f"{DRIFTED}:{what}", 0))
    yield drifts
    restarts = CounterMetricFamily("shoal_worker_restarts", "Workers started again, by reason", labels=["reason"])
    for reason in RESTARTS:
        restarts.add_metric([reason], stats.get(f"restarts:{reason}", 0))
    yield restarts
    refused = CounterMetricFamily("shoal_refused_messages", "Messages of the broker refused", labels=["reason"])
    for reason in REFUSALS:
        refused.add_metric([reason], stats.get(f"refused:{reason}", 0))
    yield refused


def _outages(stats: Mapping[str, int]) -> Metric:
    counted = CounterMetricFamily("shoal_outages", "Times that a worker process had to wait", labels=["what"])
    for what in Need:
        counted.add_metric([what.value], stats.get(f"{OUTAGE}:{what.value}", 0))
    return counted


def _troubles(met: set[Need]) -> Metric:
    gauge = GaugeMetricFamily("shoal_trouble", "Is something away that workers need?", labels=["what"])
    for what in Need:
        gauge.add_metric([what.value], int(what in met))
    return gauge


def _hosts(hosts: list[HostStatus]) -> Iterator[Metric]:
    states = GaugeMetricFamily("shoal_hosts", "Hosts lately used, by what keeps them", labels=["state"])
    for state in ("open", "at_cap", "slowed", "held", "tripped", "down", "paused"):
        states.add_metric([state], sum(host.state == state for host in hosts))
    yield states
    held = GaugeMetricFamily("shoal_host_hold_seconds", "The hosts that are held longest", labels=["host"])
    waiting = sorted((host for host in hosts if host.hold), key=lambda host: host.hold, reverse=True)
    for host in waiting[:HOSTS_SHOWN]:
        held.add_metric([host.host], host.hold.total_seconds())
    yield held
