"""A job's budget of pages, shared out among its slots: never more than the budget, and all of it.

What each slot may have stands in the list of jobs, with a version, and in the slot. A grant is written down in the list
first; a slot gives up first what it has not used, then that is written down. So the slots never have more than the list
says, and whoever is cut short leaves a difference that the next one puts right.
"""

from __future__ import annotations

import time
from contextlib import suppress

from shoal.errors import RedisUnavailable
from shoal.frontier.job_list import Facts, JobList
from shoal.frontier.scripts import Arg
from shoal.frontier.shards import Faces
from shoal.frontier.slot import Share, SlotFrontier
from shoal.frontier.tag import name_of

DRY_S = 0.5
"""So long nobody is asked again to give up pages of a job whose budget is used up."""
MOST_KNOWN = 10_000


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
        share, dry = self._grant(job, life, slot, wanted - share.left)
        if share and share.left < wanted and dry and self._dry_until.get(name, 0.0) <= time.monotonic():
            for other in self._jobs.slots_of(job):
                if other != slot:
                    with suppress(RedisUnavailable):
                        self._give_up(job, life, other)
            share, _ = self._grant(job, life, slot, wanted - share.left)
            if share and not share.left:
                if len(self._dry_until) >= MOST_KNOWN:
                    self._dry_until.clear()
                self._dry_until[name] = time.monotonic() + DRY_S
        return True

    def _grant(self, job: str, life: str, slot: int, pages: int) -> tuple[Share | None, bool]:
        limit, version, dry = self._jobs.allot(job, life, slot, pages)
        return self._slots.on(slot, lambda each: each.share(name_of(job, life), limit, version)), dry

    def _give_up(self, job: str, life: str, slot: int) -> None:
        _, version, _ = self._jobs.allot(job, life, slot, 0)
        share = self._slots.on(slot, lambda each: each.share(name_of(job, life), "-", version), patience_s=0)
        if share and share.version == version:
            self._jobs.note_share(job, life, slot, share.pages, version)

    def set_anew(self, facts: Facts, slot: int, cut: int) -> list[Arg]:
        """Fields for a slot under a new budget, of which so many pages that wait are to be dropped."""
        self._dry_until.pop(facts.name, None)
        if not facts.pages:
            return ["pages", 0, "share", ""]
        share = self._slots.on(slot, lambda each: each.share(facts.name))
        limit = max(0, share.used - cut) if share else 0
        _, version, _ = self._jobs.allot(facts.job, facts.life, slot, 0)
        self._jobs.note_share(facts.job, facts.life, slot, limit, version)
        return ["pages", limit, "share", version + 1]

    def used(self, facts: Facts, slot: int) -> int:
        """Pages that a slot has used."""
        share = self._slots.on(slot, lambda each: each.share(facts.name))
        return share.used if share else 0

    def agree(self, facts: Facts, slot: int) -> None:
        """The list and the slot say the same again, after one of them has lost something or was not told."""
        share = self._slots.on(slot, lambda each: each.share(facts.name), patience_s=0)
        if share is None or not facts.pages:
            return
        pages, version = self._jobs.shares(facts.job).get(slot, (0, 0))
        if share.version > version or (share.version == version and share.pages > pages):
            self._jobs.note_share(facts.job, facts.life, slot, share.pages, None)
        elif share.version < version and share.pages != pages:
            self._grant(facts.job, facts.life, slot, 0)
