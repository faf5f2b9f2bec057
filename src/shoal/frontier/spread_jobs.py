"""Jobs whose hosts are spread over slots: opened where they have hosts, summed up, ended when nothing is left anywhere.

The list of jobs in the control Redis has a job's state, its life and the set of its slots. Its end is decided in two
steps: every slot is sealed, which it is only when nothing of the job is left there and nothing can be missing; and when
all are, the list ends the job. Whatever comes to a sealed slot meanwhile makes the list go on first, so either the end
is written down and nothing came, or the job goes on.
"""

# redis-py's hints leave gaps: what falls into them is unknown to the checker in this file only.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, replace
from typing import Any, TypeVar, cast

from shoal.core.job_status import Counters, JobStatus
from shoal.core.model import AdmitReport, JobState, Lease, Request
from shoal.errors import RedisUnavailable
from shoal.frontier.budgets import Budgets
from shoal.frontier.job_list import NOTHING, Facts, JobList, Joined, Standing
from shoal.frontier.register import Register
from shoal.frontier.scripts import Arg, Elsewhere, translated_errors
from shoal.frontier.shards import HERE, Faces, Shards
from shoal.frontier.slot import SEALED, Rest, Sealed, SlotFrontier
from shoal.frontier.slot_keys import SLOWEST
from shoal.frontier.slots import SLOTS
from shoal.frontier.tag import name_of, parse_name
from shoal.frontier.wire import Glance, Triple, read_status, wait_of

LOOK_S = 0.5
"""This often a process sums up the bytes of a job that has a budget of them."""
KNOWN_S = 1.0
"""So long a process takes for true what it has read of a job."""
STRANGE_S = 60.0
"""Names that nobody knows are dropped after this: the list may have gone back by a moment, and know them again."""
JOBS_AT_ONCE = 50
"""Of all jobs, in one look at how they stand in all their slots."""
MOST_KNOWN = 10_000
MOST_TRIES = 50
"""Of bringing something to a job that others are about to end, again and again."""

T = TypeVar("T")
Raw = tuple[dict[str, str], dict[str, str], list[tuple[str, float]]]
"""A job's hash, its reasons and its slowest hosts."""


