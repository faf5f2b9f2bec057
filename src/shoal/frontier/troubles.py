"""The board on which workers write what they cannot use at the moment.

What is written there is forgotten after half a minute, unless its worker writes it again: who dies in trouble does not
leave it behind.

A Redis whose disk is full refuses to be written to, and so nobody can write that on the board: whoever reads the board
asks for it.
"""

# redis-py's hints leave gaps: what falls into them is unknown to the checker in this file only.
# pyright: reportUnknownMemberType=false
from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any, cast

import orjson
import redis

from shoal.core.trouble import Need, Trouble, gist
from shoal.errors import RedisUnavailable
from shoal.frontier.scripts import translated_errors

TROUBLE_LIFETIME = timedelta(seconds=30)


class TroubleBoard:
    """What the workers of one frontier wait for."""

    def __init__(self, client: redis.Redis, prefix: str) -> None:
        self._client = client
        self._prefix = prefix
        self._refused_since: int | None = None

    def tell(self, worker: str, troubles: Iterable[Trouble], begun: Mapping[Need, int]) -> None:
        """All that a worker cannot use now, in place of what it told before; and what it has met since then."""
        with translated_errors("troubles"):
            key = f"{self._prefix}:troubles"
            told = cast("dict[str, str]", self._client.hgetall(key))
            now_ms = self._now_ms()
            past = [name for name, text in told.items() if name.endswith(f" {worker}") or _until(text) <= now_ms]
            pipeline = self._client.pipeline(transaction=True)
            if past:
                pipeline.hdel(key, *past)
            for trouble in troubles:
                pipeline.hset(key, f"{trouble.what} {worker}", _written(trouble, now_ms))
                pipeline.expire(key, TROUBLE_LIFETIME)
            for what, times in begun.items():
                pipeline.hincrby(f"{self._prefix}:outages", what.value, times)
            pipeline.execute()

    def troubles(self) -> tuple[Trouble, ...]:
        """What workers wait for now."""
        with translated_errors("troubles"):
            told = cast("dict[str, str]", self._client.hgetall(f"{self._prefix}:troubles"))
            persistence = self._client.info("persistence")
            return self.read(told, persistence, self._now_ms())

    def read(self, told: Mapping[str, str], persistence: Mapping[str, Any], now_ms: int) -> tuple[Trouble, ...]:
        """What workers wait for, and what Redis says about its own disk."""
        return (*read_troubles(told, now_ms), *self._refusal(persistence, now_ms))

    def _refusal(self, persistence: Mapping[str, Any], now_ms: int) -> tuple[Trouble, ...]:
        """A failed write to the disk does not always mean a refusal; to be refused is the proof, and tells why."""
        if all(persistence.get(name, "ok") == "ok" for name in ("aof_last_write_status", "rdb_last_bgsave_status")):
            self._refused_since = None
            return ()
        try:
            with translated_errors("troubles"):
                self._client.hdel(f"{self._prefix}:troubles", "nobody")
        except RedisUnavailable as exc:
            self._refused_since = self._refused_since or now_ms
            return (Trouble(Need.REDIS, gist(exc), now_ms - self._refused_since),)
        self._refused_since = None
        return ()

    def outages(self) -> dict[Need, int]:
        """How often worker processes had to wait, since the frontier began."""
        with translated_errors("troubles"):
            counts = cast("dict[str, str]", self._client.hgetall(f"{self._prefix}:outages"))
        return {what: int(counts.get(what.value, 0)) for what in Need}

    def _now_ms(self) -> int:
        seconds, micros = self._client.time()
        return seconds * 1000 + micros // 1000


def read_troubles(told: Mapping[str, str], now_ms: int) -> tuple[Trouble, ...]:
    """What stands on the board and still counts."""
    found: list[Trouble] = []
    for name, text in sorted(told.items()):
        what, _, worker = name.partition(" ")
        saved: dict[str, Any] = orjson.loads(text)
        if saved["until"] > now_ms:
            found.append(Trouble(Need(what), saved["message"], max(0, now_ms - saved["since"]), worker))
    return tuple(found)


def _written(trouble: Trouble, now_ms: int) -> bytes:
    until = now_ms + TROUBLE_LIFETIME // timedelta(milliseconds=1)
    return orjson.dumps({"message": trouble.message, "since": now_ms - trouble.lasted_ms, "until": until})


def _until(text: str) -> int:
    return int(orjson.loads(text)["until"])
