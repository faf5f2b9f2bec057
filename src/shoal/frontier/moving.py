"""Slots on their way from one server to another, while everything else goes on.

A slot is frozen by its mark, and nobody works with it: for as long as its keys are copied, its hosts wait. Then the
mark says where it has gone, the table follows, and what was copied is deleted. Each step is taken only if the marks on
both servers are those of this move, in one call with what it does: whoever was held up and is overtaken changes
nothing. A slot whose mover has died before its mark said where it has gone stays where it was; after that, it moved.

Nothing moves away from a server that has not made good yet what it lost: that would be looked for on this server, and
not where the slot has gone. And a server that is started anew in the middle of a move may have lost some of what was
copied: both ends must be the same runs of the servers until the slot has gone.
"""

# redis-py's hints leave gaps: what falls into them is unknown to the checker in this file only.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, cast

import redis
from redis.exceptions import WatchError

from shoal.core.frozen import frozen
from shoal.core.model import ALL_QUEUES
from shoal.errors import Conflict, InputError, RedisUnavailable
from shoal.frontier.scripts import Scripts, translated_errors
from shoal.frontier.shards import HERE, Shards
from shoal.frontier.slot_keys import SlotKeys
from shoal.frontier.slots import list_prefix

KEYS_AT_ONCE = 500
CLAIM_S = 30
"""Who moves slots and is silent for longer has given it up."""
MOVING, MOVED, ARRIVING, ARRIVED = "moving", "moved", "arriving", "arrived"
_OTHER_RUN, _NOT_WELL = -1, -2


@frozen
class Move:
    """One slot, from one server to another."""

    slot: int
    source: str
    target: str


def plan(table: Mapping[int, str], names: Sequence[str]) -> list[Move]:
    """As few moves as it takes until the servers of these names have equally many slots, and others have none."""
    held: dict[str, list[int]] = {name: [] for name in sorted(names)}
    homeless: list[tuple[int, str]] = []
    for slot, name in sorted(table.items()):
        if name in held:
            held[name].append(slot)
        else:
            homeless.append((slot, name))
    fewest, more = divmod(len(table), len(held))
    room = dict.fromkeys(held, fewest)
    for name in sorted(held, key=lambda name: -len(held[name]))[:more]:
        room[name] += 1  # those that have the most keep one more
    homeless += [(slot, name) for name, slots in held.items() for slot in slots[room[name] :]]
    free = [name for name, slots in held.items() for _ in range(room[name] - len(slots))]
    return [Move(slot, source, target) for (slot, source), target in zip(homeless, free, strict=True)]


class _End:
    """A slot on one of the two servers."""

    def __init__(self, name: str, raw: redis.Redis, shards: Shards, slot: int) -> None:
        self._name = name
        self._raw = raw
        self._scripts = Scripts(raw, shards.prefix_of(slot), shards.server_prefix, any_mark=True)
        self._keys = shards.keys[slot]
        self._fence = shards.server_keys.fence

    def run(self) -> str:
        """Of the server."""
        with translated_errors("move"):
            return str(self._raw.info("server")["run_id"])

    def mark(self) -> str:
        with translated_errors("move"):
            return _text(self._raw.get(self._keys.mark) or b"")

    def set_mark(self, before: str, after: str, run: str = "", *, well: bool = False) -> bool:
        """One mark takes another's place; False when another one is there.

        Raises RedisUnavailable when the server is not this run, or, if it has to be `well`, has lost something that is
        not made good yet.
        """
        found = int(self._scripts.call("mark_slot", [before, after, run, int(well)]))
        if found == _OTHER_RUN:
            raise RedisUnavailable(f"the shard {self._name} was started anew meanwhile, and is looked at; try again")
        if found == _NOT_WELL:
            raise RedisUnavailable(
                f"the shard {self._name} was started anew, and what it may have lost is not made good yet; "
                "try again when all shards are there"
            )
        return bool(found)

    def heed_losses(self, other: _End) -> None:
        """Losses of servers that the other end knows of are known here, too."""
        with translated_errors("move"):
            fence = int(other._raw.get(other._fence) or 0)
        self._scripts.call("raise_fence", [fence])

    def put(self, mark: str, triples: Sequence[tuple[bytes, int, bytes]]) -> bool:
        """Keys with their dumps, or none to delete them; False when another mark is there."""
        with translated_errors("move"), self._raw.pipeline(transaction=True) as pipeline:
            pipeline.watch(self._keys.mark)
            if _text(pipeline.get(self._keys.mark) or b"") != mark:
                return False
            pipeline.multi()
            for key, ttl, dump in triples:
                if dump:
                    pipeline.restore(key, ttl, dump, replace=True)
                else:
                    pipeline.unlink(key)
            try:
                pipeline.execute()
            except WatchError:
                return False
        return True

    def clear(self, mark: str, go_on: Callable[[], None] = lambda: None) -> bool:
        """All keys but the mark go; False when another mark is there. `go_on` is called again and again meanwhile."""
        for some in self.each_keys():
            if some and not self.put(mark, [(key, 0, b"") for key in some]):
                return False
            go_on()
        return True

    def each_keys(self) -> Iterator[list[bytes]]:
        """All but the mark; from time to time an empty list, while others' keys are passed over."""
        cursor = 0
        while True:
            with translated_errors("move"):
                cursor, found = cast(Any, self._raw.scan(cursor, match=self._keys.every, count=KEYS_AT_ONCE))
            yield [key for key in found if _text(key) != self._keys.mark]
            if not int(cursor):
                return

    def dumps(self, keys: Sequence[bytes]) -> list[tuple[bytes, int, bytes]]:
        with translated_errors("move"):
            pipeline = self._raw.pipeline(transaction=False)
            for key in keys:
                pipeline.dump(key)
                pipeline.pttl(key)
            found = pipeline.execute()
        pairs = zip(keys, found[::2], found[1::2], strict=True)
        return [(key, 0 if ttl == -1 else max(1, ttl), dump) for key, dump, ttl in pairs if dump is not None]


