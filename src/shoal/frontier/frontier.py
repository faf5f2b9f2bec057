"""The frontier: which URL may be fetched when. A typed face over the Lua operations.

Every change of state is one Lua call on Redis' own clock. Large inputs are cut into calls short enough that no other
worker waits for long.
"""

# redis-py's hints leave gaps: what falls into them is unknown to the checker in this file only.
# pyright: reportUnknownMemberType=false
from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from itertools import chain
from typing import ClassVar, TypeVar, cast

import redis

from shoal.core.access import DEFAULT_TENANT
from shoal.core.job_status import JobStatus
from shoal.core.manners import DEFAULT_MANNERS, Manners
from shoal.core.model import (
    AdmitReport,
    Candidate,
    JobState,
    Lease,
    LeaseBatch,
    Request,
    Sent,
    Settlement,
    SettleReport,
)
from shoal.core.routes import Route, RouteNote
from shoal.core.spec import JobSpec
from shoal.core.url import Url
from shoal.frontier.audit import Audit
from shoal.frontier.crew import DRIFTED, Crew
from shoal.frontier.doorbells import Doorbells
from shoal.frontier.host_change import HostChange
from shoal.frontier.likeness import LikenessBook, Said
from shoal.frontier.parts import Parts
from shoal.frontier.register import Register
from shoal.frontier.routes import RouteBook
from shoal.frontier.scripts import Arg, Scripts, connect, translated_errors
from shoal.frontier.tag import WHOLE, Tag
from shoal.frontier.troubles import TroubleBoard
from shoal.frontier.wire import (
    COUNTERS,
    Glance,
    Triple,
    dead_letter,
    in_calls,
    limits_of,
    ms,
    read_batch,
    read_glance,
    read_reports,
    settle_calls,
    state_of,
    submitted,
    triple,
)

T = TypeVar("T")

ADMIT_AT_ONCE = 2_000
FOUND_AT_ONCE = 500
"""Of links that a worker has found, who leases meanwhile, and waits for these. Shards get their parts at once."""
SETTLE_AT_ONCE = 500
LEASE_AT_MOST = 1_000
FORGET_AT_ONCE = 5_000
REMEMBER_AT_ONCE = 5_000
SWEEP_AT_ONCE = 1_000
LONGEST_CRAWL_DELAY = timedelta(minutes=5)
"""A robots.txt that asks for more between two requests is taken to ask for this."""
ROBOTS_CLAIM = timedelta(seconds=30)
"""For so long nobody else fetches a robots.txt that one worker has set out to fetch."""

Seen = tuple[int, str]
"""The fingerprint of a URL, and its host."""


