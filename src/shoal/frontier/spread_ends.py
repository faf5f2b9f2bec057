"""The end of jobs whose hosts are spread over slots: nothing is left anywhere, and nothing comes.

It is decided in two steps: every slot is sealed, which it is only when nothing of the job is left there and nothing can
be missing; and when all are, the list ends the job. Whatever comes to a sealed slot meanwhile makes the list go on
first, so either the end is written down and nothing came, or the job goes on. Of several who end a job at once, the
last who began may end it, and nobody takes his seals off without calling his end off.
"""

from __future__ import annotations

from contextlib import suppress

from shoal.errors import RedisUnavailable
from shoal.frontier.job_list import Ending, JobList, Joined
from shoal.frontier.shards import Faces
from shoal.frontier.slot import Rest, SlotFrontier
from shoal.frontier.spread_view import SpreadView
from shoal.frontier.tag import name_of


class SpreadEnds:
    """Ends the jobs of one frontier in slots."""

    def __init__(self, jobs: JobList, slots: Faces[SlotFrontier], view: SpreadView) -> None:
        self._list = jobs
        self._slots = slots
        self._view = view

    def go_on(self, joined: Joined, slot: int) -> Joined:
        """A slot is sealed: nobody ends the job now, or somebody has ended it."""
        name = joined.name
        seal = self._slots.on(slot, lambda each: each.unseal(name))
        if not seal:
            return joined
        now = self._list.go_on(joined.job)
        if not now.over and now.state is not None:
            self._slots.on(slot, lambda each: each.unseal(name, seal))
        return now

    def try_end(self, job: str) -> bool:
        """End the job if nothing of it is left; True for the one caller who has done so."""
        if not self._seems_over(job):
            return False
        ending = self._list.begin_end(job)
        if ending is None:
            return False
        name = name_of(job, ending.life)
        rests = self._seal(name, ending)
        if len(rests) == len(ending.slots) and self._list.end(job, ending.token, list(rests.values())):
            return True
        self._list.give_up_end(job, ending.token)
        for slot in rests:
            with suppress(RedisUnavailable):  # whoever comes there finds out
                self._slots.on(slot, lambda each: each.unseal(name, ending.token), patience_s=0)
        return False

    def _seems_over(self, job: str) -> bool:
        """A cheap look, before slots are sealed and perhaps unsealed again."""
        facts = self._list.facts(job)
        if facts is None or facts.ended:
            return False
        pairs = [(facts.name, slot) for slot in self._list.slots_of(job)]
        raw, away = self._view.raw(pairs)
        if away:
            return False
        return not any(
            int(raw[pair][0].get(place, 0))
            for pair in pairs
            if pair in raw
            for place in ("queued", "delayed", "leased")
        )

    def _seal(self, name: str, ending: Ending) -> dict[int, Rest]:
        """Slot → what the job leaves there; up to the first that cannot be sealed."""
        rests: dict[int, Rest] = {}
        for slot in ending.slots:
            rest = None
            with suppress(RedisUnavailable):  # nobody knows what is left there
                rest = self._slots.on(slot, lambda each: each.seal(name, ending.token, ending.state), patience_s=0)
            if rest is None:
                break
            rests[slot] = rest
        return rests
