"""The frontier held against itself: sums, counts and lists that must agree, and keys that nobody owns.

Looks are cheap, a window at a time; what is put right is put right in one Lua call.
"""

# redis-py's hints leave gaps: what falls into them is unknown to the checker in this file only.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Any, cast

import redis

from shoal.core.frozen import frozen
from shoal.core.model import ALL_QUEUES, JobState
from shoal.frontier.scripts import Arg, Scripts, translated_errors
from shoal.frontier.slot_keys import pattern_of
from shoal.frontier.wire import ms

HOSTS_COUNTED = 20_000
"""The queues of a job with more hosts than this are not counted: that would hold everybody up."""
LEASES_COUNTED = 50_000
SCAN_AT_ONCE = 1_000
DROP_AT_ONCE = 5_000
REPAIRED = "repaired"
"""Sums of the frontier about repairs begin with this word."""

RUNS = "runs"
"""Sums about runs of schedules begin with this word."""

WEBHOOKS = "webhooks"
"""And those about attempts to deliver messages."""

_PLAIN = ("job", "reasons", "slow", "ready", "delayed", "lag", "render", "spend", "routes", "alike", "slots", "shares")
"""Families with one key a job."""


@frozen
class Recount:
    """What a job's sums were found to differ by, or what was put right."""

    missing: int = 0
    """Requests that the sums have and nobody else."""
    surplus: int = 0
    """Requests that the sums leave out."""
    hosts: int = 0
    """Hosts with a queue that no lease would have looked at."""
    rejoined: bool = False
    """The job had fallen out of its rotation."""
    ended: bool = False


@frozen
class Stand:
    """A job's sums at one moment; two that are equal show a job that does not move."""

    state: JobState
    open: bool
    sums: tuple[int, ...]
    """Queued, delayed, leased, done, dead, dropped, seen."""

    @property
    def pending(self) -> int:
        return sum(self.sums[:3])


@frozen
class Stray:
    """A key, or a place in a rotation, of a job."""

    job: str
    parts: tuple[str, str, str] | None = None
    """What `drop_strays` needs besides the job."""