class Mover:
    """Moves slots of one frontier."""

    def __init__(self, control: redis.Redis, prefix: str, shards: Shards, raw: Mapping[str, redis.Redis]) -> None:
        """`raw` are clients of the same servers whose answers are bytes."""
        self._control = control
        self._prefix = list_prefix(prefix)
        self.shards = shards
        self._raw = raw
        self._caretaker = Caretaker(control, prefix, shards)

    def close(self) -> None:
        for client in (self._control, *self._raw.values()):
            client.close()
        self.shards.close()

    def plan(self, retire: str = "") -> list[Move]:
        """What would be moved; a server that is to be retired gives all that it has.

        What a mover has left half done is seen to first: the table may not say yet where slots have gone.
        """
        if retire and retire not in self.shards.names:
            raise InputError(f"SHOAL_SHARDS names no shard {retire!r}")
        names = [name for name in self.shards.names if name != retire]
        if not names:
            raise InputError("the only shard cannot be retired")
        self._caretaker.tend()
        return plan(self.shards.table(anew=True), names)

    def slots(self, name: str) -> list[int]:
        """Those that a server has."""
        return [slot for slot, owner in sorted(self.shards.table().items()) if owner == name]

    def look(self, name: str) -> tuple[int, int]:
        """(requests that wait on a server, its memory in bytes)"""
        self.shards.shard(name)  # has it a name?
        client = self._raw[name]
        with translated_errors("shards"):
            pipeline = client.pipeline(transaction=False)
            for slot in self.slots(name):
                SlotKeys(self.shards.prefix_of(slot)).ask_for_depth(pipeline, ALL_QUEUES)
            waiting = sum(int(count or 0) for counts in pipeline.execute() for count in counts)
            return waiting, int(client.info("memory")["used_memory"])

    def move(self, move: Move, tell: Callable[[int], None] = lambda _: None) -> int:
        """Carry out one; returns how many keys were moved. Raises Conflict when somebody else moves slots."""
        token = secrets.token_hex(8)
        self.shards.check_apart()
        self._prepare(move.target)
        old, new = self._end(move.source, move.slot), self._end(move.target, move.slot)
        self._claim(token)
        try:
            return self._move(move, old, new, token, tell)
        finally:
            with suppress(RedisUnavailable):
                self._unclaim(token)

    def _move(self, move: Move, old: _End, new: _End, token: str, tell: Callable[[int], None]) -> int:
        if self.shards.table(anew=True)[move.slot] != move.source:
            raise Conflict(f"slot {move.slot} has moved already")
        runs, arriving = (old.run(), new.run()), f"{ARRIVING} {token}"
        there = new.mark()  # first: while the slot is here, nothing that is there can be the slot
        if not old.set_mark(HERE, HERE, runs[0], well=True):
            raise Conflict(f"slot {move.slot} is not on {move.source} now: {old.mark() or 'it was lost'}")
        if there.startswith((HERE, MOVING)):
            raise Conflict(f"slot {move.slot} seems to be on {move.target} too, which is looked at; try again")
        if not new.set_mark(there, arriving, runs[1]) or not new.clear(arriving, lambda: self._renew(token)):
            raise Conflict(f"somebody else is moving slot {move.slot}")
        if not old.set_mark(HERE, f"{MOVING} {token}", runs[0], well=True):
            raise Conflict(f"slot {move.slot} is not on {move.source} now: {old.mark() or 'it was lost'}")
        try:
            copied = self._copy(old, new, arriving, token, tell)
            if not new.set_mark(arriving, f"{ARRIVED} {token}", runs[1]):
                raise Conflict("somebody else moves this slot; try again")
            new.heed_losses(old)
            if not old.set_mark(f"{MOVING} {token}", f"{MOVED} {move.target}", runs[0]):
                raise Conflict(f"slot {move.slot} took too long to move, and stays where it is; try again")
        except BaseException:
            with suppress(RedisUnavailable):  # else others find out that this mover has died
                if not old.mark().startswith(MOVED):
                    old.set_mark(f"{MOVING} {token}", HERE)
                    new.clear(arriving)
            raise
        finish(self.shards, move, old, new, token)
        return copied

    def _end(self, name: str, slot: int) -> _End:
        if name not in self._raw:
            raise InputError(f"slot {slot} is on the shard {name!r}, which SHOAL_SHARDS does not name")
        return _End(name, self._raw[name], self.shards, slot)

    def _prepare(self, name: str) -> None:
        """A server that never had a slot is one that nobody has looked at: there was nothing to look at."""
        client, keys = self._raw[name], self.shards.server_keys
        with translated_errors("move"):
            run = str(client.info("server")["run_id"])
            if not self.slots(name) and client.set(keys.run, run, nx=True):
                client.set(keys.whole, run)
                client.set(keys.epoch, client.time()[0] * 1000)  # of another server of this name, it was a smaller one
            elif _text(client.get(keys.run) or b"") != run:
                raise RedisUnavailable(f"the shard {name} was started anew, and is looked at first; try again")

    def _claim(self, token: str) -> None:
        with translated_errors("move"):
            if not self._control.set(f"{self._prefix}:mover", token, nx=True, ex=CLAIM_S):
                raise Conflict("somebody else is moving slots; try again")

    def _unclaim(self, token: str) -> None:
        with translated_errors("move"):
            if self._control.get(f"{self._prefix}:mover") == token:
                self._control.delete(f"{self._prefix}:mover")

    def _renew(self, token: str) -> None:
        with translated_errors("move"):
            if self._control.get(f"{self._prefix}:mover") != token:
                raise Conflict("the move took too long; try again")
            self._control.expire(f"{self._prefix}:mover", CLAIM_S)

    def _copy(self, old: _End, new: _End, mark: str, token: str, tell: Callable[[int], None]) -> int:
        copied = 0
        for some in old.each_keys():
            dumps = old.dumps(some)
            if dumps and not new.put(mark, dumps):
                raise Conflict("somebody else moves this slot; try again")
            copied += len(dumps)
            self._renew(token)
            tell(copied)
        return copied