class SpreadJobs:
    """The jobs of one frontier in slots."""

    def __init__(self, jobs: JobList, register: Register, shards: Shards, slots: Faces[SlotFrontier]) -> None:
        """`register` tells how jobs stand in the list."""
        self.list = jobs
        self._register = register
        self._shards = shards
        self._slots = slots
        self._shares = Budgets(jobs, slots)
        self._keys = shards.keys
        self._bytes: dict[str, tuple[int, float]] = {}
        """Name → the budget of bytes, and when it was read."""
        self._begun: set[str] = set()
        """Names whose first lease is known everywhere."""
        self._summed_at: dict[str, float] = {}
        self._known: dict[str, tuple[Standing, float]] = {}
        """Job → how it stands in the list, and when that was read."""
        self._last: dict[tuple[str, int], Raw] = {}
        """What was last read of a job in a slot, for when its server is away."""
        self._next_job = 0
        self._strange_since: dict[tuple[int, str], float] = {}
        self._looked_for_strangers = float("-inf")

    # --- something comes -----------------------------------------------------------------------------------------

    def bring(self, joined: Joined, slot: int, do: Callable[[SlotFrontier, str], T], unknown: T) -> tuple[Joined, T]:
        """Do something in a slot that may bring requests to a job; it is made known there, and goes on, if need be.

        `do` gets the slot and the job's name in it; it answers `unknown` when the slot does not know the job. Returns
        the job as it is now, which may have come to its end, and the last answer.
        """
        for _ in range(MOST_TRIES):
            if joined.state is None or joined.over:
                return joined, unknown
            name = joined.name
            try:
                answer = self._slots.on(slot, lambda each, name=name: do(each, name))
            except Sealed:
                joined = self._go_on(joined, slot)
                continue
            if answer != unknown:
                return joined, answer
            joined = self.list.join(joined.job, [slot], from_pages=True)  # if not, that was written down before
            if joined.state is not None and not joined.over:
                self.open(joined, slot)
        raise RedisUnavailable(f"job {joined.job} could not be brought to slot {slot}; try again")

    def _go_on(self, joined: Joined, slot: int) -> Joined:
        """A slot is sealed: nobody ends the job now, or somebody has ended it."""
        name = joined.name
        seal = self._slots.on(slot, lambda each: each.unseal(name))
        now = self.list.go_on(joined.job, seal) if seal else joined
        if seal and not now.over and now.state is not None:
            self._slots.on(slot, lambda each: each.unseal(name, seal))
        return replace(now, pages=joined.pages)

    def open(self, joined: Joined, slot: int) -> None:
        """Make a job known to a slot that is in its set."""
        facts = self.list.facts(joined.job)
        if facts is None or facts.life != joined.life:
            return
        self._open(facts, slot)

    def _open(self, facts: Facts, slot: int) -> None:
        given: list[Arg] = [*facts.limits, "limits", facts.version]
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
        return replace(report, state=joined.state), joined, away

    def _admit(self, joined: Joined, slot: int, triples: Sequence[Triple]) -> tuple[Joined, AdmitReport]:
        wanted = sum(1 for each in triples if each[1]) if joined.pages else 0

        def let_in(each: SlotFrontier, name: str) -> AdmitReport:
            if wanted and not self._shares.top_up(joined.job, parse_name(name)[1], slot, wanted):
                return AdmitReport(None)
            return each.let_in(name, triples)

        return self.bring(joined, slot, let_in, AdmitReport(None))

    def replay(self, job: str, token: str, dead: Mapping[int, Sequence[tuple[Request, str]]]) -> JobState | None:
        """Dead requests are tried again, as far as their servers are there; then raises RedisUnavailable."""
        joined, problem = self.list.join(job, dead), None
        if not joined.takes:
            return None if joined.recalls else joined.state
        for slot, some in dead.items():
            try:
                joined, _ = self.bring(
                    joined, slot, lambda each, name, some=some: each.try_again(name, token, some), ""
                )
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
        self._bytes.pop(facts.name, None)
        slots, excess = self.list.slots_of(job), 0
        if facts.pages:
            used = self._slots.each_there(slots, lambda each: each.share(facts.name))
            excess = max(0, sum(share.used for share in used.values() if share) - self._left_of(facts))
        for slot in slots:
            with suppress(RedisUnavailable):  # it is told when it is back
                excess -= self._configure(facts, slot, excess)

    def _left_of(self, facts: Facts) -> int:
        """Pages of the budget that slots may have: a restored job has used some before."""
        (status,) = self._register.statuses([facts.job])
        if status is None:
            return facts.pages
        sums = status.counters
        return facts.pages - (sums.admitted - sums.dead - sums.dropped - status.redirects)

    def _configure(self, facts: Facts, slot: int, excess: int) -> int:
        """Returns how many requests are dropped there."""
        cut = min(excess, self._queued(facts.name, slot)) if excess else 0
        given = [*facts.limits, "limits", facts.version, *self._shares.set_anew(facts, slot, cut)]
        self._slots.on(slot, lambda each: each.configure_slot(facts.name, given))
        return cut

    def _queued(self, name: str, slot: int) -> int:
        raw, _ = self._raw([(name, slot)])
        return int(raw[name, slot][0].get("queued", 0)) if (name, slot) in raw else 0

    def follow(self, job: str, state: JobState | None) -> None:
        """All slots that are there are told the job's state."""
        if state is None:
            return
        lives = self.list.lives([job])
        if job in lives:
            name = name_of(job, lives[job].life)
            slots = self.list.slots_of(job)
            self._slots.each_there(slots, lambda each: each.follow_state(name, state.value))

    def check_bytes(self, jobs: Iterable[str]) -> list[str]:
        """Those that have used up their bytes, over all their slots, get no more requests; returns these."""
        now, spent = time.monotonic(), list[str]()
        for job in jobs:
            most = self._most_bytes(job)
            if not most or now - self._summed_at.get(job, -LOOK_S) < LOOK_S:
                continue
            _remember(self._summed_at, job, now)
            status, parts = self._register.statuses([job])[0], self.statuses([job])[job]
            if status and sum(part.counters.received for part in (status, *parts)) >= most:
                name = name_of(job, self.list.lives([job])[job].life)
                slots = self.list.slots_of(job)
                self._slots.each_there(slots, lambda each, name=name: each.spend_all(name, "over_bytes"))
                spent.append(job)
        return spent

    def _most_bytes(self, job: str) -> int:
        known = self._bytes.get(job)
        if known is None or time.monotonic() - known[1] > KNOWN_S:
            facts = self.list.facts(job)
            most = dict(zip(facts.limits[::2], facts.limits[1::2], strict=True))["bytes"] if facts else 0
            known = int(most or 0), time.monotonic()
            _remember(self._bytes, job, known)
        return known[0]

    # --- leases --------------------------------------------------------------------------------------------------

    def current(self, names: Iterable[str]) -> dict[str, str]:
        """Name → state of the job, of those that are the present lives of their jobs."""
        wanted = {name: parse_name(name) for name in names}
        late = time.monotonic() - KNOWN_S
        anew = [job for job, life in wanted.values() if not self._knows(job, life, late)]
        if anew:
            lives, now = self.list.lives(anew), time.monotonic()
            for job in anew:
                _remember(self._known, job, (lives.get(job, NOTHING), now))
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
            job, _ = parse_name(name)
            if self.list.note_start(job):
                slots = self.list.slots_of(job)
                self._slots.each_there(slots, lambda each, name=name: each.start_slot(name, 0))
            self._begun.add(name)

    # --- the end -------------------------------------------------------------------------------------------------

    def try_end(self, job: str) -> bool:
        """End the job if nothing of it is left; True for the one caller who has done so."""
        if not self._seems_over(job):
            return False
        token = secrets.token_hex(6)
        begun = self.list.begin_end(job, token)
        if begun is None:
            return False
        life, state, slots = begun
        name = name_of(job, life)
        rests = self._seal(name, token, state, slots)
        if rests is not None and self.list.end(job, token, rests):
            return True
        self.list.go_on(job, token)
        for slot in slots:
            with suppress(RedisUnavailable):  # whoever comes there finds out
                self._slots.on(slot, lambda each: each.unseal(name, token), patience_s=0)
        return False

    def _seems_over(self, job: str) -> bool:
        """A cheap look, before slots are sealed and perhaps unsealed again."""
        facts = self.list.facts(job)
        if facts is None or facts.ended:
            return False
        pairs = [(facts.name, slot) for slot in self.list.slots_of(job)]
        raw, away = self._raw(pairs)
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

    # --- looking -------------------------------------------------------------------------------------------------

    def glances(self, queues: Sequence[str]) -> dict[int, Glance]:
        """Slot → is there work? Slots of servers that are away, and such as are on their way, are left out."""
        found, moved = dict[int, Glance](), list(range(SLOTS))
        for _ in range(2):
            wanted, moved = moved, list[int]()
            for name, slots in self._shards.by_server(wanted).items():
                try:
                    found |= self._glance(name, slots, queues, moved)
                except RedisUnavailable as exc:
                    self._shards.failed(name, exc)
            if not moved:
                break
        return found

    def _glance(self, name: str, slots: Sequence[int], queues: Sequence[str], moved: list[int]) -> dict[int, Glance]:
        """Slots that have moved are noted: from now on, it is known where they are."""
        client = self._shards.present(name)
        now = time.time_ns() // 1_000_000
        with translated_errors("glance"):
            pipeline = client.pipeline(transaction=False)
            for slot in slots:
                self._keys[slot].ask_for_work(pipeline, queues, now)
            pipeline.time()
            *found, (seconds, micros) = pipeline.execute()
        answers, now = iter(found), seconds * 1000 + micros // 1000
        glances: dict[int, Glance] = {}
        for slot in slots:
            where, expired = next(answers), next(answers)
            firsts = {queue: next(answers) for queue in queues}
            waits = {queue: wait_of(max(0, round(first[0][1] - now))) for queue, first in firsts.items() if first}
            if where == HERE:
                glances[slot] = Glance(expired, waits)
            elif where and where.startswith("moved "):
                self._shards.follow(slot, Elsewhere(where))
                moved.append(slot)
        return glances

    def statuses(self, jobs: Sequence[str]) -> dict[str, list[JobStatus]]:
        """Each job as it stands in each of its slots; one that has ended has nothing there that counts.

        Where a server is away, as it was when it was last seen.
        """
        lives, members = self.list.lives(jobs), self.list.slots(jobs)
        names = {job: name_of(job, each.life) for job, each in lives.items() if not each.ended}
        pairs = [(names[job], slot) for job in names for slot in members[job]]
        raw, away = self._raw(pairs)
        found: dict[str, list[JobStatus]] = {job: [] for job in jobs}
        now = time.time_ns() // 1_000_000
        for job, name in names.items():
            for slot in members[job]:
                found[job] += self._part(job, (name, slot), raw, away, now)
        return found

    def _part(
        self, job: str, pair: tuple[str, int], raw: Mapping[tuple[str, int], Raw], away: set[int], now: int
    ) -> list[JobStatus]:
        known = raw.get(pair) or (self._last.get(pair) if pair[1] in away else None)
        part = JobStatus(job, JobState.RUNNING, Counters())
        if known and known[0]:
            state = known[0]["state"]
            values = {**known[0], "state": known[0].get("was", "running") if state == SEALED else state}
            part = read_status(job, values, known[1], known[2], now)
        elif pair[1] not in away:
            return []
        return [replace(part, partial=pair[1] in away)]

    def _raw(self, pairs: Sequence[tuple[str, int]]) -> tuple[dict[tuple[str, int], Raw], set[int]]:
        """(what is known of jobs in slots, slots that are away); each slot with its mark, at one moment."""
        raw: dict[tuple[str, int], Raw] = {}
        left, away = list(pairs), set[int]()
        for _ in range(3):
            table, by_server = self._shards.table(), dict[str, list[tuple[str, int]]]()
            for pair in left:
                by_server.setdefault(table[pair[1]], []).append(pair)
            left = []
            for server, some in by_server.items():
                left += self._raw_of(server, some, raw)
            if not left:
                break
            self._shards.table(anew=True)
        away = {slot for _, slot in left}
        for pair, each in raw.items():
            _remember(self._last, pair, each)
        return raw, away

    def _raw_of(
        self, server: str, pairs: Sequence[tuple[str, int]], raw: dict[tuple[str, int], Raw]
    ) -> Sequence[tuple[str, int]]:
        """Returns those that could not be read."""
        try:
            client = self._shards.present(server)
            with translated_errors("status"):
                pipeline = client.pipeline(transaction=True)
                for name, slot in pairs:
                    self._keys[slot].ask_for_job(pipeline, name)
                answers = pipeline.execute()
        except RedisUnavailable as exc:
            self._shards.failed(server, exc)
            return pairs
        left: list[tuple[str, int]] = []
        for i, pair in enumerate(pairs):
            mark, *values = answers[4 * i : 4 * i + 4]
            if mark == HERE:
                raw[pair] = cast("Raw", tuple(values))
            else:
                left.append(pair)
        return left

    # --- housekeeping --------------------------------------------------------------------------------------------

    def tend(self) -> tuple[str, ...]:
        """Jobs are in all slots what they are, and end; earlier lives go. Returns jobs that came to their end."""
        known = self.list.known()
        self._next_job = self._next_job if self._next_job < len(known) else 0
        window = known[self._next_job : self._next_job + JOBS_AT_ONCE]
        self._next_job += JOBS_AT_ONCE
        lives, members = self.list.lives(window), self.list.slots(window)
        names = {job: name_of(job, each.life) for job, each in lives.items() if not each.ended}
        raw, away = self._raw([(name, slot) for job, name in names.items() for slot in members[job]])
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
            if not pending and not away & set(members[job]) and self.try_end(job):
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
            if here == standing.state and values.get("limits", "0") == standing.limits:
                continue
            facts = self.list.facts(job)
            if facts is None or facts.ended:
                break
            with suppress(RedisUnavailable):
                self._align_slot(facts, slot, values, here)
                changed = True
        return changed

    def _align_slot(self, facts: Facts, slot: int, values: Mapping[str, str], here: str | None) -> None:
        if here is None:
            if facts.state != JobState.CANCELLED:
                self._open(facts, slot)
            return
        if here != facts.state and values.get("state") != SEALED:
            self._slots.on(slot, lambda each: each.follow_state(facts.name, facts.state), patience_s=0)
        if values.get("limits", "0") != str(facts.version):
            self._configure(facts, slot, 0)

    def agree_on_shares(self, job: str) -> None:
        """After a loss, the list and the slots say the same of the job's budget again."""
        facts = self.list.facts(job)
        if facts is not None and facts.pages and not facts.ended:
            for slot in self.list.slots_of(job):
                with suppress(RedisUnavailable):
                    self._shares.agree(facts, slot)

    def _drop_strangers(self) -> None:
        """Earlier lives of jobs: they are nobody's, and have been for a while."""
        if time.monotonic() - self._looked_for_strangers < STRANGE_S / 6:
            return
        self._looked_for_strangers = time.monotonic()
        found = self.names()[0]
        lives = self.list.lives(list({parse_name(name)[0] for names in found.values() for name in names}))
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

    def names(self) -> tuple[dict[int, set[str]], set[int]]:
        """(slot → names of the jobs that it knows; slots that could not be asked)"""
        found, away = dict[int, set[str]](), set[int]()
        for server, slots in self._shards.by_server().items():
            try:
                client = self._shards.present(server)
                with translated_errors("jobs"):
                    pipeline = client.pipeline(transaction=True)
                    for slot in slots:
                        self._keys[slot].ask_for_jobs(pipeline)
                    answers = pipeline.execute()
            except RedisUnavailable as exc:
                self._shards.failed(server, exc)
                away.update(slots)
                continue
            for i, slot in enumerate(slots):
                if answers[2 * i] == HERE:
                    found[slot] = cast("set[str]", answers[2 * i + 1])
                else:
                    away.add(slot)
        return found, away


