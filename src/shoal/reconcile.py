"""The reconciler: what must agree and does not, put right. Leases, rings, jobs, sums, hosts, keys.

Nothing here is needed while all goes well: the frontier keeps itself in order. It is for what a bug, a lost key or a
hand in Redis has left. Large things are looked at a window at a time, one after the other.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta

import structlog

from shoal.chores import Chore, Repairs, Window
from shoal.control import Ending
from shoal.core.model import ALL_QUEUES, JobState
from shoal.frontier.audit import Audit, Recount, Stand, Stray
from shoal.frontier.doorbells import RING_LIFETIME
from shoal.frontier.frontier import Frontier
from shoal.frontier.watch import Watch
from shoal.intake.ring import Ring
from shoal.store.ended import EndedJob, EndedJobs
from shoal.store.pages import PageStore

log = structlog.get_logger()

REAP_ROUNDS = 20
"""Of ten lease groups each."""
STILL = timedelta(minutes=1)
"""A job whose sums have not moved for so long is looked at closely."""
JOBS_AT_ONCE = 500
HOSTS_AT_ONCE = 1_000
SCANS_AT_ONCE = 5
SETTLED = timedelta(seconds=30)
"""So long after its end the last rows of a job are there."""
LOOK_BACK = timedelta(minutes=15)
"""Jobs that ended in this time are held against their rows, once by each who keeps house."""
ENDED_AT_ONCE = 500


class Reconciler:
    """The chores that hold the frontier against itself and against the database."""

    def __init__(
        self,
        frontier: Frontier,
        watch: Watch,
        pages: PageStore,
        ended: EndedJobs,
        ending: Ending,
        ring: Ring,
        rebuild: Callable[[str], bool],
    ) -> None:
        """`rebuild` brings a job back from the database; False when it cannot."""
        self._frontier = frontier
        self._audit: Audit = frontier.audit
        self._watch = watch
        self._pages = pages
        self._ended = ended
        self._ending = ending
        self._ring = ring
        self._rebuild = rebuild
        self._repairs = Repairs(frontier.audit)
        self._jobs = Window(JOBS_AT_ONCE)
        self._sampled = Window(1)
        self._hosts_from = 0
        self._cursor = 0
        self._section = ""
        """Of the frontier, in which keys without an owner are looked for."""
        self._last_seen: dict[str, tuple[Stand, float]] = {}
        """Job → its sums, and since when they are the same."""
        self._held: dict[str, int] = {}
        """Job whose sums were held against its rows → when it ended."""

    def chores(self) -> tuple[Chore, ...]:
        """What is to be done, and how often."""
        return (
            Chore("reap", self.reap),
            *self.slot_chores(),
            Chore("rings", self.rings, timedelta(seconds=15)),
            Chore("strays", self.strays, timedelta(seconds=10)),
            Chore("still_jobs", self.still_jobs, timedelta(seconds=20)),
            Chore("sums", self.sums, timedelta(seconds=30)),
            Chore("ended_sums", self.ended_sums, timedelta(seconds=30)),
            Chore("lost_ends", self.lost_ends, timedelta(seconds=30)),
            Chore("hosts", self.hosts, timedelta(seconds=30)),
        )

    def slot_chores(self) -> tuple[Chore, ...]:
        """Without them jobs of a frontier in slots may never end: nobody else tries again what was called off."""
        return (Chore("slots", self.slots, timedelta(seconds=1)),) if self._frontier.in_slots else ()

    # --- leases and rings ----------------------------------------------------------------------------------------

    def reap(self) -> None:
        """Expired leases, also when no worker leases."""
        total = 0
        for _ in range(REAP_ROUNDS):
            returned, ended = self._frontier.reap()
            total += returned
            for job in ended:
                self._ending.finalise(job)
            if not returned:
                break
        if total:
            self._repairs.note("leases", total)

    def slots(self) -> None:
        """Of a frontier in slots: what waits for a server to come back, and jobs that end without anybody's doing."""
        for job in self._frontier.tend():
            self._ending.finalise(job)

    def rings(self) -> None:
        """Queues whose work nobody takes although somebody could: the ring was lost."""
        overdue = self._audit.unanswered(RING_LIFETIME)
        idle = {queue for beat in self._watch.workers() if beat.active < beat.processes for queue in beat.queues}
        for queue in ALL_QUEUES:
            if queue in overdue and queue in idle:
                self._ring(queue)
                self._repairs.note("rings")

    # --- jobs that do not move -----------------------------------------------------------------------------------

    def still_jobs(self) -> None:
        """Jobs that have not moved for a while: is what they wait for there, and can it be found?"""
        known = self._frontier.known_jobs()
        stands = self._audit.stands(self._jobs.next(known))
        now = time.monotonic()
        for job, stand in stands.items():
            before = self._last_seen.get(job)
            if before is None or before[0] != stand:
                self._last_seen[job] = (stand, now)
            elif _should_move(stand) and now - before[1] >= STILL.total_seconds():
                self._last_seen[job] = (stand, now)
                self._set_in_motion(job)
        living = set(known)
        self._last_seen = {job: seen for job, seen in self._last_seen.items() if job in living}

    def _set_in_motion(self, job: str) -> None:
        found = self._audit.compare(job)
        if found is None:
            return
        hosts = self._audit.queued_hosts(job) if found.missing else ()
        lost = self._audit.compare(job, hosts) if hosts else found
        if lost is not None and lost.missing and self._rebuild(job):
            self._repairs.note("missing_requests", lost.missing, job)
            return
        done = self._audit.recount(job, hosts)
        if done is None:
            return
        if done.ended:
            self._ending.finalise(job)
        self._note(job, done)

    def _note(self, job: str, done: Recount) -> None:
        counts = {
            "missing_requests": done.missing,
            "sums": done.surplus,
            "lost_places": done.hosts or int(done.rejoined),
            "stuck_jobs": int(done.ended),
        }
        for what, count in counts.items():
            if count:
                self._repairs.note(what, count, job)

    # --- sums against rows ---------------------------------------------------------------------------------------

    def sums(self) -> None:
        """One job that runs, now and then: has it as many pages as it says? Put right at its end."""
        for job in self._sampled.next(self._frontier.known_jobs()):
            before = self._frontier.status(job)
            stored = self._pages.count(job)
            after = self._frontier.status(job)
            if before is None or after is None or after.state.ended or before.partial or after.partial:
                continue
            # Rows come first, then the sums: between the two looks, and for what is under way, there may be more rows.
            most = after.counters.done + before.counters.leased + after.counters.leased
            if not before.counters.done <= stored <= most:
                log.warning("sums_differ", job=job, done=after.counters.done, pages=stored)

    def ended_sums(self) -> None:
        """Jobs that have just ended: their last sums say what the rows say."""
        now_ms = self._audit.now_ms()
        since, until = now_ms - _ms(LOOK_BACK), now_ms - _ms(SETTLED)
        self._held = {job: ended_ms for job, ended_ms in self._held.items() if ended_ms >= since}
        found = self._ended.between(since, until, ENDED_AT_ONCE + len(self._held))
        for job in [job for job in found if self._held.get(job.id) != job.ended_ms][:ENDED_AT_ONCE]:
            self._hold(job)

    def _hold(self, job: EndedJob) -> None:
        wrong = self._ended.correct(job)
        self._held[job.id] = job.ended_ms
        if wrong:
            self._repairs.note("counters", wrong, job.id)

    def lost_ends(self) -> None:
        """Cancelled jobs that the frontier has lost while leases were out: nobody is left to end them."""
        for job in self._ended.unended(ENDED_AT_ONCE):
            if self._frontier.status(job) is None and self._ended.end(job, self._audit.now_ms()):
                self._repairs.note("lost_ends", 1, job)

    # --- hosts ---------------------------------------------------------------------------------------------------

    def hosts(self) -> None:
        """What hosts are said to have in flight: one that has drifted is asked too little, or too much."""
        hosts = self._audit.listed_hosts(self._hosts_from, HOSTS_AT_ONCE)
        self._hosts_from = self._hosts_from + HOSTS_AT_ONCE if len(hosts) >= HOSTS_AT_ONCE else 0
        wrong = self._audit.recount_hosts(hosts) if hosts else 0
        if wrong:
            self._repairs.note("hosts", wrong)

    # --- keys without an owner -----------------------------------------------------------------------------------

    def strays(self) -> None:
        """Keys of jobs that have been forgotten, jobs missing in the list, lease groups without a deadline."""
        sections = self._audit.sections()
        if self._section not in sections:  # its server has gone away, or it was the last one
            self._section, self._cursor = _next(sections, self._section), 0
        audit = sections[self._section]
        found = audit.rotations()
        for _ in range(SCANS_AT_ONCE):
            self._cursor, strays, groups = audit.scan(self._cursor)
            found += strays
            lost = sum(audit.find_group(group) for group in groups)
            if lost:
                self._repairs.note("lease_groups", lost)
            if not self._cursor:
                self._section = _next(sections, self._section)
                break
        self._drop(audit, found)

    def _drop(self, audit: Audit, found: Sequence[Stray]) -> None:
        by_job: dict[str, list[Stray]] = {}
        for stray in found:
            by_job.setdefault(stray.job, []).append(stray)
        for job in audit.unlisted(list(by_job)):
            dropped, listed = audit.drop_strays(job, by_job[job])
            if dropped or listed:
                self._repairs.note("unlisted_jobs" if listed else "keys", 1 if listed else dropped, job)


def _next(names: Iterable[str], last: str) -> str:
    """The one behind the last; after all, the first."""
    return min((name for name in names if name > last), default=min(names))


def _should_move(stand: Stand) -> bool:
    """A paused job rests, and an open one without requests waits for more."""
    return stand.state is not JobState.PAUSED and not (stand.open and not stand.pending)


def _ms(duration: timedelta) -> int:
    return duration // timedelta(milliseconds=1)
