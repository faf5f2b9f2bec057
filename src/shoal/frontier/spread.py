"""A frontier whose hosts are spread over several servers.

The control Redis has all that is not about hosts, and the list of jobs; the slots have the jobs' requests, and are
frontiers of their own. No change of state spans two slots. Links to hosts whose server is away are owed: the page that
led to them is settled with a note in its own slot, and its links are found again from the database when the server is
back.
"""

# redis-py's hints leave gaps: what falls into them is unknown to the checker in this file only.
# pyright: reportUnknownMemberType=false
from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta

import redis

from shoal.core.job_status import JobStatus
from shoal.core.manners import DEFAULT_MANNERS, Manners
from shoal.core.model import (
    AdmitReport,
    Candidate,
    JobState,
    Lease,
    LeaseBatch,
    Outcome,
    Request,
    Sent,
    Settlement,
    SettleReport,
)
from shoal.core.spec import JobSpec
from shoal.core.trouble import Trouble
from shoal.core.url import Url, parse
from shoal.errors import InputError, RedisUnavailable
from shoal.frontier.frontier import LEASE_AT_MOST, Frontier, Seen
from shoal.frontier.host_change import HostChange
from shoal.frontier.job_list import JobList
from shoal.frontier.likeness import LikenessBook
from shoal.frontier.moving import Caretaker
from shoal.frontier.register import Register
from shoal.frontier.routes import RouteBook
from shoal.frontier.scripts import Arg, Scripts
from shoal.frontier.shards import Faces, Shards
from shoal.frontier.slot import UNKNOWN_HERE, Sealed, SlotFrontier
from shoal.frontier.slots import ADDRESS, SLOTS, list_prefix, slot_of
from shoal.frontier.spread_audit import SpreadAudit
from shoal.frontier.spread_jobs import SpreadJobs
from shoal.frontier.spread_keeper import SpreadKeeper
from shoal.frontier.spread_lease import Leasing, by_slot, of_group
from shoal.frontier.spread_view import joined_status
from shoal.frontier.suspects import Suspects
from shoal.frontier.tag import Tag, name_of, new_life
from shoal.frontier.wire import Glance, Triple, submitted, triple


def slot_frontiers(shards: Shards, manners: Manners, holder: str) -> Faces[SlotFrontier]:
    """The frontiers of the slots."""

    def make(client: redis.Redis, prefix: str, slot: int) -> SlotFrontier:
        return SlotFrontier(client, prefix, manners, holder, Tag(slot, SLOTS), shards.server_prefix)

    return Faces(shards, make)


