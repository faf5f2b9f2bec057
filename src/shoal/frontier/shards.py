"""The servers that a frontier's slots are spread over: which slot is where, and who is away.

The table of slots stands in the control Redis. A slot that has moved says so itself, and whoever comes to its old place
follows it. A server that does not answer is left alone for a moment: only its hosts wait.
"""

# redis-py's hints leave gaps: what falls into them is unknown to the checker in this file only.
# pyright: reportUnknownMemberType=false
from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Generic, TypeVar, cast

import redis
from redis import exceptions

from shoal.core.trouble import MAX_MESSAGE, Need, Trouble
from shoal.errors import InputError, RedisUnavailable
from shoal.frontier.scripts import Elsewhere, connect, translated_errors
from shoal.frontier.slot_keys import ServerKeys, SlotKeys
from shoal.frontier.slots import SLOTS, list_prefix, server_prefix, slot_prefix

TABLE_S = 5.0
"""So long the table is taken for true; a slot that has moved meanwhile says so."""
MOVE_S = 15.0
"""So long somebody waits for a slot that is on its way."""
MOVE_PAUSE_S = 0.05
MOST_HOPS = 1_000
"""Looks at a slot that is not where it was."""
REST_S, LONGEST_REST_S = 1.0, 30.0
"""So long a server that did not answer is left alone; twice as long each time, for asking may take as long as this:"""
TIMEOUT_S = 3.0
HERE = "here"
_MOVED = "moved "
_FROZEN = "moving "

T = TypeVar("T")
Face = TypeVar("Face")


@dataclass(slots=True)
class Shard:
    """One server."""

    name: str
    client: redis.Redis
    rests_until: float = 0.0
    rest_s: float = REST_S
    why: str = ""

    def check(self) -> None:
        """Raise when it did not answer a moment ago."""
        if self.rests_until > time.monotonic():
            raise RedisUnavailable(self.complaint)

    @property
    def complaint(self) -> str:
        return f"the shard {self.name} is away: {self.why}"

    @property
    def trouble(self) -> Trouble:
        """As it is told to everybody."""
        return Trouble(Need.REDIS, self.complaint[:MAX_MESSAGE], 0)

    def failed(self, error: RedisUnavailable) -> None:
        """It did not answer."""
        self.rests_until, self.why = time.monotonic() + self.rest_s, str(error)
        self.rest_s = min(2 * self.rest_s, LONGEST_REST_S)

    def answered(self) -> None:
        """It is well."""
        self.rest_s = REST_S