def joined_status(whole: JobStatus, parts: Sequence[JobStatus]) -> JobStatus:
    """A job as it stands, from what the list knows and what its slots do."""
    every = (whole, *parts)
    sums = {f.name: sum(getattr(each.counters, f.name) for each in every) for f in fields(Counters)}
    sums["duplicates"] = max(0, sums["duplicates"])
    reasons: dict[str, int] = {}
    for each in every:
        for reason, count in each.reasons.items():
            reasons[reason] = reasons.get(reason, 0) + count
    slowest = sorted((host for each in every for host in each.slowest), key=lambda host: -host.latency_ms)
    started = min((each.started_ms for each in every if each.started_ms is not None), default=None)
    return replace(
        whole,
        counters=Counters(**sums),
        reasons={reason: count for reason, count in reasons.items() if count},
        slowest=tuple(slowest[:SLOWEST]),
        started_ms=whole.started_ms if whole.started_ms is not None else started,
        rate=round(sum(each.rate for each in every), 2),
        partial=any(each.partial for each in every),
    )


def _remember(memory: dict[Any, T], key: object, value: T) -> None:
    """In a memory that does not grow without end."""
    if len(memory) >= MOST_KNOWN and key not in memory:
        del memory[next(iter(memory))]
    memory[key] = value
