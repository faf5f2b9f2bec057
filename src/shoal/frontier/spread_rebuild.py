"""Lost jobs of a frontier in slots on their way back; and what servers lose, each by itself.

A server that was started anew is not worked with before somebody has looked at it. A job that is dropped gets another
life: what any slot has of the earlier one is nobody's, so it can be rebuilt whichever servers are away.
"""

# redis-py's hints leave gaps: what falls into them is unknown to the checker in this file only.
# pyright: reportUnknownMemberType=false
from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import cast

import redis

from shoal.core.manners import DEFAULT_MANNERS, Manners
from shoal.core.trouble import Trouble
from shoal.errors import RedisUnavailable
from shoal.frontier.job_list import NOTHING, JobList
from shoal.frontier.moving import ARRIVED, ARRIVING, MOVED, MOVING, Caretaker
from shoal.frontier.rebuild import Rebuild, Recalled
from shoal.frontier.register import Register
from shoal.frontier.scripts import Arg, Scripts, translated_errors
from shoal.frontier.shards import HERE, Faces, Shards
from shoal.frontier.slots import LIST, list_prefix, slot_of
from shoal.frontier.spread import slot_frontiers
from shoal.frontier.spread_jobs import SpreadJobs
from shoal.frontier.tag import new_life, parse_name
from shoal.frontier.troubles import TroubleBoard

_THERE = (HERE, MOVING, ARRIVED)
ALL = 1_000_000
"""Lines that are read at once."""


@dataclass(frozen=True, slots=True)
class Line:
    """Pages of a slot whose links went to other slots, or are owed to them."""

    slot: int
    """That has the pages."""
    text: str
    job: str
    life: str
    to: frozenset[int]
    pages: tuple[int, ...]

    @classmethod
    def read(cls, slot: int, text: str) -> Line:
        name, to, pages, _ = text.split(" ")
        return cls(slot, text, *parse_name(name), frozenset(map(int, to.split(","))), tuple(map(int, pages.split(","))))


class ServerRebuild(Rebuild):
    """One server, as it is looked at."""

    def __init__(self, name: str, client: redis.Redis, shards: Shards) -> None:
        super().__init__(client, shards.server_prefix)
        self.name = name
        self._shards = shards

    def slots(self) -> list[int]:
        """That the table says are here."""
        return self._shards.by_server().get(self.name, [])

    def lost_slots(self) -> list[int]:
        """Those of them that are not here: their keys are not all there, unless some other server has them."""
        marks = self.marks()
        return [slot for slot in self.slots() if not marks[slot].startswith(_THERE) and self._can_tell(marks[slot])]

    def _can_tell(self, mark: str) -> bool:
        """Where a slot has gone to, it may be; if that server can be asked, it tells."""
        target = mark.removeprefix(f"{MOVED} ") if mark.startswith(MOVED) else ""
        if target not in self._shards.names:
            return True
        server = ServerRebuild(target, self._shards.present(target), self._shards)
        return server.server() == server.trusted()

    def marks(self) -> list[str]:
        """Of all slots."""
        with translated_errors("look"):
            marks = self._client.mget([keys.mark for keys in self._shards.keys])
        return [mark or "" for mark in cast("list[str | None]", marks)]

    def has(self, slot: int) -> bool:
        """Is the slot here, or about to leave?"""
        return self.marks()[slot].startswith((HERE, MOVING))

    def disown(self) -> None:
        """Slots that are elsewhere are not here, too: this server may have forgotten that they have gone."""
        table = self._shards.table(anew=True)
        for slot, mark in enumerate(self.marks()):
            owner = table[slot]
            if owner == self.name or not mark or mark.startswith((MOVED, ARRIVING, ARRIVED)):
                continue
            there = ServerRebuild(owner, self._shards.present(owner), self._shards)
            if there.has(slot):
                with translated_errors("look"):
                    self._client.set(self._shards.keys[slot].mark, f"{MOVED} {owner}")

    def begin_slots(self, slots: Iterable[int]) -> None:
        """They may be worked with, whatever they have."""
        with translated_errors("look"):
            for slot in slots:
                self._client.set(self._shards.keys[slot].mark, HERE)

    def skip_leases(self, run: str, duration: timedelta) -> None:
        for slot in self.slots():
            Rebuild(self._client, self._shards.prefix_of(slot)).skip_leases(run, duration)

    def is_whole(self, run: str) -> bool:
        """Is made good what this run of the server may have lost? Until then no job ends that has hosts there."""
        with translated_errors("look"):
            return self._client.get(f"{self._prefix}:whole") == run

    def note_whole(self, run: str) -> None:
        with translated_errors("look"):
            self._client.set(f"{self._prefix}:whole", run)

    def set_epoch(self, epoch: int) -> None:
        with translated_errors("epoch"):
            self._client.set(f"{self._prefix}:epoch", epoch)

    def raise_fence(self, fence: int) -> int:
        """Links that were sent before this one are sent again; returns the highest that is known there."""
        return int(self._scripts.call("raise_fence", [fence]))


