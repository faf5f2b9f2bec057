"""A job's budget of pages, shared out among its slots: never more than the budget, and all of it.

What each slot may have stands in the list of jobs, with a version, and in the slot. A grant is written down in the list
first; a slot gives up first what it has not used, then that is written down. So the slots never have more than the list
says, and whoever is cut short leaves a difference that the next one puts right. Pages that are used without being asked
for, as they are recalled or replayed, count in any case; pages that have died are the list's to give out again.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import suppress

from shoal.errors import RedisUnavailable
from shoal.frontier.job_list import Facts, Forgotten, JobList
from shoal.frontier.memory import remember
from shoal.frontier.shards import Faces
from shoal.frontier.slot import Share, SlotFrontier
from shoal.frontier.tag import name_of

DRY_S = 0.5
"""So long nobody is asked again to give up pages of a job whose budget is used up."""
MOST_TRIES = 5
"""Of setting a share that others are about to raise."""


class Budgets:
    """Those of one frontier in slots."""

    def __init__(self, jobs: JobList, slots: Faces[SlotFrontier]) -> None:
        self._jobs = jobs
        self._slots = slots
        self._dry_until: dict[str, float] = {}

    def top_up(self, job: str, life: str, slot: int, wanted: int) -> bool:
        """See to it that a slot may take so many pages in, as far as the budget goes; False: it is unknown there."""
        name = name_of(job, life)
        share = self._slots.on(slot, lambda each: each.share(name))
        if share is None or share.left >= wanted:
            return share is not None
        try:
            share, dry = self._grant(job, life, slot, share, wanted)
        except Forgotten:
            self.agree(job)
            share, dry = self._grant(job, life, slot, share, wanted)
        if share and share.left < wanted and dry and self._dry_until.get(name, 0.0) <= time.monotonic():
            self._collect(job, life, slot)
            share, _ = self._grant(job, life, slot, share, wanted)
            if share and share.left <= 0:
                remember(self._dry_until, name, time.monotonic() + DRY_S)
        return True

    def cover(self, job: str, life: str, slot: int, back: int = 0) -> bool:
        """The budget knows what a slot has used, and what comes back to it; False: the job is unknown there."""
        share = self._slots.on(slot, lambda each: each.share(name_of(job, life)))
        if share and (back or share.left < 0) and self._grant(job, life, slot, share, 0, back)[1]:
            self._collect(job, life, slot)
        return share is not None

    def _grant(
        self, job: str, life: str, slot: int, share: Share, wanted: int = 0, back: int = 0
    ) -> tuple[Share | None, bool]:
        name, (limit, version, dry) = name_of(job, life), self._jobs.allot(job, life, slot, share, wanted, back)
        return self._slots.on(slot, lambda each: each.share(name, limit, version, back)), dry

    def _collect(self, job: str, life: str, slot: int) -> None:
        """All others give up what they have not used."""
        for other in self._jobs.slots_of(job):
            if other != slot:
                with suppress(RedisUnavailable):
                    self._give_up(job, life, other)

    def _give_up(self, job: str, life: str, slot: int) -> None:
        _, version, _ = self._jobs.allot(job, life, slot)
        share = self._slots.on(slot, lambda each: each.share(name_of(job, life), "-", version), patience_s=0)
        if share and share.version == version:
            self._jobs.note_share(job, life, slot, share.pages, version)

    def excess(self, facts: Facts, slots: Iterable[int], before: int) -> int:
        """Pages that slots have used beyond the budget, of which so many were used before; as far as they are there."""
        if not facts.pages:
            return 0
        shares = self._slots.each_there(slots, lambda each: each.share(facts.name))
        return max(0, before + sum(share.used for share in shares.values() if share) - facts.pages)

    def set_anew(self, facts: Facts, slot: int, cut: int) -> int:
        """Under a new budget a slot has what it has used, less so many that wait; returns how many were dropped."""
        self._dry_until.pop(facts.name, None)
        dropped = 0
        for _ in range(MOST_TRIES if facts.pages else 0):
            _, version, _ = self._jobs.allot(facts.job, facts.life, slot)
            left = cut - dropped
            share = self._slots.on(slot, lambda each, v=version, left=left: each.cut_share(facts.name, v, left))
            if share is None:
                break
            if share.version == version:  # else it has got some meanwhile
                dropped += share.dropped
                if self._jobs.note_share(facts.job, facts.life, slot, share.pages, version):
                    break
        return dropped

    def agree(self, job: str) -> None:
        """The list and the slots say the same again, after one of them has lost something or was not told.

        Raises RedisUnavailable when not all can be asked.
        """
        run, facts = self._jobs.run(), self._jobs.facts(job)
        if facts is None or not facts.pages or facts.ended:
            return
        for slot in self._jobs.slots_of(job):
            self._agree_with(facts, slot)
        self._jobs.note_agreed(job, facts.life, run)

    def _agree_with(self, facts: Facts, slot: int) -> None:
        share = self._slots.on(slot, lambda each: each.share(facts.name), patience_s=0)
        if share is None:
            return
        pages, version = self._jobs.shares(facts.job).get(slot, (0, 0))
        has = max(share.pages if share.version >= version else pages, share.used)
        if (has, share.version) != (pages, version):
            self._jobs.note_forgotten(facts.job, facts.life, slot, has, share.version)
            self._grant(facts.job, facts.life, slot, share)
