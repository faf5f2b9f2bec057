"""Lost jobs on their way back into the frontier, and the number by which it is found out that it has lost them.

A job that is rebuilt has a place in its hash, `rebuild`: `recall pages 0` at the beginning, none at the end. Until it
has recalled what is stored of it, the frontier takes no URL of it; until it is complete, it cannot end.
"""

# redis-py's hints leave gaps: what falls into them is unknown to the checker in this file only.
# pyright: reportUnknownMemberType=false
from __future__ import annotations

import secrets
from collections.abc import Sequence
from datetime import timedelta
from typing import cast

import redis

from shoal.core.access import DEFAULT_TENANT
from shoal.core.frozen import frozen
from shoal.core.manners import DEFAULT_MANNERS, Manners
from shoal.core.model import JobState
from shoal.core.spec import JobSpec
from shoal.frontier.scripts import Arg, Scripts, connect, translated_errors
from shoal.frontier.wire import limits_of, ms

RECALL_AT_ONCE = 1_000
DROP_AT_ONCE = 5_000
LEASES_A_MS = 8
"""A lease's number is the time, in parts of a millisecond."""
CLAIM = timedelta(seconds=5)
"""For so long one process alone decides which jobs are lost."""


class Overtaken(Exception):
    """Who had the claim was held up for so long that somebody else has it."""


@frozen
class Lost:
    """A job that the frontier is to know again."""

    job: str
    spec: JobSpec
    tenant: str = DEFAULT_TENANT
    state: JobState = JobState.RUNNING
    open: bool = False
    expected: int = 0
    """URLs that it has seen, about; room is made for them at once."""
    created_ms: int = 0
    started_ms: int | None = None
    """On Redis' clock, if it was written down; else the earliest of its rows tells."""
    rested_ms: int = 0
    paused_ms: int | None = None


@frozen
class Recalled:
    """A row of a lost job: a page or a dead letter."""

    fingerprint: int
    host: str
    sum: str
    """`done`, `dead` or `dropped`."""
    reason: str = ""
    """With its outcome: `dead:http_404`."""
    received: int = 0
    at_ms: int = 0
    """When it was asked for; 0 when nobody knows, or nobody asked."""
    saved: int = 0
    """Bytes that did not have to come."""