class SpreadRebuild(Rebuild):
    """The way back for jobs of a frontier in slots."""

    def __init__(self, control: redis.Redis, prefix: str, shards: Shards, manners: Manners = DEFAULT_MANNERS) -> None:
        jobs = list_prefix(prefix)
        super().__init__(control, jobs, manners)
        self._scripts = Scripts(control, jobs, LIST)
        self.shards = shards
        self._slots = slot_frontiers(shards, manners, "")
        self._rebuilds = Faces(shards, lambda client, slot_prefix, _: _SlotRebuild(client, slot_prefix, shards))
        register = Register(control, jobs, TroubleBoard(control, prefix))
        self.jobs = SpreadJobs(JobList(control, prefix), register, shards, self._slots)
        self.caretaker = Caretaker(control, prefix, shards)

    def close_connections(self) -> None:
        super().close_connections()
        self.shards.close()

    def _marks(self, expected: int) -> list[Arg]:
        return ["life", new_life(), "expected", expected]

    def recall(self, job: str, rows: Sequence[Recalled]) -> int:
        by_slot: dict[int, list[Recalled]] = {}
        for row in rows:
            by_slot.setdefault(slot_of(row.host), []).append(row)
        joined, new = self.jobs.list.join(job, by_slot), 0
        for slot, some in by_slot.items():
            if joined.state is None or joined.over:
                break
            self.jobs.open(joined, slot)
            name = joined.name
            new += self._rebuilds.on(slot, lambda each, name=name, some=some: each.recall(name, some))
            self.jobs.note_used(joined, slot)
        self.jobs.list.note_recalled(job, new, min((row.at_ms for row in rows if row.at_ms), default=0))
        return new

    def advance(self, job: str, place: str, to: str) -> tuple[str, bool]:
        now, _ = super().advance(job, place, to)
        return now, not now and self.jobs.ends.try_end(job)

    # --- servers -------------------------------------------------------------------------------------------------

    def servers(self) -> dict[str, ServerRebuild]:
        """Those that are there."""
        found: dict[str, ServerRebuild] = {}
        for name in self.shards.names:
            with suppress(RedisUnavailable):
                found[name] = ServerRebuild(name, self.shards.present(name), self.shards)
        return found

    def away(self, name: str, error: RedisUnavailable) -> Trouble:
        """A server did not answer."""
        self.shards.failed(name, error)
        return self.shards.shard(name).trouble

    def adopt(self, slots: Iterable[int], owner: str) -> list[int]:
        """Of slots that a server does not have: those that no other has. Where one has it, the table was wrong."""
        lost: list[int] = []
        for slot in slots:
            others = [each for name, each in self.servers().items() if name != owner and each.has(slot)]
            if others:
                self.shards.note(slot, others[0].name)
            else:
                lost.append(slot)
        return lost

    def jobs_in(self, jobs: Sequence[str], slots: Iterable[int]) -> list[str]:
        """Those of the jobs that have hosts in these slots; all, when the list may have forgotten that they have."""
        if not self.is_whole(self.server()):
            return list(jobs)
        members, wanted = self.jobs.list.slots(jobs), set(slots)
        return [job for job in jobs if wanted & set(members[job])]

    def is_whole(self, run: str) -> bool:
        """Is made good what the control Redis may have lost? One that never had anything has lost nothing."""
        with translated_errors("look"):
            known = self._client.get(f"{self._prefix}:whole")
            return known == run or (known is None and bool(self._client.set(f"{self._prefix}:whole", run, nx=True)))

    def note_whole(self, run: str) -> None:
        with translated_errors("look"):
            self._client.set(f"{self._prefix}:whole", run)

    def strangers(self) -> tuple[set[str], bool]:
        """Jobs of which some slot knows another life than the list. (these; was every slot asked?)

        The list may have gone back by a moment: slots that a job has are added to its set.
        """
        names, away = self.jobs.view.names()
        lives = self.jobs.list.lives(self.jobs.list.known())
        strange: set[str] = set()
        for slot, here in names.items():
            for job, life in map(parse_name, here):
                standing = lives.get(job, NOTHING)
                if standing.life == life:
                    self.jobs.list.add_slot(job, slot)
                elif standing is not NOTHING and not standing.ended:
                    strange.add(job)
        return strange, not away

    # --- links ---------------------------------------------------------------------------------------------------

    def fence(self) -> tuple[int, bool]:
        """Raise it on all servers: what was sent before is found by `sent`. (the fence; do all servers have it?)"""
        while True:
            fence, complete, highest = self.jobs.list.next_fence(), True, 0
            for name in self.shards.names:
                try:
                    server = ServerRebuild(name, self.shards.present(name), self.shards)
                    highest = max(highest, server.raise_fence(fence))
                except RedisUnavailable as exc:
                    self.shards.failed(name, exc)
                    complete = False
            if highest <= fence:
                return fence, complete
            self.jobs.list.raise_fence(highest)  # the control Redis has forgotten some

    def lines(self, kind: str, ago: timedelta = timedelta(), at_most: int = ALL) -> tuple[list[Line], bool]:
        """Pages whose links were `sent`, or are `owed`. (these; was every slot asked?)"""
        found, complete = list[Line](), True
        for slot in range(len(self.shards.table())):
            try:
                texts = self._slots.on(slot, lambda each: each.read_links(kind, ago, at_most), patience_s=0)
            except RedisUnavailable:
                complete = False
                continue
            found += [Line.read(slot, text) for text in texts]
        return found, complete

    def are_there(self, slots: Iterable[int], well: Mapping[str, bool]) -> bool:
        """Are the servers of these slots among those that are well?"""
        table = self.shards.table()
        return all(well.get(table[slot], False) for slot in slots)

    def note_lines(self, lines: Sequence[Line], *, again: bool) -> None:
        """Their links were sent once more; or have arrived for good."""
        by_slot: dict[int, list[str]] = {}
        for line in lines:
            by_slot.setdefault(line.slot, []).append(line.text)
        for slot, texts in by_slot.items():
            with suppress(RedisUnavailable):
                self._slots.on(slot, lambda each, texts=texts: each.links_sent(texts, again=again), patience_s=0)


class _SlotRebuild(Rebuild):
    def __init__(self, client: redis.Redis, prefix: str, shards: Shards) -> None:
        super().__init__(client, prefix)
        self._scripts = Scripts(client, prefix, shards.server_prefix)
