"""Lost jobs of a frontier in slots on their way back; and what servers lose, each by itself.

A server that was started anew is not worked with before somebody has looked at it. A job that is dropped gets another
life: what any slot has of the earlier one is nobody's, so it can be rebuilt whichever servers are away.
"""

# redis-py's hints leave gaps: what falls into them is unknown to the checker in this file only.
# pyright: reportUnknownMemberType=false
from __future__ import annotations

import secrets
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
from shoal.frontier.rebuild import LEASES_A_MS, Rebuild, Recalled
from shoal.frontier.register import Register
from shoal.frontier.scripts import Arg, Scripts, translated_errors
from shoal.frontier.shards import HERE, Faces, Shards
from shoal.frontier.slots import list_prefix, slot_of
from shoal.frontier.spread import slot_frontiers
from shoal.frontier.spread_jobs import SpreadJobs
from shoal.frontier.tag import new_life, parse_name
from shoal.frontier.troubles import TroubleBoard
from shoal.frontier.wire import ms

_THERE = (HERE, MOVING, ARRIVED)
DOUBTFUL = f"{MOVING} doubt"
"""The mark of a slot that another server should have, which is away."""
LINKS_CLAIM = timedelta(seconds=10)
"""For so long one process alone sees to links between slots."""
LINES_AT_ONCE = 1_000
_DONE = "done"


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

    def only(self, slots: frozenset[int]) -> str:
        """The same about some of the slots that it is about; '' about none."""
        name, _, rest = self.text.split(" ", 2)
        return f"{name} {','.join(map(str, sorted(slots)))} {rest}" if slots else ""


@dataclass(frozen=True, slots=True)
class Place:
    """How far the lines of a slot are read."""

    since: int = 0
    """ms on the clock of its server, from which on there may be more;"""
    upto: int = 0
    """and up to which; 0: up to now."""

    @property
    def ended(self) -> bool:
        return self.since < 0

    def __str__(self) -> str:
        return _DONE if self.ended else f"{self.since} {self.upto}"

    @classmethod
    def of(cls, text: str | None) -> Place:
        """As it was written down."""
        if text is None:
            return cls()
        return cls(-1) if text == _DONE else cls(*map(int, text.split(" ")))


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


class SpreadRebuild(Rebuild):
    """The way back for jobs of a frontier in slots."""

    def __init__(self, control: redis.Redis, prefix: str, shards: Shards, manners: Manners = DEFAULT_MANNERS) -> None:
        jobs = list_prefix(prefix)
        super().__init__(control, jobs, manners)
        self._scripts = Scripts(control, jobs, jobs)
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
        first_ms = min((row.at_ms for row in rows if row.at_ms), default=0)
        self.jobs.list.note_recalled(job, joined.life, new, first_ms)
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

    def blame(self, name: str, error: RedisUnavailable) -> Trouble | None:
        """A look at a server has failed; None when it answers: then another one does not."""
        try:
            ServerRebuild(name, self.shards.present(name), self.shards).server()
        except RedisUnavailable:
            self.shards.failed(name, error)
            return self.shards.shard(name).trouble
        return None

    def adopt(self, slots: Mapping[int, str], owner: str) -> dict[int, str]:
        """Of slots that a server does not have: those that no other has. Where one has it, the table was wrong."""
        lost: dict[int, str] = {}
        for slot, mark in slots.items():
            others = [name for name, each in self.servers().items() if name != owner and self._has(each, slot)]
            if others:
                self.shards.note(slot, others[0])
            else:
                lost[slot] = mark
        return lost

    def _has(self, server: ServerRebuild, slot: int) -> bool:
        try:
            return server.has(slot)
        except RedisUnavailable as exc:
            self.shards.failed(server.name, exc)
            return False

    def unended(self) -> list[str]:
        """Jobs that the list knows, and that have not ended there."""
        lives = self.jobs.list.lives(self.jobs.list.known())
        return [job for job, standing in lives.items() if not standing.ended]

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

    def claim_links(self) -> str:
        """May the caller see to links between slots? One at a time may, who gets a token; '' for the others."""
        chore, token = "links", secrets.token_hex(8)
        with translated_errors("claim"):
            return token if self._client.set(f"{self._prefix}:chore:{chore}", token, nx=True, ex=LINKS_CLAIM) else ""

    def unclaim_links(self, token: str) -> None:
        chore = "links"
        with translated_errors("claim"):
            if self._client.get(f"{self._prefix}:chore:{chore}") == token:
                self._client.delete(f"{self._prefix}:chore:{chore}")

    def fence(self) -> int:
        """Raise it on all servers that are there: what was sent before is found by `sent`."""
        while True:
            fence, highest = self.jobs.list.next_fence(), 0
            for name in self.shards.names:
                try:
                    server = ServerRebuild(name, self.shards.present(name), self.shards)
                    highest = max(highest, server.raise_fence(fence))
                except RedisUnavailable as exc:
                    self.shards.failed(name, exc)  # it is told before it is asked
            if highest <= fence:
                return fence
            self.jobs.list.raise_fence(highest)  # the control Redis has forgotten some

    def lines(
        self, kind: str, slot: int, place: Place, fence: int = 0, ago: timedelta = timedelta()
    ) -> tuple[list[Line], Place]:
        """Some of the pages of a slot whose links were `sent`, or are `owed`, for so long. (these; where to go on)

        Before they are read, its server is told of a loss.
        """
        upto, more, *texts = self._rebuilds.on(
            slot,
            lambda each: each.read_links([kind, place.since, place.upto or -ms(ago), LINES_AT_ONCE, fence]),
            patience_s=0,
        )
        return [Line.read(slot, text) for text in texts], Place(int(more), int(upto))

    def note_paid(self, line: Line, to: frozenset[int], fence: int, *, mine: bool) -> bool:
        """Of an owed line, links to these slots were sent; False when some server has lost something since `fence`."""
        left = line.only(line.to - to) if mine else ""
        args: list[Arg] = [fence, line.text, left, line.only(to) if mine else ""]
        return self._rebuilds.on(line.slot, lambda each: each.pay_links(args), patience_s=0)

    def note_lines(self, lines: Sequence[Line], *, again: bool) -> None:
        """Their links were sent once more; or have arrived for good."""
        by_slot: dict[int, list[str]] = {}
        for line in lines:
            by_slot.setdefault(line.slot, []).append(line.text)
        for slot, texts in by_slot.items():
            with suppress(RedisUnavailable):
                for start in range(0, len(texts), LINES_AT_ONCE):
                    some = texts[start : start + LINES_AT_ONCE]
                    self._slots.on(slot, lambda each, some=some: each.links_sent(some, again=again), patience_s=0)


class _SlotRebuild(Rebuild):
    def __init__(self, client: redis.Redis, prefix: str, shards: Shards) -> None:
        super().__init__(client, prefix)
        self._scripts = Scripts(client, prefix, shards.server_prefix)

    def read_links(self, args: list[Arg]) -> list[str]:
        return cast("list[str]", self._scripts.call("read_links", args))

    def pay_links(self, args: list[Arg]) -> bool:
        return bool(self._scripts.call("pay_links", args))