class Rebuild:
    """The way back for jobs of one frontier."""

    def __init__(self, client: redis.Redis, prefix: str = "shoal", manners: Manners = DEFAULT_MANNERS) -> None:
        self._client = client
        self._prefix = prefix
        self._manners = manners
        self._scripts = Scripts(client, prefix)

    @classmethod
    def at(cls, url: str, prefix: str = "shoal", manners: Manners = DEFAULT_MANNERS) -> Rebuild:
        return cls(connect(url), prefix, manners)

    def close_connections(self) -> None:
        self._client.close()

    # --- has it lost anything? ----------------------------------------------------------------------------------

    def next_epoch(self) -> int:
        """A number larger than any before it, unless the frontier has been emptied or has gone back in time."""
        with translated_errors("epoch"):
            return int(self._client.incr(f"{self._prefix}:epoch"))

    def server(self) -> str:
        """The run of the server: another one when it was started again."""
        with translated_errors("server"):
            return str(self._client.info("server")["run_id"])

    def trusted(self) -> str:
        """The run that was last looked at; '' when none was."""
        with translated_errors("server"):
            return str(self._client.get(f"{self._prefix}:server") or "")

    def trust(self, run: str) -> None:
        """This server has what it had: workers may lease. One that was started again waits ten seconds for this.

        A replica that took its primary's place counts as one.
        """
        with translated_errors("server"):
            self._client.set(f"{self._prefix}:server", run)

    def skip_leases(self, run: str, duration: timedelta) -> None:
        """Numbers of leases go on beyond all that may have been forgotten; once for each run of the server."""
        self._scripts.call("skip_leases", [run, ms(duration) * LEASES_A_MS])

    def cast_doubt(self, duration: timedelta) -> None:
        """For so long, what waits may be stored: it was forgotten that it was leased."""
        with translated_errors("doubt"):
            self._client.set(f"{self._prefix}:doubt", 1, px=ms(duration))

    def doubt(self) -> timedelta:
        """How long what waits may still be stored; nothing when all is well."""
        with translated_errors("doubt"):
            return timedelta(milliseconds=max(0, self._client.pttl(f"{self._prefix}:doubt")))

    def claim(self) -> str:
        """May the caller decide which jobs are lost? One at a time may, who gets a token; '' for the others."""
        queue, token = "recovery", secrets.token_hex(8)
        with translated_errors("claim"):
            return token if self._client.set(f"{self._prefix}:ring:{queue}", token, nx=True, ex=CLAIM) else ""

    def conclude(self, claim: str, last: int, run: str) -> bool:
        """Decided: what was lost is being rebuilt, from an epoch beyond the last one; this server may be worked with.

        False when the claim is somebody else's by now: then the decision is his, and nothing changes.
        """
        return bool(self._scripts.call("conclude", [claim, last, run]))

    def unclaim(self, claim: str) -> None:
        """Not decided: somebody else may try."""
        self._scripts.call("conclude", [claim, "", ""])

    def now_ms(self) -> int:
        """Redis' clock."""
        with translated_errors("time"):
            seconds, micros = self._client.time()
        return int(seconds) * 1000 + int(micros) // 1000

    def places(self, jobs: Sequence[str]) -> list[str | None]:
        """Where the rebuilding of each job is: '' when it is complete, None when the frontier does not know the job."""
        with translated_errors("places"):
            pipeline = self._client.pipeline(transaction=False)
            for job in jobs:
                pipeline.hmget(f"{self._prefix}:job:{job}", ["state", "rebuild"])
            found = cast("list[list[str | None]]", pipeline.execute())
        return [None if state is None else place or "" for state, place in found]

    # --- the way back -------------------------------------------------------------------------------------------

    def drop(self, job: str, claim: str = "") -> None:
        """Everything of a job leaves the frontier, its leases too: what is known of it is older than the database.

        Under a claim, which is prolonged by this; raises Overtaken when it is somebody else's by now.
        """
        args: list[Arg] = [job, DROP_AT_ONCE, claim, ms(CLAIM)]
        while not (left := self._scripts.call("drop", args)):
            pass
        if left < 0:
            raise Overtaken(f"somebody else has decided by now whether job {job} is lost")

    def begin(self, lost: Lost, place: str) -> bool:
        """Make a lost job known, at the first place of its way; False when it is known."""
        fields: list[Arg] = [*limits_of(lost.spec, self._manners), *self._marks(lost.expected)]
        fields += ("open", int(lost.open), "rebuild", place)
        fields += ("created", lost.created_ms if lost.started_ms is None else lost.started_ms)
        if lost.state is JobState.PAUSED:
            fields += ("state", lost.state.value)
            if lost.paused_ms is not None:
                fields += ("paused", lost.paused_ms)
        if lost.started_ms is not None:
            fields += ("started", lost.started_ms, "rested", lost.rested_ms)
            if lost.spec.seconds:
                fields += ("deadline", lost.started_ms + round(lost.spec.seconds * 1000) + lost.rested_ms)
        weight = self._manners.weight_of(lost.tenant)
        return bool(self._scripts.call("restore", [lost.job, lost.expected, lost.tenant, weight, *fields]))

    def _marks(self, expected: int) -> list[Arg]:
        """Fields of a job's hash, besides its limits."""
        del expected
        return []

    def recall(self, job: str, rows: Sequence[Recalled]) -> int:
        """Count rows that the database has; each counts once. Returns how many were new."""
        new = 0
        for start in range(0, len(rows), RECALL_AT_ONCE):
            args: list[Arg] = [job]
            for row in rows[start : start + RECALL_AT_ONCE]:
                args += (row.fingerprint, row.host, row.sum, row.reason, row.received, row.at_ms, row.saved)
            new += max(0, int(self._scripts.call("recall", args)))
        return new

    def advance(self, job: str, place: str, to: str) -> tuple[str, bool]:
        """From one place to the next, unless somebody else was faster; '' completes the job.

        (place where it is now, whether this call ended the job)
        """
        now, ended = self._scripts.call("advance", [job, place, to])
        return now, bool(ended)
