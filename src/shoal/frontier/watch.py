"""Looking at the frontier as a whole: queues, hosts, workers, sums, events.

Changes nothing, except that it may write down where counters begin.
"""

# redis-py's hints leave gaps: what falls into them is unknown to the checker in this file only.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, cast

import orjson
import redis

from shoal.core.advice import HORIZON, QueueSample, SampledHost
from shoal.core.fleet import Load, QueueDepth, ShardFigures, WorkerBeat
from shoal.core.frozen import names_of
from shoal.core.host_status import Breaker, Decision, HostStatus
from shoal.core.job_status import Event
from shoal.core.model import ALL_QUEUES, Lane
from shoal.core.trouble import Need, Trouble
from shoal.frontier.counters import Counters
from shoal.frontier.scripts import Scripts, connect, translated_errors
from shoal.frontier.troubles import TroubleBoard
from shoal.frontier.wire import ms

READ_EVENTS_AT_MOST = 1_000
SAMPLED_HOSTS = 128
"""So many are looked at, however many have work."""


class Watch:
    """What can be seen of one frontier."""

    def __init__(self, client: redis.Redis, prefix: str = "shoal") -> None:
        self._client = client
        self._prefix = prefix
        self._jobs_prefix = prefix
        """Of jobs and of what happens to them."""
        self._scripts = Scripts(client, prefix)
        self._board = TroubleBoard(client, prefix)
        self._counters = Counters(client, prefix)

    @classmethod
    def at(cls, url: str, prefix: str = "shoal", *, timeout_s: float = 10.0) -> Watch:
        return cls(connect(url, timeout_s=timeout_s), prefix)

    def close_connections(self) -> None:
        self._client.close()

    # --- how full ------------------------------------------------------------------------------------------------

    def queues(self) -> list[QueueDepth]:
        """Every queue and what waits in it."""
        with translated_errors("queues"):
            pipeline = self._client.pipeline(transaction=False)
            for queue in ALL_QUEUES:
                pipeline.hmget(f"{self._prefix}:depth:{queue}", ["queued", "delayed", "leased"])
                pipeline.zrange(f"{self._prefix}:due:{queue}", 0, -1)
            found = pipeline.execute()
            tenants = {queue: found[2 * i + 1] for i, queue in enumerate(ALL_QUEUES)}
            due = self._due_jobs(tenants)
        depths: list[QueueDepth] = []
        for i, queue in enumerate(ALL_QUEUES):
            queued, delayed, leased = (int(n or 0) for n in found[2 * i])
            depths.append(QueueDepth(queue, queued, delayed, leased, due[queue]))
        return depths

    def _due_jobs(self, tenants: dict[str, list[str]]) -> dict[str, int]:
        pipeline = self._client.pipeline(transaction=False)
        for queue, names in tenants.items():
            for tenant in names:
                pipeline.zcard(f"{self._prefix}:due:{queue}:{tenant}")
        counts = iter(pipeline.execute())
        return {queue: sum(next(counts) for _ in names) for queue, names in tenants.items()}

    def due_jobs(self) -> dict[str, set[str]]:
        """Queue → running jobs that have something to lease, now or later."""
        with translated_errors("queues"):
            pipeline = self._client.pipeline(transaction=False)
            for queue in ALL_QUEUES:
                pipeline.zrange(f"{self._prefix}:due:{queue}", 0, -1)
            named = zip(ALL_QUEUES, cast("list[list[str]]", pipeline.execute()), strict=True)
            tenants = [(queue, tenant) for queue, names in named for tenant in names]
            for queue, tenant in tenants:
                pipeline.zrange(f"{self._prefix}:due:{queue}:{tenant}", 0, -1)
            found: dict[str, set[str]] = {queue: set() for queue in ALL_QUEUES}
            for (queue, _), jobs in zip(tenants, pipeline.execute(), strict=True):
                found[queue].update(cast("list[str]", jobs))
        return found

    def overdue(self) -> dict[str, timedelta]:
        """Queue → for how long something in it could have been leased, and was not; nothing waits: no time."""
        with translated_errors("queues"):
            pipeline = self._client.pipeline(transaction=False)
            for queue in ALL_QUEUES:
                pipeline.zrange(f"{self._prefix}:due:{queue}", 0, 0, withscores=True)
            pipeline.time()
            *firsts, (seconds, micros) = pipeline.execute()
        now = seconds * 1000 + micros // 1000
        since = {queue: first[0][1] if first else now for queue, first in zip(ALL_QUEUES, firsts, strict=True)}
        return {queue: timedelta(milliseconds=max(0, now - at)) for queue, at in since.items()}

    def samples(self, at_most: int = SAMPLED_HOSTS) -> list[QueueSample]:
        """Of each queue some of the hosts that have work and may be asked within the horizon, and what they allow."""
        found = self._scripts.call("sample", [at_most, ms(HORIZON), *ALL_QUEUES])
        return [
            QueueSample(queue, tuple(map(_sampled, lines)), float(retries))
            for queue, (retries, lines) in zip(ALL_QUEUES, found, strict=True)
        ]

    def living_jobs(self) -> int:
        """How many jobs the frontier knows."""
        with translated_errors("jobs"):
            return self._client.scard(f"{self._jobs_prefix}:jobs")

    def load(self) -> Load:
        """URLs that wait, and Redis' memory."""
        urls = sum(depth.pending for depth in self.queues())
        with translated_errors("load"):
            memory = self._client.info("memory")
        return Load(urls, int(memory["used_memory"]), int(memory.get("maxmemory", 0)))

    def shards(self) -> list[ShardFigures]:
        """The servers that hosts are spread over; none for a frontier in one piece."""
        return []

    def ping(self) -> None:
        """Raises RedisUnavailable when the frontier cannot be reached."""
        with translated_errors("ping"):
            self._client.ping()

    def stats(self) -> dict[str, int]:
        """Sums over all jobs since the frontier began: outcomes by reason, leases reaped, late settlements, slices."""
        with translated_errors("stats"):
            values = cast("dict[str, str]", self._client.hgetall(f"{self._prefix}:stats"))
        return {name: int(value) for name, value in values.items()}

    def counted(self) -> dict[str, int]:
        """The same, and `outage:…`, since the server was started: for those who compute rates."""
        return self._counters.read()

    def expired_leases(self) -> int:
        """Leases past their deadline that nobody has taken back yet."""
        with translated_errors("leases"):
            seconds, micros = self._client.time()
            return int(self._client.zcount(f"{self._prefix}:leases", "-inf", seconds * 1000 + micros // 1000))

    def troubles(self) -> tuple[Trouble, ...]:
        """What workers cannot use at the moment."""
        return self._board.troubles()

    def outages(self) -> dict[Need, int]:
        """How often worker processes had to wait for what, since the frontier began."""
        return self._board.outages()

    # --- hosts ---------------------------------------------------------------------------------------------------

    def hosts(self, limit: int, before: tuple[int, str] | None = None) -> list[HostStatus]:
        """Hosts, the last used first; `before` is the (time, host) of the last one seen."""
        key = f"{self._prefix}:hosts"
        with translated_errors("hosts"):
            same: list[tuple[str, float]] = []
            newest = "+inf"
            if before is not None:
                ties = self._client.zrevrangebyscore(key, before[0], before[0], withscores=True)
                same = [(host, at) for host, at in cast("list[tuple[str, float]]", ties) if host < before[1]]
                newest = f"({before[0]}"
            found = self._client.zrevrangebyscore(key, newest, "-inf", start=0, num=limit, withscores=True)
        names = [*same, *cast("list[tuple[str, float]]", found)]
        return self._describe([(int(at), host) for host, at in names[:limit]])

    def host(self, host: str) -> HostStatus | None:
        """One host; None when nobody asked for it lately."""
        with translated_errors("host"):
            score = self._client.zscore(f"{self._prefix}:hosts", host)
        return None if score is None else self._describe([(int(score), host)])[0]

    def reaches(self, host: str) -> bool:
        """False for a host whose shard is away while others are there."""
        del host
        return True

    def _describe(self, names: Sequence[tuple[int, str]]) -> list[HostStatus]:
        now, *found = self._scripts.call("show_hosts", [host for _, host in names])
        described: list[HostStatus] = []
        for (seen, host), (fields, waiting, notes) in zip(names, found, strict=True):
            values = dict(zip(fields[::2], fields[1::2], strict=True))
            described.append(_host(host, seen, values, waiting, notes, now))
        return described

    def waiting_hosts(self, job: str, at_most: int) -> list[str]:
        """Hosts with work of this job that may be asked later or, paused, never; the longest waits first."""
        with translated_errors("waiting"):
            seconds, micros = self._client.time()
            later = f"({seconds * 1000 + micros // 1000}"
            pipeline = self._client.pipeline(transaction=False)
            lists = (f"{self._prefix}:ready:{job}", f"{self._prefix}:lag:{job}", f"{self._prefix}:render:{job}")
            for key in lists:
                pipeline.zrevrangebyscore(key, "+inf", later, start=0, num=at_most, withscores=True)
            found = [place for places in pipeline.execute() for place in cast("list[tuple[str, float]]", places)]
        longest = sorted(found, key=lambda place: -place[1])
        return list(dict.fromkeys(host for host, _ in longest))[:at_most]

    # --- workers -------------------------------------------------------------------------------------------------

    def workers(self) -> list[WorkerBeat]:
        """The workers that live."""
        with translated_errors("workers"):
            names = cast("list[str]", self._client.zrange(f"{self._prefix}:workers", 0, -1))
            keys = [f"{self._prefix}:worker:{worker}" for worker in names]
            found = cast("list[str | None]", self._client.mget(keys)) if keys else []
        return sorted((_beat(orjson.loads(text)) for text in found if text), key=lambda beat: beat.name)

    # --- events --------------------------------------------------------------------------------------------------

    def last_event(self) -> str:
        """The id after which new events come."""
        with translated_errors("events"):
            newest = cast("list[tuple[str, Any]]", self._client.xrevrange(f"{self._jobs_prefix}:events", count=1))
        return newest[0][0] if newest else "0-0"

    def events_since(self, last: str, job: str) -> list[Event]:
        """What happened to a job after this event, as far as it is remembered."""
        with translated_errors("events"):
            found = self._client.xrange(f"{self._jobs_prefix}:events", min=f"({last}")
        return [event for event in map(_event, cast("list[Any]", found)) if event.job == job]

    def next_events(self, last: str, wait: timedelta) -> list[Event]:
        """Wait for events after this one: a blocking call, for a connection of its own."""
        block = max(1, wait // timedelta(milliseconds=1))
        with translated_errors("events"):
            found = self._client.xread({f"{self._jobs_prefix}:events": last}, count=READ_EVENTS_AT_MOST, block=block)
        if not found:
            return []
        streams = cast("dict[str, Any]", found) if isinstance(found, dict) else dict(cast("list[Any]", found))
        return [_event(entry) for entries in streams.values() for entry in _flat(entries)]


def _beat(saved: dict[str, Any]) -> WorkerBeat:
    """A newer worker may tell more than is known here."""
    saved["queues"] = tuple(saved["queues"])
    return WorkerBeat(**{name: value for name, value in saved.items() if name in names_of(WorkerBeat)})


def _sampled(line: str) -> SampledHost:
    weight, waiting, rate, parallel, latency, state, shared, bucket, address = line.split(" ")
    return SampledHost(
        float(weight),
        int(waiting),
        float(rate),
        int(parallel),
        int(latency),
        state,
        shared == "1",
        bucket,
        "" if address == "-" else address,
    )


def _flat(entries: Any) -> list[Any]:
    """RESP3 wraps a stream's entries once more."""
    return (
        entries[0] if entries and isinstance(entries[0], list) and isinstance(entries[0][0], (list, tuple)) else entries
    )


def _event(entry: Any) -> Event:
    number, values = entry
    return Event(number, values.get("job", ""), values.get("kind", ""), values.get("state", ""))


def _host(host: str, seen_ms: int, values: dict[str, str], waiting: int, notes: list[str], now: int) -> HostStatus:
    def left(name: str) -> timedelta:
        return timedelta(milliseconds=max(0, round(float(values.get(name, 0)) - now)))

    def number(name: str) -> float | None:
        return float(values[name]) if name in values else None

    parallel, latency = number("parallel"), number("latency")
    return HostStatus(
        host,
        number("rate"),
        None if parallel is None else int(parallel),
        "paused" in values,
        left("hold"),
        left("slot"),
        int(values.get("inflight", 0)),
        None if latency is None else int(latency),
        waiting,
        seen_ms,
        Lane.SLOW if values.get("slow") else None,
        number("pace"),
        _breaker(values, now),
        max(left("probe_at"), left("gone")),
        number("delay"),
        values.get("group", ""),
        values.get("address", "").removeprefix("#"),
        tuple(_decision(line) for line in notes),
    )


def _breaker(values: dict[str, str], now: int) -> Breaker:
    if float(values.get("gone", 0)) > now:
        return Breaker.DOWN
    return Breaker.TRIPPED if "trip" in values or "gone" in values else Breaker.CLOSED


def _decision(line: str) -> Decision:
    at, what, reason = line.split(" ", 2)
    return Decision(int(at), what, reason)