class Audit:
    """What the reconciler asks one frontier."""

    def __init__(self, client: redis.Redis, prefix: str, scripts: Scripts) -> None:
        self._client = client
        self._prefix = prefix
        self._start = f"{prefix}:"
        self._any = pattern_of(self._start)
        """The same for a pattern."""
        self._scripts = scripts

    # --- chores and repairs --------------------------------------------------------------------------------------

    def now_ms(self) -> int:
        """By Redis' clock, on which jobs begin and end: who keeps house may have another."""
        with translated_errors("time"):
            seconds, micros = self._client.time()
        return seconds * 1000 + micros // 1000

    def claim_chore(self, chore: str, every: timedelta) -> bool:
        """True for the one caller in this time, of all who keep house."""
        with translated_errors("chore"):
            return bool(self._client.set(f"{self._prefix}:chore:{chore}", 1, nx=True, px=ms(every)))

    def unclaim_chore(self, chore: str) -> None:
        """It failed: whoever comes next may try."""
        with translated_errors("chore"):
            self._client.delete(f"{self._prefix}:chore:{chore}")

    def count_repair(self, what: str, count: int) -> None:
        """For the metrics."""
        with translated_errors("stats"):
            self._client.hincrby(f"{self._prefix}:stats", f"{REPAIRED}:{what}", count)

    def count_runs(self, what: str, count: int) -> None:
        """Runs of schedules, by what became of them, for the metrics."""
        with translated_errors("stats"):
            self._client.hincrby(f"{self._prefix}:stats", f"{RUNS}:{what}", count)

    def count_webhook(self, outcome: str) -> None:
        """An attempt to deliver a message, for the metrics."""
        with translated_errors("stats"):
            self._client.hincrby(f"{self._prefix}:stats", f"{WEBHOOKS}:{outcome}", 1)

    def unanswered(self, ago: timedelta) -> set[str]:
        """Queues in which something has been due for so long, and no ring is on its way."""
        with translated_errors("unanswered"):
            pipeline = self._client.pipeline(transaction=False)
            for queue in ALL_QUEUES:
                pipeline.zrange(f"{self._prefix}:due:{queue}", 0, 0, withscores=True)
                pipeline.exists(f"{self._prefix}:ring:{queue}")
            pipeline.time()
            *found, (seconds, _) = pipeline.execute()
        latest = seconds * 1000 - ms(ago)
        firsts = zip(ALL_QUEUES, found[::2], found[1::2], strict=True)
        return {queue for queue, first, rung in firsts if first and first[0][1] <= latest and not rung}

    # --- jobs ----------------------------------------------------------------------------------------------------

    def stands(self, jobs: Sequence[str]) -> dict[str, Stand]:
        """The sums of jobs that live."""
        fields = ("state", "open", "ended", "queued", "delayed", "leased", "done", "dead", "dropped", "seen")
        with translated_errors("stands"):
            pipeline = self._client.pipeline(transaction=False)
            for job in jobs:
                pipeline.hmget(f"{self._prefix}:job:{job}", fields)
            found = cast("list[list[str | None]]", pipeline.execute())
        return {
            job: Stand(JobState(state), open_ == "1", tuple(int(n or 0) for n in sums))
            for job, (state, open_, ended, *sums) in zip(jobs, found, strict=True)
            if state and ended is None
        }

    def compare(self, job: str, hosts: Iterable[str] = ()) -> Recount | None:
        """What a job's sums differ by, these hosts counted; changes nothing. None when it is unknown or has ended."""
        return self._recount(job, 0, hosts)

    def recount(self, job: str, hosts: Iterable[str] = ()) -> Recount | None:
        """Put a job's sums right, and hosts that may have fallen out of its lists; it ends when nothing is left."""
        return self._recount(job, 1, hosts)

    def sections(self) -> dict[str, Audit]:
        """The frontiers that this one consists of, by names in order: keys are looked at in each by itself."""
        return {"": self}

    def _recount(self, job: str, repairs: int, hosts: Iterable[str]) -> Recount | None:
        return self.recounted(job, repairs, hosts)

    def recounted(self, job: str, repairs: int, hosts: Iterable[str]) -> Recount | None:
        """`compare` or, with `repairs`, `recount`, in this frontier alone."""
        answer = self._scripts.call("recount", [job, repairs, HOSTS_COUNTED, *hosts])
        if not answer:
            return None
        missing, surplus, found, rejoined, ended = answer
        return Recount(missing, surplus, found, bool(rejoined), bool(ended))

    def queued_hosts(self, job: str) -> list[str]:
        """Hosts that have a queue of the job, found the slow way: for one whose requests are missing."""
        start = f"queue:{job}:"
        with translated_errors("scan"):
            found = self._client.scan_iter(match=f"{self._any}{start}*", count=SCAN_AT_ONCE)
            keys = [str(key).removeprefix(self._start) for key in found]
        return sorted({key.removeprefix(start).rpartition(":")[0] for key in keys})

    # --- hosts ---------------------------------------------------------------------------------------------------

    def listed_hosts(self, start: int, count: int) -> list[str]:
        """So many of the hosts lately used, from this place on."""
        with translated_errors("hosts"):
            return cast("list[str]", self._client.zrange(f"{self._prefix}:hosts", start, start + count - 1))

    def recount_hosts(self, hosts: Sequence[str]) -> int:
        """Put right what these hosts have in flight; returns how many were wrong. Far too many leases: none."""
        changes, *_ = self._scripts.call("recount_hosts", [LEASES_COUNTED, *hosts])
        return max(0, changes)

    # --- strays --------------------------------------------------------------------------------------------------

    def scan(self, cursor: int) -> tuple[int, list[Stray], list[int]]:
        """Some more of all keys. (where to go on, 0 at the end; those of jobs; lease groups)"""
        with translated_errors("scan"):
            after, keys = cast(Any, self._client.scan(cursor, match=f"{self._any}*", count=SCAN_AT_ONCE))
        names = [str(key).removeprefix(self._start) for key in keys]
        groups = [int(name.removeprefix("lease:")) for name in names if re.fullmatch(r"lease:\d+", name)]
        return int(after), [stray for name in names if (stray := _stray_of(name))], groups

    def rotations(self) -> list[Stray]:
        """Every job's place in a rotation."""
        found: list[Stray] = []
        with translated_errors("rotations"):
            tenants = cast("list[str]", self._client.hkeys(f"{self._prefix}:tenants"))
            pairs = [(queue, tenant) for queue in ALL_QUEUES for tenant in tenants]
            pipeline = self._client.pipeline(transaction=False)
            for queue, tenant in pairs:
                pipeline.zrange(f"{self._prefix}:due:{queue}:{tenant}", 0, -1)
            for (queue, tenant), jobs in zip(pairs, pipeline.execute(), strict=True):
                found += [Stray(job, ("due", queue, tenant)) for job in jobs]
        return found

    def unlisted(self, jobs: Sequence[str]) -> list[str]:
        """Those of the jobs that the frontier does not list."""
        if not jobs:
            return []
        with translated_errors("unlisted"):
            known = cast("list[int]", self._client.smismember(f"{self._prefix}:jobs", list(jobs)))
        return [job for job, listed in zip(jobs, known, strict=True) if not listed]

    def drop_strays(self, job: str, strays: Iterable[Stray]) -> tuple[int, bool]:
        """Drop what is left of a job that the frontier does not know. (how much; was it only missing in the list?)"""
        args: list[Arg] = [job]
        for stray in strays:
            args += stray.parts or ()
        dropped, listed = self._scripts.call("drop_strays", args)
        return dropped, bool(listed)

    def drop_job(self, job: str) -> None:
        """Everything of a job leaves the frontier, its leases too: who settles one comes too late."""
        while not self._scripts.call("drop", [job, DROP_AT_ONCE, "", 0]):
            pass
        self.drop_strays(job, ())  # of one that was only listed

    def find_group(self, group: int) -> bool:
        """A lease group without a deadline is let run out now; False when it has one."""
        return bool(self._scripts.call("find_group", [group]))


def _stray_of(name: str) -> Stray | None:
    family, _, rest = name.partition(":")
    job, _, more = rest.partition(":")
    if family in _PLAIN:
        return Stray(rest)
    if family == "seen":
        return Stray(job, ("seen", more, ""))
    if family == "queue":
        host, _, level = more.rpartition(":")
        return Stray(job, ("queue", host, level))
    return None
