"""One of the servers that hosts are spread over, as it is looked at: what it has and has lost, what it was told."""

# redis-py's hints leave gaps: what falls into them is unknown to the checker in this file only.
# pyright: reportUnknownMemberType=false
from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import cast

import redis

from shoal.errors import RedisUnavailable
from shoal.frontier.link_lines import Place
from shoal.frontier.moving import ARRIVED, ARRIVING, MOVED, MOVING
from shoal.frontier.rebuild import LEASES_A_MS, Rebuild
from shoal.frontier.scripts import Scripts, translated_errors
from shoal.frontier.shards import HERE, Shards
from shoal.frontier.wire import ms

_THERE = (HERE, MOVING, ARRIVED)
DOUBTFUL = f"{MOVING} doubt"
"""The mark of a slot that another server should have, which is away."""


class ServerRebuild(Rebuild):
    """One server, as it is looked at."""

    def __init__(self, name: str, client: redis.Redis, shards: Shards) -> None:
        super().__init__(client, shards.server_prefix)
        self.name = name
        self._shards = shards

    def slots(self) -> list[int]:
        """That the table says are here."""
        return self._shards.by_server().get(self.name, [])

    def lost_slots(self) -> dict[int, str]:
        """Those of them that are not here, nor where they have gone to, with their marks: not all keys are there."""
        marks = self.marks()
        return {slot: marks[slot] for slot in self.slots() if self._is_lost(slot, marks[slot])}

    def marked(self) -> dict[int, str]:
        """All slots that the table says are here, with their marks."""
        marks = self.marks()
        return {slot: marks[slot] for slot in self.slots()}

    def _is_lost(self, slot: int, mark: str) -> bool:
        """Where a slot has gone to, it may be; if that server cannot be asked, nobody can tell."""
        for _ in self._shards.names:
            if mark.startswith(_THERE):
                return False
            name = mark.removeprefix(f"{MOVED} ")
            if not mark.startswith(MOVED) or name not in self._shards.names:
                break
            try:
                server = ServerRebuild(name, self._shards.present(name), self._shards)
                if server.server() != server.trusted():
                    return False
                mark = server.marks()[slot]
            except RedisUnavailable as exc:
                self._shards.failed(name, exc)
                return False
        return True

    def marks(self) -> list[str]:
        """Of all slots."""
        with translated_errors("look"):
            marks = self._client.mget([keys.mark for keys in self._shards.keys])
        return [mark or "" for mark in cast("list[str | None]", marks)]

    def has(self, slot: int) -> bool:
        """Is the slot here, or about to leave?"""
        return self.marks()[slot].startswith((HERE, MOVING))

    def disown(self) -> None:
        """Slots that are elsewhere are not here, too: this server may have forgotten that they have gone.

        While the server cannot be asked that should have it, nobody works with such a slot.
        """
        table = self._shards.table(anew=True)
        for slot, mark in enumerate(self.marks()):
            owner = table[slot]
            if owner == self.name or not mark or mark.startswith((MOVED, ARRIVING, ARRIVED)):
                continue
            try:
                has = ServerRebuild(owner, self._shards.present(owner), self._shards).has(slot)
            except RedisUnavailable as exc:
                self._shards.failed(owner, exc)
                self._mark(slot, mark, DOUBTFUL)
                continue
            if has:
                self._mark(slot, mark, f"{MOVED} {owner}")
            elif mark == DOUBTFUL:
                self._mark(slot, mark, HERE)

    def _mark(self, slot: int, before: str, after: str, run: str = "") -> None:
        """Unless the slot has another mark by now, or the server is another run."""
        scripts = Scripts(self._client, self._shards.prefix_of(slot), self._shards.server_prefix, any_mark=True)
        scripts.call("mark_slot", [before, after, run, 0])

    def begin_slots(self, slots: Mapping[int, str], run: str) -> None:
        """They may be worked with, whatever they have, if their marks are still these."""
        for slot, mark in slots.items():
            self._mark(slot, mark, HERE, run)

    def skip_leases(self, run: str, duration: timedelta) -> None:
        for slot in self.slots():
            prefix = self._shards.prefix_of(slot)
            scripts = Scripts(self._client, prefix, self._shards.server_prefix, any_mark=True)
            scripts.call("skip_leases", [run, ms(duration) * LEASES_A_MS])

    def is_whole(self, run: str) -> bool:
        """Is made good what this run of the server may have lost? Until then no job ends that has hosts there."""
        with translated_errors("look"):
            return self._client.get(f"{self._prefix}:whole") == run

    def note_whole(self, run: str) -> None:
        with translated_errors("look"):
            self._client.set(f"{self._prefix}:whole", run)
            self._client.delete(self._shards.server_keys.asked)

    def begin_asking(self, run: str, fence: int) -> None:
        """All are to be asked for links that went to this server, and that this run does not have."""
        with translated_errors("look"):
            self._client.hset(self._shards.server_keys.asked, f"{run} fence", str(fence))

    def asked(self, run: str) -> tuple[int, dict[int, Place]]:
        """(the number of the loss, 0 when nobody has begun; slot → how far it was asked)"""
        with translated_errors("look"):
            found = cast("dict[str, str]", self._client.hgetall(self._shards.server_keys.asked))
        start = f"{run} "
        mine = {key.removeprefix(start): text for key, text in found.items() if key.startswith(start)}
        fence = int(mine.pop("fence", 0))
        return fence, {int(slot): Place.of(text) for slot, text in mine.items()}

    def note_asked(self, run: str, slot: int, place: Place) -> None:
        with translated_errors("look"):
            self._client.hset(self._shards.server_keys.asked, f"{run} {slot}", str(place))

    def raise_epoch(self, beyond: int) -> None:
        """It only grows."""
        with translated_errors("epoch"):
            epoch = int(self._client.get(f"{self._prefix}:epoch") or 0)
            self._client.incrby(f"{self._prefix}:epoch", max(1, beyond + 1 - epoch))

    def fence(self) -> int:
        """The last loss of a server that is known there."""
        with translated_errors("fence"):
            return int(self._client.get(self._shards.server_keys.fence) or 0)

    def raise_fence(self, fence: int) -> int:
        """Links that were sent before this one are sent again; returns the highest that is known there."""
        return int(self._scripts.call("raise_fence", [fence]))
