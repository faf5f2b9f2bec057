"""Lost jobs of a frontier in slots on their way back, and links that are sent again.

A server that was started anew is not worked with before somebody has looked at it. A job that is dropped gets another
life: what any slot has of the earlier one is nobody's, so it can be rebuilt whichever servers are away.
"""

# redis-py's hints leave gaps: what falls into them is unknown to the checker in this file only.
# pyright: reportUnknownMemberType=false
from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import cast

import redis

from shoal.core.manners import DEFAULT_MANNERS, Manners
from shoal.core.trouble import Trouble
from shoal.errors import RedisUnavailable
from shoal.frontier.job_list import NOTHING, JobList
from shoal.frontier.link_lines import Line, Place
from shoal.frontier.moving import Caretaker
from shoal.frontier.rebuild import Rebuild, Recalled
from shoal.frontier.register import Register
from shoal.frontier.scripts import Arg, Scripts, translated_errors
from shoal.frontier.server_rebuild import ServerRebuild
from shoal.frontier.shards import Faces, Shards
from shoal.frontier.slots import list_prefix, slot_of
from shoal.frontier.spread import slot_frontiers
from shoal.frontier.spread_jobs import SpreadJobs
from shoal.frontier.tag import new_life, parse_name
from shoal.frontier.troubles import TroubleBoard
from shoal.frontier.wire import ms

LINKS_CLAIM = timedelta(seconds=10)
"""For so long one process alone sees to links between slots."""
LINES_AT_ONCE = 1_000


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