class SpreadFrontier(Frontier):
    """All operations on a frontier in slots."""

    in_slots = True

    def __init__(
        self, control: redis.Redis, prefix: str, shards: Shards, manners: Manners = DEFAULT_MANNERS, holder: str = ""
    ) -> None:
        super().__init__(control, prefix, manners, holder)
        if manners.address_parallel:
            raise InputError("SHOAL_ADDRESS_PARALLEL does not go with SHOAL_SHARDS: an address has hosts on all")
        jobs = list_prefix(prefix)
        self._prefix = jobs
        self._scripts = Scripts(control, jobs, jobs)
        self._register = Register(control, jobs, self.board)
        self._routes = RouteBook(control, jobs, self._scripts)
        self._likenesses = LikenessBook(self._scripts)
        self.shards = shards
        self._slots = slot_frontiers(shards, manners, self._holder)
        self.jobs = SpreadJobs(JobList(control, prefix), self._register, shards, self._slots)
        self.audit = SpreadAudit(control, prefix, self._scripts, self._slots, self.jobs)
        self._caretaker = Caretaker(control, prefix, shards)
        self._keeper = SpreadKeeper(self.jobs, self._slots)
        self._suspects = Suspects()
        self._leasing = Leasing(self.jobs, self._slots, self._suspects)
        self._fence: int | None = None
        """How many losses of servers this process knows of, at least."""

    def close_connections(self) -> None:
        super().close_connections()
        self.shards.close()

    def _marks(self, expected: int) -> list[Arg]:
        return ["life", new_life(), "expected", expected]

    # --- a job's life -------------------------------------------------------------------------------------------

    def admit(
        self, job: str, candidates: Sequence[Candidate], duplicates: int = 0, *, owing: bool = False
    ) -> AdmitReport:
        found = by_slot(candidates, lambda each: slot_of(each.url.host))
        triples = {slot: [triple(each) for each in some] for slot, some in found.items()}
        return self._let_in(job, triples, duplicates, owing=owing)

    def admit_submitted(self, job: str, urls: Sequence[Url], *, again: bool = False) -> AdmitReport:
        found = by_slot(urls, lambda url: slot_of(url.host))
        triples = {slot: [submitted(url) for url in some] for slot, some in found.items()}
        return self._let_in(job, triples, 0, owing=False, again=again)

    def _let_in(
        self,
        job: str,
        found: Mapping[int, Sequence[Triple]],
        duplicates: int,
        *,
        owing: bool,
        again: bool = False,
    ) -> AdmitReport:
        if owing and self._fence is None:
            self._fence = self.jobs.list.fence()  # before anything is sent
        fence = self._fence or 0
        report, joined, away = self.jobs.admit(job, found, duplicates, from_pages=owing or again)
        if away and not owing and joined.takes:
            why = sorted({str(exc) for exc in away.values()})
            raise RedisUnavailable(f"not all of these hosts can be reached: {'; '.join(why)}")
        return replace(report, sent=Sent(joined.life, fence, frozenset(found) - away.keys(), frozenset(away)))

    def close(self, job: str) -> tuple[JobState | None, bool]:
        state, _ = super().close(job)
        ended = self.jobs.ends.try_end(job)
        return (JobState.FINISHED if ended and state is not JobState.CANCELLED else state), ended

    def pause(self, job: str) -> JobState | None:
        state = super().pause(job)
        self.jobs.follow(job, state)
        return state

    def resume(self, job: str) -> JobState | None:
        state = super().resume(job)
        self.jobs.follow(job, state)
        return state

    def cancel(self, job: str) -> tuple[JobState | None, bool]:
        state, _ = super().cancel(job)
        if state is not JobState.CANCELLED:
            return state, False
        self.jobs.follow(job, state)
        return state, self.jobs.ends.try_end(job)

    def forget(self, job: str) -> bool:
        lives, slots = self.jobs.list.lives([job]), self.jobs.list.slots_of(job)
        if not super().forget(job):
            return False
        if job in lives:
            name = name_of(job, lives[job].life)
            self._slots.each_there(slots, lambda slot: slot.drop_name(name))
        return True

    def remember(self, job: str, seen: Sequence[Seen]) -> bool:
        return self.jobs.remember(job, by_slot(seen, lambda each: slot_of(each[1])))

    def replay(self, job: str, token: str, dead: Sequence[tuple[Request, str]]) -> JobState | None:
        return self.jobs.replay(job, token, by_slot(dead, lambda each: slot_of(each[0].url.host)))

    def configure_job(self, job: str, spec: JobSpec) -> tuple[JobState | None, bool]:
        state, _ = super().configure_job(job, spec)
        if state is None:
            return None, False
        self.jobs.configure(job)
        ended = self.jobs.ends.try_end(job)
        return (JobState.FINISHED if ended and state is not JobState.CANCELLED else state), ended

    def configure_host(self, host: str, change: HostChange) -> None:
        for slot in range(SLOTS) if host.startswith(ADDRESS) else (slot_of(host),):
            self._slots.on(slot, lambda each: each.configure_host(host, change))

    def sweep(self) -> int:
        return sum(self._slots.each_there(range(SLOTS), lambda slot: slot.sweep()).values())

    def tend(self) -> tuple[str, ...]:
        """Slots whose movers died, jobs that differ between slots, ends that nobody has seen."""
        self._caretaker.tend()
        return self._keeper.tend()

    # --- a request's way ----------------------------------------------------------------------------------------

    def lease(
        self,
        *,
        queues: Sequence[str],
        limit: int,
        lease_for: timedelta,
        most: Mapping[str, int] | None = None,
        unproven: int = 64,
    ) -> LeaseBatch:
        return self._leasing.lease(queues, min(limit, LEASE_AT_MOST), lease_for, dict(most or {}), unproven)

    def meet(self, lease: Lease, address: str, domain: str) -> SettleReport:
        report = self._slots.on(of_group(lease.group), lambda each: each.meet(lease, address, domain))
        return replace(report, ended=self._leasing.ended(report.ended))

    def claim_robots(self, origin: str) -> bool:
        return self._slots.on(slot_of(parse(origin).host), lambda each: each.claim_robots(origin))

    def unclaim_robots(self, origin: str) -> None:
        self._slots.on(slot_of(parse(origin).host), lambda each: each.unclaim_robots(origin))

    def learn_robots(self, host: str, crawl_delay: float | None, origin: str) -> None:
        self._slots.on(slot_of(host), lambda each: each.learn_robots(host, crawl_delay, origin))

    def drop_in(self, host: str) -> timedelta | None:
        return self._slots.on(slot_of(host), lambda each: each.drop_in(host))

    def settle(self, settlements: Sequence[Settlement], sent: Mapping[str, Sent] | None = None) -> SettleReport:
        """Those of a server that is away count as late: their leases run out, and are given to others.

        Raises RedisUnavailable when a server has lost something since links were sent: they are to be sent again.
        """
        late, ended, jobs = 0, list[str](), {each.lease.job for each in settlements}
        self._suspects.gone(each.lease for each in settlements)
        for slot, some in by_slot(settlements, lambda each: of_group(each.lease.group)).items():
            try:
                if sent:
                    self._note_links(slot, some, sent)
                report = self._slots.on(slot, lambda each, some=some: each.settle(some))
            except _SendAgain:
                raise
            except RedisUnavailable:
                late += len(some)
                continue
            late += report.late
            ended += report.ended
        with suppress(RedisUnavailable):  # the control Redis is away: the end is found by who keeps house
            return SettleReport(late, self._leasing.ended([*ended, *map(self._any_name, self.jobs.check_bytes(jobs))]))
        return SettleReport(late, ())

    def _any_name(self, job: str) -> str:
        return name_of(job, "")

    def _note_links(self, slot: int, settlements: Sequence[Settlement], sent: Mapping[str, Sent]) -> None:
        """Before pages are settled it is written down next to them where their links went."""
        for job in {each.lease.job for each in settlements} & sent.keys():
            where = sent[job]
            other = where.slots - {slot}  # also on the same server: one of the two may be elsewhere by now
            if not other and not where.owed:
                continue
            pages = [
                each.lease.request.url.fingerprint
                for each in settlements
                if each.lease.job == job and each.outcome is not Outcome.RETRY
            ]
            if pages:
                self._note(slot, job, replace(where, slots=other), pages)

    def _note(self, slot: int, job: str, where: Sent, pages: Sequence[int]) -> None:
        given = (where.fence, _written(where.slots), _written(where.owed), _written(pages), secrets.token_hex(4))
        name = name_of(job, where.life)
        fence = UNKNOWN_HERE
        with suppress(Sealed):
            fence = self._slots.on(slot, lambda each: each.note_links(name, *given))
        if fence == UNKNOWN_HERE:  # its pages were leased in an earlier life, or are somebody else's by now
            joined = self.jobs.list.join(job, [slot], from_pages=True)
            _, fence = self.jobs.bring(joined, slot, lambda each, name: each.note_links(name, *given), UNKNOWN_HERE)
        if fence >= 0:
            self._fence = fence
            raise _SendAgain("a shard has lost its last writes: links are sent again")

    def renew(self, groups: Iterable[int], lease_for: timedelta) -> frozenset[int]:
        lost, groups = set[int](), frozenset(groups)
        self._suspects.renewed(groups, lease_for)
        for slot, some in by_slot(groups, of_group).items():
            try:
                lost |= self._slots.on(slot, lambda each, some=some: each.renew(some, lease_for))
            except RedisUnavailable:
                continue  # nobody knows; who settles one finds out
        return frozenset(lost)

    def release(self, leases: Sequence[Lease]) -> SettleReport:
        late, ended = 0, list[str]()
        self._suspects.gone(leases)
        for slot, some in by_slot(leases, lambda each: of_group(each.group)).items():
            try:
                report = self._slots.on(slot, lambda each, some=some: each.release(some))
            except RedisUnavailable:
                late += len(some)
                continue
            late += report.late
            ended += report.ended
        return SettleReport(late, self._leasing.ended(ended))

    def reap(self, groups: int = 10) -> tuple[int, tuple[str, ...]]:
        returned, ended = 0, list[str]()
        for count, quiet in self._slots.each_there(range(SLOTS), lambda slot: slot.reap(groups)).values():
            returned += count
            ended += quiet
        return returned, self._leasing.ended(ended)

    # --- looking ------------------------------------------------------------------------------------------------

    def glance(self, queues: Sequence[str]) -> Glance:
        glances = self.jobs.view.glances(queues).values()
        waits: dict[str, timedelta] = {}
        for glance in glances:
            for queue, wait in glance.waits.items():
                waits[queue] = min(wait, waits.get(queue, wait))
        return Glance(sum(glance.expired for glance in glances), waits)

    def statuses(self, jobs: Sequence[str]) -> list[JobStatus | None]:
        whole = super().statuses(jobs)
        parts = self.jobs.view.statuses([status.job for status in whole if status])
        # One that has come to its end meanwhile has its sums in the list by now.
        torn = [each.job for each in whole if each and each.ended_ms is None and not parts[each.job]]
        if torn:
            anew = dict(zip(torn, super().statuses(torn), strict=True))
            whole = [anew.get(each.job, each) if each else None for each in whole]
        troubles = self.shards.troubles()
        return [self._status(status, parts[status.job], troubles) if status else None for status in whole]

    def _status(self, whole: JobStatus, parts: Sequence[JobStatus], troubles: tuple[Trouble, ...]) -> JobStatus:
        status = joined_status(whole, parts)
        troubled = troubles and status.state is JobState.RUNNING
        return replace(status, troubles=(*status.troubles, *troubles)) if troubled else status


class _SendAgain(RedisUnavailable):
    """Links that were sent may be lost."""


def _written(numbers: Iterable[int]) -> str:
    return ",".join(map(str, numbers))
