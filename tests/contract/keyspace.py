"""The frontier's keys as `frontier/keys.py` lists them: whose a key is, what stands in it, what must not be left."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, cast

import redis

from shoal.frontier.entry import decode_record
from shoal.frontier.keys import KEYS, KeyPattern

_PLACEHOLDERS = {"J": "[^:]+", "H": ".+", "B": r"\d+", "L": "[012]", "Q": "[^:]+", "G": r"\d+"}


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
        _read_value(pipeline, key, family.type)
    answers: Iterator[Any] = iter(pipeline.execute())
    return [StoredKey(*name, *(next(answers) for _ in range(4))) for name in named]


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
        case _:
            pipeline.get(key)


def clear(client: redis.Redis, prefix: str) -> None:
    """Drop one keyspace, as a flush would."""
    if keys := key_names(client, prefix):
        client.delete(*keys)


def leaks(stored: Iterable[StoredKey]) -> list[str]:
    """Keys that nobody will ever drop: without a lifetime, and without a known job or a lease under way."""
    keys = list(stored)
    jobs = {job for key in keys if key.family.name == "jobs" for job in key.value}
    records = [decode_record(record) for key in keys if key.family.name == "lease" for record in key.value.values()]
    busy = {request.url.host for _, request in records}
    return [str(key) for key in keys if key.ttl_ms < 0 and not _has_owner(key, jobs, busy)]


def _has_owner(key: StoredKey, jobs: set[str], busy: set[str]) -> bool:
    match key.family.name:
        case "sequence" | "jobs" | "leases":
            return True
        case "due" | "turn":
            return {job for job, _ in key.value} <= jobs
        case "lease":
            return {decode_record(record)[0] for record in key.value.values()} <= jobs
        case "host":
            return key.names["H"] in busy
        case _:
            return key.names.get("J") in jobs
