"""The end of jobs whose hosts are spread over slots: nothing is left anywhere, and nothing comes.

It is decided in two steps: every slot is sealed, which it is only when nothing of the job is left there and nothing can
be missing; and when all are, the list ends the job. Whatever comes to a sealed slot meanwhile makes the list go on
first, so either the end is written down and nothing came, or the job goes on.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from shoal.errors import RedisUnavailable
from shoal.frontier.job_list import JobList, Joined
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
        now = self._list.go_on(joined.job, seal) if seal else joined
        if seal and not now.over and now.state is not None:
            self._slots.on(slot, lambda each: each.unseal(name, seal))
        return replace(now, pages=joined.pages)

    def try_end(self, job: str) -> bool:
        """End the job if nothing of it is left; True for the one caller who has done so."""
        if not self._seems_over(job):
            return False
        token = secrets.token_hex(6)
        begun = self._list.begin_end(job, token)
        if begun is None:
            return False
        life, state, slots = begun
        name = name_of(job, life)
        rests = self._seal(name, token, state, slots)
        if rests is not None and self._list.end(job, token, rests):
            return True
        self._list.go_on(job, token)
        for slot in slots:
            with suppress(RedisUnavailable):  # whoever comes there finds out
                self._slots.on(slot, lambda each: each.unseal(name, token), patience_s=0)
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

    def _seal(self, name: str, token: str, state: str, slots: Sequence[int]) -> list[Rest] | None:
        rests: list[Rest] = []
        for slot in slots:
            try:
                rest = self._slots.on(slot, lambda each: each.seal(name, token, state), patience_s=0)
            except RedisUnavailable:
                return None  # nobody knows what is left there
            if rest is None:
                return None
            rests.append(rest)
        return rests
