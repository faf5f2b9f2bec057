"""The frontier as it stands in Redis, read without the frontier's own code but for the form of an entry."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import redis

from shoal.core.model import Request
from shoal.frontier.entry import decode, decode_record
from tests.contract.keyspace import StoredKey, read_keys


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything under one prefix at one moment."""

    keys: tuple[StoredKey, ...]
    known: frozenset[str]
    """Jobs."""
    jobs: dict[str, dict[str, str]]
    reasons: dict[str, dict[str, int]]
    seen: dict[str, list[int]]
    lines: dict[tuple[str, str, int], list[Request]]
    """(job, host, level) → requests in their order."""
    ready: dict[str, dict[str, float]]
    """Job → host → ms when it may be asked."""
    lag: dict[str, dict[str, float]]
    """The same for slow hosts."""
    render: dict[str, dict[str, float]]
    """The same for hosts with requests for the browser."""
    spend: dict[str, dict[str, str]]
    delayed: dict[str, dict[Request, float]]
    """Job → request → ms when it is due, the earliest first."""
    due: dict[str, dict[str, float]]
    """Queue → job → ms when it is due."""
    tenants: dict[str, dict[str, float]]
    """Queue → tenant → ms when the first of its jobs is due."""
    due_of_tenants: dict[tuple[str, str], float]
    """(queue, tenant) → ms when the first of its jobs is due, taken from the jobs."""
    turns: dict[str, set[str]]
    """Queue → jobs."""
    hosts: dict[str, dict[str, str]]
    listed: dict[str, float]
    """Host → ms when it last came back or was set."""
    waiters: dict[str, set[str]]
    """Host → `job host`."""
    deadlines: dict[int, float]
    """Lease group → ms when it is lost, the earliest first."""
    leased: dict[tuple[int, int], tuple[str, Request]]
    """(group, index) → job and request."""
    stats: dict[str, int]
    events: dict[str, list[tuple[str, str]]]
    """Job → (kind, state) in the order of what happened."""

    @classmethod
    def read(cls, client: redis.Redis, prefix: str) -> Snapshot:
        keys = read_keys(client, prefix)
        families: dict[str, list[StoredKey]] = {}
        for key in keys:
            families.setdefault(key.family.name, []).append(key)

        def by(placeholder: str, family: str) -> dict[str, Any]:
            return {key.names[placeholder]: key.value for key in families.get(family, [])}

        return cls(
            keys=tuple(keys),
            known=frozenset(job for key in families.get("jobs", []) for job in key.value),
            jobs=by("J", "job"),
            reasons={job: {name: int(n) for name, n in counts.items()} for job, counts in by("J", "reasons").items()},
            seen=_seen(families.get("seen", [])),
            lines=dict(_line(key) for key in families.get("queue", [])),
            ready={job: dict(hosts) for job, hosts in by("J", "ready").items()},
            lag={job: dict(hosts) for job, hosts in by("J", "lag").items()},
            render={job: dict(hosts) for job, hosts in by("J", "render").items()},
            spend=by("J", "spend"),
            delayed={job: _delayed(job, records) for job, records in by("J", "delayed").items()},
            due=_by_queue(families.get("due_jobs", [])),
            tenants={queue: dict(tenants) for queue, tenants in by("Q", "due").items()},
            due_of_tenants={
                (key.names["Q"], key.names["T"]): min(at for _, at in key.value) for key in families.get("due_jobs", [])
            },
            turns={queue: set(jobs) for queue, jobs in _by_queue(families.get("turn_jobs", [])).items()},
            hosts=by("H", "host"),
            listed={host: at for key in families.get("hosts", []) for host, at in key.value},
            waiters={host: {name for name, _ in jobs} for host, jobs in by("H", "waiters").items()},
            deadlines={int(group): at for key in families.get("leases", []) for group, at in key.value},
            leased=_leased(by("G", "lease")),
            stats={name: int(n) for key in families.get("stats", []) for name, n in key.value.items()},
            events=_events(families.get("events", [])),
        )


def _seen(keys: list[StoredKey]) -> dict[str, list[int]]:
    """A list, not a set: a fingerprint that stands in two buckets must show."""
    seen: dict[str, list[int]] = {}
    for key in keys:
        seen.setdefault(key.names["J"], []).extend(int(fingerprint) for fingerprint in key.value)
    return seen


def _by_queue(keys: list[StoredKey]) -> dict[str, dict[str, float]]:
    """Queue → job → score, over all tenants."""
    found: dict[str, dict[str, float]] = {}
    for key in keys:
        found.setdefault(key.names["Q"], {}).update(key.value)
    return found


def _line(key: StoredKey) -> tuple[tuple[str, str, int], list[Request]]:
    job, host, level = key.names["J"], key.names["H"], int(key.names["L"])
    return (job, host, level), [decode(host, level, entry) for entry in key.value]


def _delayed(job: str, records: list[tuple[str, float]]) -> dict[Request, float]:
    requests: dict[Request, float] = {}
    for record, at in records:
        owner, request = decode_record(record)
        assert owner == job, f"{record} waits among the delayed requests of {job}"
        requests[request] = at
    return requests


def _leased(groups: dict[str, dict[str, str]]) -> dict[tuple[int, int], tuple[str, Request]]:
    return {
        (int(group), int(index)): decode_record(record)
        for group, records in groups.items()
        for index, record in records.items()
    }


def _events(keys: list[StoredKey]) -> dict[str, list[tuple[str, str]]]:
    events: dict[str, list[tuple[str, str]]] = {}
    for key in keys:
        for _, event in key.value:
            events.setdefault(event["job"], []).append((event["kind"], event["state"]))
    return events