class Shards:
    """All servers of one frontier, and the table of its slots."""

    def __init__(self, control: redis.Redis, prefix: str, servers: Mapping[str, redis.Redis]) -> None:
        self._control = control
        self._prefix = list_prefix(prefix)
        self._prefixes = [slot_prefix(prefix, slot) for slot in range(SLOTS)]
        self.keys = [SlotKeys(each) for each in self._prefixes]
        """Of the slots."""
        self.server_prefix = server_prefix(prefix)
        """Of what is about a server."""
        self.server_keys = ServerKeys(self.server_prefix)
        self._shards = {name: Shard(name, client) for name, client in servers.items()}
        self._table: dict[int, str] = {}
        self._read_at = 0.0

    @classmethod
    def at(cls, control: redis.Redis, prefix: str, urls: Mapping[str, str], timeout_s: float = TIMEOUT_S) -> Shards:
        return cls(control, prefix, {name: connect(url, timeout_s=timeout_s) for name, url in urls.items()})

    def close(self) -> None:
        for shard in self._shards.values():
            shard.client.close()

    def prefix_of(self, slot: int) -> str:
        """Of the keys of a slot; no key of the frontier that has the slots begins like this."""
        return self._prefixes[slot]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._shards)

    # --- the table -----------------------------------------------------------------------------------------------

    def table(self, *, anew: bool = False) -> Mapping[int, str]:
        """Slot → name of its server. A frontier that has none yet divides its slots among those that there are."""
        if anew or not self._table or time.monotonic() - self._read_at > TABLE_S:
            try:
                self._table = self._read()
            except RedisUnavailable:
                if anew or not self._table:
                    raise  # else the last one is a good hint
            self._read_at = time.monotonic()
        return self._table

    def _read(self) -> dict[int, str]:
        with translated_errors("shards"):
            found = self._stored()
            if len(found) < SLOTS:
                self._divide()
                found = self._stored()
        return found

    def _stored(self) -> dict[int, str]:
        told = cast("dict[str, str]", self._control.hgetall(f"{self._prefix}:shards"))
        return {int(slot): name for slot, name in told.items()}

    def _divide(self) -> None:
        """A frontier begins, or its control Redis was emptied: all servers must be there."""
        self.check_apart()
        names, found = sorted(self._shards), self._found()
        for name, shard in self._shards.items():
            run = str(shard.client.info("server")["run_id"])
            if shard.client.set(self.server_keys.run, run, nx=True):
                shard.client.set(self.server_keys.whole, run)
            for slot in range(SLOTS):
                where = found.get(slot, names[slot * len(names) // SLOTS])
                if where == name and shard.client.get(self.keys[slot].mark) != HERE:
                    shard.client.set(self.keys[slot].mark, HERE)
        pipeline = self._control.pipeline(transaction=True)
        for slot in range(SLOTS):
            pipeline.hsetnx(f"{self._prefix}:shards", str(slot), found.get(slot, names[slot * len(names) // SLOTS]))
        pipeline.execute()

    def _found(self) -> dict[int, str]:
        """Slots that are somewhere, although no table says so: the control Redis has lost it."""
        found: dict[int, str] = {}
        for name, shard in self._shards.items():
            marks = cast("list[str | None]", shard.client.mget([keys.mark for keys in self.keys]))
            for slot, mark in enumerate(marks):
                if mark == HERE or (mark and mark.startswith(_FROZEN) and slot not in found):
                    found[slot] = name
        return found

    def check_apart(self, *, all_there: bool = True) -> None:
        """Two names must not be one database of one server: what is under the one would be taken for the other's.

        Raises RedisUnavailable when one is away, unless it is enough to ask those that are there.
        """
        met: dict[tuple[str, int], str] = {}
        for name, shard in self._shards.items():
            try:
                client = shard.client if all_there else self.present(name)
                with translated_errors("shards"):
                    run = str(client.info("server")["run_id"])
            except RedisUnavailable as exc:
                if all_there:
                    raise
                self.failed(name, exc)
                continue
            database = int(client.connection_pool.connection_kwargs.get("db") or 0)
            other = met.setdefault((run, database), name)
            if other != name:
                raise InputError(f"SHOAL_SHARDS: {other} and {name} are the same database of the same server")

    def note(self, slot: int, name: str) -> None:
        """A slot has moved."""
        with translated_errors("shards"):
            self._control.hset(f"{self._prefix}:shards", str(slot), name)
        self._table[slot] = name

    def by_server(self, slots: Iterable[int] = range(SLOTS)) -> dict[str, list[int]]:
        """Name of a server → those of the slots that are there."""
        table, found = self.table(), dict[str, list[int]]()
        for slot in slots:
            found.setdefault(table[slot], []).append(slot)
        return found

    def follow(self, slot: int, exc: Elsewhere) -> None:
        """A slot is not where it was: wait a moment, or go to where it is."""
        if not exc.has_moved:
            time.sleep(MOVE_PAUSE_S)
        elif exc.where.removeprefix(_MOVED) in self._shards:
            self._table[slot] = exc.where.removeprefix(_MOVED)
            return
        self._read_at = 0.0

    # --- servers -------------------------------------------------------------------------------------------------

    def of(self, slot: int) -> Shard:
        """Where a slot is; raises RedisUnavailable when that server did not answer a moment ago."""
        shard = self.shard(self.table()[slot])
        shard.check()
        return shard

    def shard(self, name: str) -> Shard:
        try:
            return self._shards[name]
        except KeyError:
            raise RedisUnavailable(_unnamed(name)) from None

    def present(self, name: str) -> redis.Redis:
        """The client of a server, unless it did not answer a moment ago."""
        shard = self.shard(name)
        shard.check()
        return shard.client

    def failed(self, name: str, error: RedisUnavailable) -> None:
        """A server did not answer."""
        if name in self._shards and self._shards[name].rests_until <= time.monotonic():
            self._shards[name].failed(error)

    def answered(self, name: str) -> None:
        self.shard(name).answered()

    @property
    def unnamed(self) -> list[str]:
        """Servers that have slots, as the table says, and that SHOAL_SHARDS does not name."""
        return sorted(set(self._table.values()) - self._shards.keys())

    def troubles(self) -> tuple[Trouble, ...]:
        """Servers that did not answer a moment ago, and such as cannot be asked."""
        now = time.monotonic()
        unnamed = (Trouble(Need.REDIS, _unnamed(name)[:MAX_MESSAGE], 0) for name in self.unnamed)
        return (*(shard.trouble for shard in self._shards.values() if shard.rests_until > now), *unnamed)


def _unnamed(name: str) -> str:
    return f"hosts are on the shard {name!r}, which SHOAL_SHARDS does not name"


class Faces(Generic[Face]):
    """What is asked of single slots, of one kind: an object for each."""

    def __init__(self, shards: Shards, make: Callable[[redis.Redis, str, int], Face]) -> None:
        """`make` gets the client of the slot's server, the prefix of its keys, and its number."""
        self._shards = shards
        self._make = make
        self._made: dict[tuple[str, int], Face] = {}

    def on(self, slot: int, do: Callable[[Face], T], *, tries: int = 2, patience_s: float = MOVE_S) -> T:
        """Ask a slot, wherever it is. A connection that was lost is tried once more: every operation may be repeated.

        Raises RedisUnavailable when its server is away or was started anew and not looked at yet, and when the slot is
        on its way for longer than somebody has patience.
        """
        patience, hops = time.monotonic() + patience_s, 0
        while True:
            shard = self._shards.of(slot)
            try:
                answer = do(self._face(shard, slot))
            except Elsewhere as exc:
                hops += 1
                impatient = exc.is_moving and time.monotonic() >= patience
                if hops > MOST_HOPS or impatient or not (exc.is_moving or exc.has_moved):
                    raise
                self._shards.follow(slot, exc)
            except RedisUnavailable as exc:
                tries -= 1
                silent = isinstance(exc.__cause__, exceptions.TimeoutError)
                if not tries or silent:
                    shard.failed(exc)
                    raise
            else:
                shard.answered()
                return answer

    def each_there(self, slots: Iterable[int], do: Callable[[Face], T]) -> dict[int, T]:
        """Ask several slots, as far as their servers are there."""
        found: dict[int, T] = {}
        for slot in slots:
            with suppress(RedisUnavailable):
                found[slot] = self.on(slot, do, patience_s=0)
        return found

    def _face(self, shard: Shard, slot: int) -> Face:
        known = self._made.get((shard.name, slot))
        if known is None:
            known = self._make(shard.client, self._shards.prefix_of(slot), slot)
            self._made[shard.name, slot] = known
        return known