def finish(shards: Shards, move: Move, old: _End, new: _End, token: str) -> None:
    """A slot has gone: the other server has it, the table says so, and the old place is cleared."""
    new.set_mark(f"{ARRIVED} {token}", HERE)
    shards.note(move.slot, move.target)
    old.clear(f"{MOVED} {move.target}")


class Caretaker:
    """Sees to slots whose movers have died."""

    def __init__(self, control: redis.Redis, prefix: str, shards: Shards) -> None:
        self._control = control
        self._prefix = list_prefix(prefix)
        self._shards = shards

    def tend(self) -> None:
        """Those that had not gone stay where they are; those that had are there."""
        for name, slots in self._shards.by_server().items():
            with suppress(RedisUnavailable):
                client = self._shards.present(name)
                with translated_errors("move"):
                    marks = cast("list[str | None]", client.mget([self._shards.keys[slot].mark for slot in slots]))
                for slot, mark in zip(slots, marks, strict=True):
                    if mark and mark != HERE:
                        self._see_to(slot, name, mark)

    def _see_to(self, slot: int, name: str, mark: str) -> None:
        what, _, which = mark.partition(" ")
        old = _End(name, self._shards.present(name), self._shards, slot)
        with translated_errors("move"):
            mover = cast("str | None", self._control.get(f"{self._prefix}:mover"))
        if (what == MOVING and mover != which) or what == ARRIVED:  # the last step was forgotten
            old.set_mark(mark, HERE)
        elif what == MOVED and which in self._shards.names:
            new = _End(which, self._shards.present(which), self._shards, slot)
            there, _, token = new.mark().partition(" ")
            if there in (ARRIVED, HERE):
                finish(self._shards, Move(slot, name, which), old, new, token)


def _text(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
