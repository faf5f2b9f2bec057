"""Jobs whose hosts are spread over slots: opened where they have hosts, let in, limited.

The list of jobs in the control Redis has a job's state, its life and the set of its slots.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TypeVar

from shoal.core.model import AdmitReport, JobState, Lease, Request
from shoal.errors import RedisUnavailable
from shoal.frontier.budgets import Budgets
from shoal.frontier.job_list import NOTHING, Facts, JobList, Joined, Standing
from shoal.frontier.memory import MOST_KNOWN, remember
from shoal.frontier.register import Register
from shoal.frontier.scripts import Arg
from shoal.frontier.shards import Faces, Shards
from shoal.frontier.slot import Sealed, SlotFrontier
from shoal.frontier.spread_ends import SpreadEnds
from shoal.frontier.spread_view import SpreadView
from shoal.frontier.tag import name_of, parse_name
from shoal.frontier.wire import Triple

LOOK_S = 0.5
"""This often a process sums up the bytes of a job that has a budget of them."""
KNOWN_S = 1.0
"""So long a process takes for true what it has read of a job."""
MOST_CUTS = 3
"""Looks at what a smaller budget leaves out."""
MOST_TRIES = 50
"""Of bringing something to a job that others are about to end, again and again."""

T = TypeVar("T")


class SpreadJobs:
    """The jobs of one frontier in slots."""

    def __init__(self, jobs: JobList, register: Register, shards: Shards, slots: Faces[SlotFrontier]) -> None:
        """`register` tells how jobs stand in the list."""
        self.list = jobs
        self.view = SpreadView(jobs, shards)
        self.ends = SpreadEnds(jobs, slots, self.view)
        self._register = register
        self._slots = slots
        self._shares = Budgets(jobs, slots)
        self._bytes: dict[str, tuple[int, float]] = {}
        """Job → the budget of bytes, and when it was read."""
        self._begun: set[str] = set()
        """Names whose first lease is known everywhere."""
        self._summed_at: dict[str, float] = {}
        self._known: dict[str, tuple[Standing, float]] = {}
        """Job → how it stands in the list, and when that was read."""

    # --- something comes -----------------------------------------------------------------------------------------

    def bring(
        self,
        joined: Joined,
        slot: int,
        do: Callable[[SlotFrontier, str], T],
        unknown: T,
        before: Callable[[Joined], bool] = lambda _: True,
    ) -> tuple[Joined, T]:
        """Do something in a slot that may bring requests to a job; it is made known there, and goes on, if need be.

        `do` gets the slot and the job's name in it; it answers `unknown` when the slot does not know the job. So does
        `before`, which asks others, too, with False. Returns the job as it is now, which may have come to its end, and
        the last answer.
        """
        for _ in range(MOST_TRIES):
            if joined.state is None or joined.over:
                return joined, unknown
            name, answer = joined.name, unknown
            try:
                if before(joined):
                    answer = self._slots.on(slot, lambda each, name=name: do(each, name))
            except Sealed:
                joined = self.ends.go_on(joined, slot)
                continue
            if answer != unknown:
                return joined, answer
            joined = self.list.join(joined.job, [slot], from_pages=True)  # if not, that was written down before
            if joined.recalls:
                return joined, unknown  # it takes nothing before it knows what is stored
            if joined.state is not None and not joined.over:
                self.open(joined, slot)
        raise RedisUnavailable(f"job {joined.job} could not be brought to slot {slot}; try again")

    def open(self, joined: Joined, slot: int) -> None:
        """Make a job known to a slot that is in its set."""
        facts = self.list.facts(joined.job)
        if facts is None or facts.life != joined.life:
            return
        self.open_slot(facts, slot)

    def open_slot(self, facts: Facts, slot: int) -> None:
        given: list[Arg] = [*facts.limits, "limits", facts.version, "time", facts.time]
        if facts.pages:
            given += ("pages", 0, "share", 0)
        expected = facts.expected // 4
        self._slots.on(
            slot,
            lambda each: each.open_slot(facts.name, facts.tenant, facts.weight, facts.elapsed_ms, expected, given),
        )
        if facts.state != JobState.RUNNING:
            self._slots.on(slot, lambda each: each.follow_state(facts.name, facts.state))

    def admit(
        self, job: str, found: Mapping[int, Sequence[Triple]], duplicates: int = 0, *, from_pages: bool = False
    ) -> tuple[AdmitReport, Joined, dict[int, RedisUnavailable]]:
        """Let URLs in, by their slots. (what became of them, the job, slots that are away and why)"""
        joined = self.list.join(job, found, duplicates, from_pages=from_pages)
        if not joined.takes:
            return AdmitReport(None if joined.recalls else joined.state), joined, {}
        report, away = AdmitReport(joined.state, duplicates=duplicates), dict[int, RedisUnavailable]()
        for slot, triples in found.items():
            try:
                joined, part = self._admit(joined, slot, triples)
            except RedisUnavailable as exc:
                away[slot] = exc
                continue
            report += part
        return replace(report, state=None if joined.recalls else joined.state), joined, away

    def _admit(self, joined: Joined, slot: int, triples: Sequence[Triple]) -> tuple[Joined, AdmitReport]:
        wanted = sum(1 for each in triples if each[1])

        def top_up(now: Joined) -> bool:
            return not wanted or not now.pages or self._shares.top_up(now.job, now.life, slot, wanted)

        return self.bring(joined, slot, lambda each, name: each.let_in(name, triples), AdmitReport(None), top_up)

    def replay(self, job: str, token: str, dead: Mapping[int, Sequence[tuple[Request, str]]]) -> JobState | None:
        """Dead requests are tried again, as far as their servers are there; then raises RedisUnavailable."""
        joined, problem = self.list.join(job, dead), None
        if not joined.takes:
            return None if joined.recalls else joined.state
        for slot, some in dead.items():

            def again(each: SlotFrontier, name: str, some: Sequence[tuple[Request, str]] = some) -> str:
                return each.try_again(name, token, some)

            def cover(now: Joined, slot: int = slot, back: int = len(some)) -> bool:
                return not now.pages or self._shares.cover(now.job, now.life, slot, back)

            try:
                joined, _ = self.bring(joined, slot, again, "", cover)
            except RedisUnavailable as exc:
                problem = exc
        if problem and joined.takes:
            raise problem
        return joined.state

    def remember(self, job: str, seen: Mapping[int, Sequence[tuple[int, str]]]) -> bool:
        """What a restored job has seen; False when it is unknown."""
        joined = self.list.join(job, seen)
        for slot, some in seen.items():
            joined, _ = self.bring(joined, slot, lambda each, name, some=some: each.remember(name, some), False)
        return joined.state is not None

    # --- limits --------------------------------------------------------------------------------------------------

    def configure(self, job: str) -> None:
        """The limits of the list for all slots; of a smaller budget of pages, what waits beyond it is dropped."""
        self.list.next_limits(job)
        facts = self.list.facts(job)
        if facts is None:
            return
        self._bytes.pop(job, None)
        slots, excess = self.list.slots_of(job), self.excess(facts)
        for _ in range(MOST_CUTS):
            for slot in slots:
                try:
                    excess -= self.configure_slot(facts, slot, excess)
                except RedisUnavailable:  # it is told when it is back; nobody knows what it has done
                    excess = self.excess(facts)
            excess = self.excess(facts)
            if not excess:  # else something came before its slot had heard of it
                break

    def excess(self, facts: Facts) -> int:
        """Pages that the job has used beyond its budget, in slots that are there."""
        if not facts.pages:
            return 0
        (status,) = self._register.statuses([facts.job])
        sums, before = status and status.counters, 0
        if status and sums:  # a restored job has used some before
            before = sums.admitted - sums.dead - sums.dropped - status.redirects
        return self._shares.excess(facts, self.list.slots_of(facts.job), before)

    def configure_slot(self, facts: Facts, slot: int, excess: int) -> int:
        """Returns how many requests are dropped there."""
        dropped = self._shares.set_anew(facts, slot, excess)
        given: list[Arg] = [*facts.limits, "limits", facts.version]
        if not facts.pages:
            given += ("pages", 0, "share", "")
        self._slots.on(slot, lambda each: each.configure_slot(facts.name, given))
        return dropped

    def note_used(self, joined: Joined, slot: int) -> None:
        """Stored pages were recalled there: they are of the budget."""
        if joined.pages:
            self._shares.cover(joined.job, joined.life, slot)

    def follow(self, job: str, state: JobState | None) -> None:
        """All slots that are there are told the job's state."""
        if state is None:
            return
        facts = self.list.facts(job)
        if facts is None:
            return
        for slot in self.list.slots_of(job):
            with suppress(RedisUnavailable):  # it is told when it is back
                self._slots.on(slot, lambda each: each.follow_state(facts.name, state.value), patience_s=0)
                self.set_time(facts, slot)

    def set_time(self, facts: Facts, slot: int) -> None:
        """The job's time runs there as it does as a whole."""
        elapsed = facts.elapsed_ms
        if elapsed is not None:
            self._slots.on(slot, lambda each: each.start_slot(facts.name, elapsed, facts.time), patience_s=0)

    def check_seconds(self, names: Iterable[str]) -> None:
        """Slots say that these have no time left, or nothing at all: the list knows."""
        for name in set(names):
            facts = self.list.facts(parse_name(name)[0])
            seconds = float(facts.limit("seconds")) if facts else 0
            if facts is None or facts.name != name or not seconds or facts.elapsed_ms is None:
                continue
            slots = self.list.slots_of(facts.job)
            if facts.elapsed_ms >= seconds * 1000:
                self._slots.each_there(slots, lambda each, name=name: each.spend_all(name, "over_seconds"))
                continue
            for slot in slots:
                with suppress(RedisUnavailable):
                    self.set_time(facts, slot)

    def check_bytes(self, jobs: Iterable[str]) -> list[str]:
        """Those that have used up their bytes, over all their slots, get no more requests; returns these."""
        now, spent = time.monotonic(), list[str]()
        for job in jobs:
            most = self._most_bytes(job)
            if not most or now - self._summed_at.get(job, -LOOK_S) < LOOK_S:
                continue
            remember(self._summed_at, job, now)
            status, parts = self._register.statuses([job])[0], self.view.statuses([job])[job]
            if status and sum(part.counters.received for part in (status, *parts)) >= most:
                name = name_of(job, self.list.lives([job]).get(job, NOTHING).life)
                slots = self.list.slots_of(job)
                self._slots.each_there(slots, lambda each, name=name: each.spend_all(name, "over_bytes"))
                spent.append(job)
        return spent

    def _most_bytes(self, job: str) -> int:
        known = self._bytes.get(job)
        if known is None or time.monotonic() - known[1] > KNOWN_S:
            facts = self.list.facts(job)
            known = int(facts.limit("bytes") if facts else 0), time.monotonic()
            remember(self._bytes, job, known)
        return known[0]

    def agree_on_shares(self, job: str) -> None:
        """After a loss, the list and the slots say the same of the job's budget again; else whoever needs it asks."""
        with suppress(RedisUnavailable):
            self._shares.agree(job)

    # --- leases --------------------------------------------------------------------------------------------------

    def current(self, names: Iterable[str]) -> dict[str, str]:
        """Name → state of the job, of those that are the present lives of their jobs."""
        wanted = {name: parse_name(name) for name in names}
        late = time.monotonic() - KNOWN_S
        anew = [job for job, life in wanted.values() if not self._knows(job, life, late)]
        if anew:
            lives, now = self.list.lives(anew), time.monotonic()
            for job in anew:
                remember(self._known, job, (lives.get(job, NOTHING), now))
        found = {name: (self._known[job][0], life) for name, (job, life) in wanted.items()}
        return {name: each.state for name, (each, life) in found.items() if each.life == life and not each.ended}

    def _knows(self, job: str, life: str, since: float) -> bool:
        """Was it read lately that the job runs, and that this is its life?"""
        standing, read_at = self._known.get(job, (NOTHING, 0.0))
        return read_at > since and standing.life == life and standing.state == JobState.RUNNING

    def note_starts(self, leases: Sequence[Lease]) -> None:
        """With its first lease in any slot, a job's time runs in all of them. Jobs have their names in slots."""
        for name in {lease.job for lease in leases} - self._begun:
            if len(self._begun) >= MOST_KNOWN:
                self._begun.clear()
            job, life = parse_name(name)
            if self.list.note_start(job, life) and (facts := self.list.facts(job)):
                for slot in self.list.slots_of(job):
                    with suppress(RedisUnavailable):  # it is told when it is back
                        self.set_time(facts, slot)
            self._begun.add(name)