class Frontier:
    """All operations on one frontier."""

    in_slots: ClassVar[bool] = False
    """Its hosts are spread over several servers."""

    def __init__(
        self,
        client: redis.Redis,
        prefix: str = "shoal",
        manners: Manners = DEFAULT_MANNERS,
        holder: str = "",
        tag: Tag = WHOLE,
        part: str = "",
    ) -> None:
        """`holder` names the process to people who ask where a request is; a slot has a `tag` and a `part`."""
        self._tag = tag
        self._client = client
        self._prefix = prefix
        self._manners = manners
        self._holder = holder or secrets.token_hex(6)
        """Whose hands leases are in: one frontier object, one process."""
        self._scripts = Scripts(client, prefix, part)
        self.audit = Audit(client, prefix, self._scripts)
        """The same frontier, held against itself."""
        self.parts = Parts(client, prefix, self._scripts)
        """Of extractions from stored pages: who works on which."""
        self.board = TroubleBoard(client, prefix)
        self._register = Register(client, prefix, self.board)
        self.crew = Crew(client, prefix)
        """What its workers tell about themselves."""
        self._doorbells = Doorbells(client, prefix)
        self._routes = RouteBook(client, prefix, self._scripts)
        self._likenesses = LikenessBook(self._scripts)

    @classmethod
    def at(cls, url: str, prefix: str = "shoal", manners: Manners = DEFAULT_MANNERS, holder: str = "") -> Frontier:
        return cls(connect(url), prefix, manners, holder)

    def close_connections(self) -> None:
        self._client.close()

    # --- a job's life -------------------------------------------------------------------------------------------

    def create(self, job: str, spec: JobSpec, expected: int = 0, tenant: str = DEFAULT_TENANT) -> bool:
        """Make a job known; it stays open for URLs until `close`. False when it was known already.

        Room is made at once for as many URLs as are expected, rather than little by little.
        """
        weight = self._manners.weight_of(tenant)
        fields = [*limits_of(spec, self._manners), *self._marks(expected)]
        return bool(self._scripts.call("create", [job, expected, tenant, weight, *fields]))

    def _marks(self, expected: int) -> list[Arg]:
        """Fields of a new job's hash, besides its limits."""
        del expected
        return []

    def admit(
        self, job: str, candidates: Sequence[Candidate], duplicates: int = 0, *, owing: bool = False
    ) -> AdmitReport:
        """Let in what the job has not seen; `duplicates` are those that the caller recognised itself.

        With `owing`, those of hosts whose server is away may be left out; whoever led to them is settled with that.
        """
        del owing  # a frontier in a piece is here or away
        return self._admit(job, triple, candidates, FOUND_AT_ONCE, duplicates)

    def admit_submitted(self, job: str, urls: Sequence[Url], *, again: bool = False) -> AdmitReport:
        """Let in URLs that were named by somebody; the same as `admit`, cheaper for ten thousand at once.

        `again`: after a loss, just in case; after the next one they would come once more.
        """
        del again
        return self._admit(job, submitted, urls, ADMIT_AT_ONCE)

    def _admit(
        self, job: str, write: Callable[[T], Triple], candidates: Sequence[T], at_once: int, duplicates: int = 0
    ) -> AdmitReport:
        """`write` tells how a candidate stands in Redis."""
        starts = range(0, max(1, len(candidates)), at_once)
        calls = (
            [
                job,
                0 if start else duplicates,
                *chain.from_iterable(map(write, candidates[start : start + at_once])),
            ]
            for start in starts
        )
        report = AdmitReport(None)
        for state, admitted, seen, filtered, over in self._scripts.call_each("admit", calls):
            report += AdmitReport(JobState(state) if state else None, admitted, seen, filtered, over)
        return report

    def close(self, job: str) -> tuple[JobState | None, bool]:
        """No more URLs will come. (state, whether this call ended the job)"""
        state, ended = self._scripts.call("close", [job])
        return state_of(state), bool(ended)

    def pause(self, job: str) -> JobState | None:
        """Take the job out of the rotation."""
        return state_of(self._scripts.call("pause", [job]))

    def tell_drift(self, job: str, kinds: Iterable[str]) -> None:
        """A run differs from the earlier ones of its name, in these ways: it is counted, and told to who listens."""
        for kind in kinds:
            self.crew.count(f"{DRIFTED}:{kind}")
        self._scripts.call("tell_drift", [job])

    def resume(self, job: str) -> JobState | None:
        """Put a paused job back into the rotation."""
        return state_of(self._scripts.call("resume", [job]))

    def cancel(self, job: str) -> tuple[JobState | None, bool]:
        """Drop all that waits. (state, whether this call ended the job)"""
        state, ended = self._scripts.call("cancel", [job])
        return state_of(state), bool(ended)

    def forget(self, job: str) -> bool:
        """Drop the keys of a job that has ended; False when it has not."""
        while True:
            left = cast(int, self._scripts.call("forget", [job, FORGET_AT_ONCE]))
            if left:
                return left == 1

    def restore(self, job: str, spec: JobSpec, status: JobStatus, tenant: str = DEFAULT_TENANT) -> bool:
        """Make a finished job known again with its sums; open until `close`. False when it is known.

        One that may take so many seconds may take them once more, from now on; of others, time goes on where it ended.
        """
        fields = [*limits_of(spec, self._manners), *self._marks(status.counters.seen)]
        for name in COUNTERS:
            fields += (name, getattr(status.counters, name))
        fields += ("redirects", status.redirects)
        if status.started_ms is not None:
            with translated_errors("restore"):
                seconds, micros = self._client.time()
            now = seconds * 1000 + micros // 1000
            worked = 0 if spec.seconds else ms(status.elapsed)
            fields += ("started", status.started_ms, "rested", max(0, now - status.started_ms - worked))
            if spec.seconds:
                fields += ("deadline", now + round(spec.seconds * 1000))
        weight = self._manners.weight_of(tenant)
        new = self._scripts.call("restore", [job, status.counters.seen, tenant, weight, *fields])
        if new and status.reasons:
            with translated_errors("restore"):
                self._client.hset(f"{self._prefix}:reasons:{job}", mapping={**status.reasons})
        return bool(new)

    def remember(self, job: str, seen: Sequence[Seen]) -> bool:
        """What a restored job has seen; False when it is unknown."""
        known = True
        for start in range(0, len(seen), REMEMBER_AT_ONCE):
            some = [fingerprint for fingerprint, _ in seen[start : start + REMEMBER_AT_ONCE]]
            known = bool(self._scripts.call("remember", [job, *some]))
        return known

    def replay(self, job: str, token: str, dead: Sequence[tuple[Request, str]]) -> JobState | None:
        """Try dead requests, each with the reason it died of, once more; the same token twice changes nothing."""
        state: str = ""
        for number, start in enumerate(range(0, len(dead), ADMIT_AT_ONCE)):
            args: list[Arg] = [job, f"{token}.{number}"]
            for request, reason in dead[start : start + ADMIT_AT_ONCE]:
                args += dead_letter(request, reason)
            state, _ = self._scripts.call("replay", args)
        return state_of(state)

    def configure_job(self, job: str, spec: JobSpec) -> tuple[JobState | None, bool]:
        """Change a job's limits and its queue to what the spec says now. (state, whether this call ended the job)

        What waits beyond a smaller page budget is dropped.
        """
        state, ended = self._scripts.call("configure_job", [job, *limits_of(spec, self._manners)])
        return state_of(state), bool(ended)

    def configure_host(self, host: str, change: HostChange) -> None:
        """An operator's word on a host."""
        self._scripts.call("configure_host", [host, *change.pairs()])

    def throttle(self, key: str, rate: float, burst: float) -> timedelta:
        """One more request of an API key: zero when it may, else the time after which to ask again."""
        return timedelta(milliseconds=int(self._scripts.call("throttle", [key, rate, max(1.0, burst)])))

    def tend(self) -> tuple[str, ...]:
        """What nobody else does, a little at a time; returns jobs that came to their end by this."""
        return ()

    def sweep(self) -> int:
        """Hosts unused for a day leave the list."""
        return int(self._scripts.call("sweep", [SWEEP_AT_ONCE]))

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
        """Give one worker the requests that may be fetched now; `most` of them from some queues.

        A host that has no cap and has never answered takes so many at once.
        """
        limit = min(limit, LEASE_AT_MOST)
        manners = self._manners
        args: list[Arg] = [limit, ms(lease_for), manners.address_parallel, int(manners.introduces), unproven]
        args.append(self._holder)
        for queue in queues:
            args += (queue, limit if most is None else most.get(queue, limit))
        return read_batch(self._scripts.call("lease", args), self._tag)

    @property
    def looks_at_addresses(self) -> bool:
        """Does it matter where a host lives?"""
        return self._manners.address_parallel > 0

    def meet(self, lease: Lease, address: str, domain: str) -> SettleReport:
        """A stranger's address and domain were found out: they are noted, and the request is given back."""
        host, manners = lease.request.url.host, self._manners
        args: list[Arg] = [
            self._tag.inner(lease.group),
            lease.index,
            host,
            f"#{address}" if address and manners.address_parallel else "",
            f"@{domain}" if domain and manners.by_domain else "",
        ]
        return read_reports([self._scripts.call("meet", args)])

    def claim_robots(self, origin: str) -> bool:
        """May the caller fetch this robots.txt? One at a time may."""
        with translated_errors("claim_robots"):
            return bool(self._client.set(f"{self._prefix}:robots:{origin}", 1, nx=True, ex=ROBOTS_CLAIM))

    def unclaim_robots(self, origin: str) -> None:
        """It could not be fetched: others may try."""
        with translated_errors("claim_robots"):
            self._client.delete(f"{self._prefix}:robots:{origin}")

    def learn_robots(self, host: str, crawl_delay: float | None, origin: str) -> None:
        """A robots.txt was read: what it asks for holds from now on, and the claim is given up."""
        asked = "" if not crawl_delay else f"{min(crawl_delay, LONGEST_CRAWL_DELAY.total_seconds()):g}"
        self._scripts.call("learn_robots", [host, asked, origin])

    def drop_in(self, host: str) -> timedelta | None:
        """A request beside the leases takes a turn of a host: the time until then; None when it must not be asked."""
        wait = int(self._scripts.call("drop_in", [host, self._manners.rate]))
        return None if wait < 0 else timedelta(milliseconds=wait)

    def settle(self, settlements: Sequence[Settlement], sent: Mapping[str, Sent] | None = None) -> SettleReport:
        """Bring leases to their end; `sent` tells of their jobs where the links of these pages went."""
        del sent
        calls = settle_calls(settlements, self._tag, SETTLE_AT_ONCE)
        return read_reports(self._scripts.call("settle", args) for args in calls)

    def renew(self, groups: Iterable[int], lease_for: timedelta) -> frozenset[int]:
        """Move the deadlines of lease groups still worked on; returns those that are lost."""
        args: list[Arg] = [ms(lease_for), *map(self._tag.inner, groups)]
        lost = self._scripts.call("renew", args) if len(args) > 1 else ()
        return frozenset(self._tag.outer(int(group)) for group in lost)

    def release(self, leases: Sequence[Lease]) -> SettleReport:
        """Give requests back unfetched."""
        calls = in_calls([(self._tag.inner(lease.group), lease.index) for lease in leases], SETTLE_AT_ONCE)
        return read_reports(self._scripts.call("release", args) for args in calls)

    def reap(self, groups: int = 10) -> tuple[int, tuple[str, ...]]:
        """Take back expired leases. (requests given back, jobs that ended by this)"""
        returned, *ended = self._scripts.call("reap", [groups])
        return returned, tuple(ended)

    # --- which pages need a browser -----------------------------------------------------------------------------

    def resemble(self, pages: Sequence[Said]) -> list[int | None]:
        """For each page the fingerprint of an earlier one that it is like; who is like none is remembered."""
        return self._likenesses.resemble(pages)

    def routes(self, job: str) -> dict[tuple[str, str], Route]:
        """(host, pattern) → what is known about such pages of this job."""
        return self._routes.read(job)

    def note_routes(self, job: str, notes: Sequence[RouteNote]) -> None:
        """Remember for all workers what pages of this job needed."""
        self._routes.note(job, notes)

    # --- looking ------------------------------------------------------------------------------------------------

    def glance(self, queues: Sequence[str]) -> Glance:
        """Is there work for a worker of these queues?"""
        return read_glance(queues, self._scripts.call("glance", list(queues)))

    def status(self, job: str) -> JobStatus | None:
        """The job as the frontier knows it; None when it does not."""
        return self.statuses([job])[0]

    def statuses(self, jobs: Sequence[str]) -> list[JobStatus | None]:
        """Several jobs in one round trip, each as it was at one moment."""
        return self._register.statuses(jobs)

    def known_jobs(self) -> list[str]:
        """Every job that lives in the frontier."""
        return self._register.known()

    def ended_jobs(self, ago: timedelta) -> list[str]:
        """Jobs that ended at least so long ago and still have keys."""
        return self._register.ended(ago)

    # --- doorbells ----------------------------------------------------------------------------------------------

    def claim_ring(self, queue: str) -> bool:
        """True for the one caller that should ring now; nobody else needs to until it was answered or is stale."""
        return self._doorbells.claim(queue)

    def answer_ring(self, queue: str) -> None:
        """A slice has come to the door: the next ring may follow."""
        self._doorbells.answer(queue)
