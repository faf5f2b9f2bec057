"""The frontier's keys as `frontier/keys.py` lists them: whose a key is, what stands in it, what must not be left."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, cast

import redis

from shoal.frontier.entry import decode_record
from shoal.frontier.keys import KEYS, KeyPattern

_PLACEHOLDERS = {
    "J": "[^:]+",
    "H": ".+",
    "B": r"\d+",
    "L": "[0-5]",
    "Q": "[^:]+",
    "G": r"\d+",
    "K": "[^:]+",
    "W": ".+",
    "T": "[^:]+",
    "O": ".+",
    "X": "[0-9a-f]+",
    "S": "[0-9a-f]+",
    "C": "[a-z_]+",
    "E": r"\d+",
    "D": "[0-9a-f]{64}",
}
_PLACES = ("queued", "delayed", "leased")
_UNPACK = """
local fields, packed = {}, redis.call('GET', KEYS[1])
for field, value in pairs(packed and cmsgpack.unpack(packed) or {}) do
  fields[#fields + 1] = field
  fields[#fields + 1] = type(value) == 'number' and string.format('%.17g', value) or value
end
return fields
"""


@dataclass(frozen=True, slots=True)
class StoredKey:
    """One key and what stands in it."""

    key: str
    family: KeyPattern
    names: dict[str, str]
    """What stands for J, H, B, …"""
    type: str
    encoding: str
    ttl_ms: int
    """-1: it has no lifetime."""
    value: Any

    def __str__(self) -> str:
        return f"{self.key} ({self.type}, lifetime {self.ttl_ms} ms): {self.value}"


@cache
def expression(pattern: str) -> re.Pattern[str]:
    """What a pattern of keys.py stands for, without the prefix."""
    parts = re.split(r"\{([A-Z])\}", pattern.removeprefix("{P}"))
    literals, placeholders = parts[::2], parts[1::2]
    groups = [f"(?P<{name}>{_PLACEHOLDERS[name]})" for name in placeholders]
    return re.compile("".join(re.escape(a) + b for a, b in zip(literals, [*groups, ""], strict=True)))


def classify(key: str, prefix: str) -> tuple[KeyPattern, dict[str, str]]:
    """The family of a key; fails when keys.py lists none, or two that it could be."""
    found = [(family, expression(family.pattern).fullmatch(key.removeprefix(prefix))) for family in KEYS]
    matches = [(family, match.groupdict()) for family, match in found if match]
    assert len(matches) == 1, f"{key} belongs to {[family.name for family, _ in matches]}"
    return matches[0]


def key_names(client: redis.Redis, prefix: str) -> list[str]:
    """All keys under a prefix."""
    return sorted(cast(Any, client).keys(f"{prefix}:*"))


def read_keys(client: redis.Redis, prefix: str) -> list[StoredKey]:
    """All keys under a prefix with their values, at one moment."""
    named = [(key, *classify(key, prefix)) for key in key_names(client, prefix)]
    pipeline = cast(Any, client).pipeline(transaction=True)
    for key, family, _ in named:
        pipeline.type(key)
        pipeline.object("ENCODING", key)
        pipeline.pttl(key)
        _read_value(pipeline, key, "packed" if family.name == "host" else family.type)
    answers: Iterator[Any] = iter(pipeline.execute())
    found = [StoredKey(*name, *(next(answers) for _ in range(4))) for name in named]
    return [replace(key, value=_pairs(key.value)) if key.family.name == "host" else key for key in found]


def _read_value(pipeline: Any, key: str, kind: str) -> None:
    match kind:
        case "hash":
            pipeline.hgetall(key)
        case "zset":
            pipeline.zrange(key, 0, -1, withscores=True)
        case "set":
            pipeline.smembers(key)
        case "list":
            pipeline.lrange(key, 0, -1)
        case "stream":
            pipeline.xrange(key)
        case "packed":
            pipeline.eval(_UNPACK, 1, key)
        case _:
            pipeline.get(key)


def _pairs(flat: list[str]) -> dict[str, str]:
    return dict(zip(flat[::2], flat[1::2], strict=True))


def host_fields(client: redis.Redis, prefix: str, host: str) -> dict[str, str]:
    """What is known of a host, or of a bucket that several share."""
    return _pairs(cast(Any, client).eval(_UNPACK, 1, f"{prefix}:host:{host}"))


def clear(client: redis.Redis, prefix: str) -> None:
    """Drop one keyspace, as a flush would."""
    if keys := key_names(client, prefix):
        client.delete(*keys)


def leaks(stored: Iterable[StoredKey]) -> list[str]:
    """Keys that nobody will ever drop: without a lifetime, and without a known job, a lease under way or a word."""
    keys = list(stored)
    jobs = {job for key in keys if key.family.name == "jobs" for job in key.value}
    records = [decode_record(record) for key in keys if key.family.name == "lease" for record in key.value.values()]
    busy = {request.url.host for _, request in records}
    paused = {key.names["H"] for key in keys if key.family.name == "host" and "paused" in key.value}
    return [str(key) for key in keys if key.ttl_ms < 0 and not _has_owner(key, jobs, busy, paused)]


def _has_owner(key: StoredKey, jobs: set[str], busy: set[str], paused: set[str]) -> bool:
    match key.family.name:
        case "sequence" | "epoch" | "server" | "jobs" | "leases" | "depth" | "stats" | "base":
            return True
        case "events" | "hosts" | "workers":
            return True  # capped, swept, and cleared by each heartbeat
        case "tenants" | "turn" | "due" | "clock" | "clock_jobs":
            return True
        case "due_jobs" | "turn_jobs":
            return {job for job, _ in key.value} <= jobs
        case "lease":
            return {decode_record(record)[0] for record in key.value.values()} <= jobs
        case "host":
            return key.names["H"] in busy or has_word(key.value)
        case "waiters":
            return key.names["H"] in paused and {waiter.split()[0] for waiter, _ in key.value} <= jobs
        case _:
            return key.names.get("J") in jobs


def has_word(host: dict[str, str]) -> bool:
    """Has an operator said something about this host that holds until it is taken back?"""
    return not host.keys().isdisjoint({"rate", "parallel", "paused"})


def wrong_depths(stored: Iterable[StoredKey]) -> dict[str, tuple[Counter[str], Counter[str]]]:
    """Queues whose depth is not the sum over their jobs: (depth, sum)."""
    depths: dict[str, Counter[str]] = {}
    sums: dict[str, Counter[str]] = {}
    for key in stored:
        if key.family.name == "depth":
            depths[key.names["Q"]] = Counter({place: int(n) for place, n in key.value.items()})
        elif key.family.name == "job":
            rendered = {place: int(key.value.get(f"render_{place}", 0)) for place in _PLACES}
            places = {place: int(key.value.get(place, 0)) - rendered[place] for place in _PLACES}
            sums.setdefault(key.value["queue"], Counter()).update(places)
            if "half" in key.value:
                sums.setdefault(key.value["half"], Counter()).update(rendered)
    both = {queue: (depths.get(queue, Counter()), sums.get(queue, Counter())) for queue in depths.keys() | sums.keys()}
    return {queue: (depth, total) for queue, (depth, total) in both.items() if depth != total}
