"""What nobody else sees to in a frontier in slots.

Slots that were away hear what became of jobs, jobs end whose end nobody has seen, and earlier lives of jobs go.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress

from shoal.errors import RedisUnavailable
from shoal.frontier.job_list import NOTHING, Facts, Standing
from shoal.frontier.shards import Faces
from shoal.frontier.slot import SEALED, SlotFrontier
from shoal.frontier.spread_jobs import SpreadJobs
from shoal.frontier.tag import name_of, parse_name

STRANGE_S = 60.0
"""Names that nobody knows are dropped after this: the list may have gone back by a moment, and know them again."""
JOBS_AT_ONCE = 50
"""Of all jobs, in one look at how they stand in all their slots."""


class SpreadKeeper:
    """Keeps house among the jobs of one frontier in slots."""

    def __init__(self, jobs: SpreadJobs, slots: Faces[SlotFrontier]) -> None:
        self._jobs = jobs
        self._list = jobs.list
        self._view = jobs.view
        self._slots = slots
        self._next_job = 0
        self._strange_since: dict[tuple[int, str], float] = {}
        self._looked_for_strangers = float("-inf")

    def tend(self) -> tuple[str, ...]:
        """Jobs are in all slots what they are, and end; earlier lives go. Returns jobs that came to their end."""
        known = self._list.known()
        self._next_job = self._next_job if self._next_job < len(known) else 0
        window = known[self._next_job : self._next_job + JOBS_AT_ONCE]
        self._next_job += JOBS_AT_ONCE
        lives, members = self._list.lives(window), self._list.slots(window)
        names = {job: name_of(job, each.life) for job, each in lives.items() if not each.ended}
        raw, away = self._view.raw([(name, slot) for job, name in names.items() for slot in members[job]])
        ended: list[str] = []
        for job, name in names.items():
            parts = {slot: raw[name, slot][0] for slot in members[job] if (name, slot) in raw}
            changed = self._align(job, parts, lives[job])
            pending = not changed and sum(
                int(raw[name, slot][0].get(place, 0))
                for slot in members[job]
                if (name, slot) in raw
                for place in ("queued", "delayed", "leased")
            )
            if not pending and not away & set(members[job]) and self._jobs.ends.try_end(job):
                ended.append(job)
        self._drop_strangers()
        return tuple(ended)

    def _align(self, job: str, parts: Mapping[int, Mapping[str, str]], standing: Standing) -> bool:
        """A slot that was away has not heard of what became of the job; one that nobody opened is opened.

        Tells whether there was one.
        """
        changed = False
        for slot, values in parts.items():
            here = values.get("was") if values.get("state") == SEALED else values.get("state")
            told = (here, values.get("limits", "0"), values.get("time", ""))
            if told == (standing.state, standing.limits, standing.time):
                continue
            facts = self._list.facts(job)
            if facts is None or facts.ended:
                break
            with suppress(RedisUnavailable):
                self._align_slot(facts, slot, values, here)
                changed = True
        return changed

    def _align_slot(self, facts: Facts, slot: int, values: Mapping[str, str], here: str | None) -> None:
        if here is None:  # also of a cancelled job: it ends when all its slots are sealed
            self._jobs.open_slot(facts, slot)
            return
        if here != facts.state and values.get("state") != SEALED:
            self._slots.on(slot, lambda each: each.follow_state(facts.name, facts.state), patience_s=0)
        if values.get("limits", "0") != str(facts.version):
            self._jobs.configure_slot(facts, slot, self._jobs.excess(facts))
        self._jobs.set_time(facts, slot)

    def _drop_strangers(self) -> None:
        """Earlier lives of jobs: they are nobody's, and have been for a while."""
        if time.monotonic() - self._looked_for_strangers < STRANGE_S / 6:
            return
        self._looked_for_strangers = time.monotonic()
        found = self._view.names()[0]
        lives = self._list.lives(list({parse_name(name)[0] for names in found.values() for name in names}))
        now, strange = time.monotonic(), dict[tuple[int, str], float]()
        for slot, names in found.items():
            for name in names:
                job, life = parse_name(name)
                if lives.get(job, NOTHING).life != life:
                    strange[slot, name] = self._strange_since.get((slot, name), now)
        for (slot, name), since in list(strange.items()):
            if now - since >= STRANGE_S:
                with suppress(RedisUnavailable):
                    self._slots.on(slot, lambda each, name=name: each.drop_name(name), patience_s=0)
        self._strange_since = strange
