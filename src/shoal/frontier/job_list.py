"""The jobs of a frontier that is spread over servers, as the control Redis lists them: state, life, slots, shares, end.

Whoever brings something to a job asks here first, each time: for its life, so that nothing goes to an earlier one; and
the slots that it goes to are among those of the job before they have anything of it.
"""

# redis-py's hints leave gaps: what falls into them is unknown to the checker in this file only.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Any, cast

import redis

from shoal.core.frozen import frozen
from shoal.core.model import JobState
from shoal.errors import RedisUnavailable
from shoal.frontier.scripts import Arg, Scripts, translated_errors
from shoal.frontier.slot import NO_SHARE, Rest, Share
from shoal.frontier.slots import list_prefix
from shoal.frontier.tag import name_of
from shoal.frontier.wire import COUNTERS, ms, state_of

LIMITS = ("queue", "weight", "rate", "parallel", "rate0", "parallel0", "robots", "bytes", "seconds")
HOST_LIMITS = ("host_pages", "host_bytes", "host_seconds")
_FACTS = ("state", "life", "ended", "tenant", "expected", "pages", "started", "rested", "paused", "limits", "rebuild")


@frozen
class Joined:
    """A job that something is about to be brought to."""

    job: str
    state: JobState | None
    life: str
    over: bool
    """It takes nothing more."""
    recalls: bool
    """It does not know yet what is stored of it."""
    pages: int
    """That it may have; 0 for no limit."""

    @property
    def name(self) -> str:
        return name_of(self.job, self.life)

    @property
    def takes(self) -> bool:
        return self.state is not None and not self.over and not self.recalls


@frozen
class Standing:
    """What is asked of many jobs at once."""

    life: str
    state: str
    limits: str
    """Version of its limits."""
    ended: bool
    time: str
    """Its first lease and its pauses; '' before that."""


NOTHING = Standing("", "", "", True, "")
"""Of a job that is unknown; no name has this life."""


@frozen
class Facts:
    """What a slot must know of a job."""

    job: str
    state: str
    life: str
    ended: bool
    tenant: str
    weight: Arg
    expected: int
    pages: int
    elapsed_ms: int | None
    time: str
    """Of which that was computed: its first lease and its pauses; '' before that."""
    limits: list[Arg]
    """Pairs."""
    version: int
    """Of its limits."""
    rebuilt: bool
    """It is being rebuilt."""

    @property
    def name(self) -> str:
        return name_of(self.job, self.life)

    def limit(self, name: str) -> Arg:
        """One of its limits; 0 when it has none."""
        return dict(zip(self.limits[::2], self.limits[1::2], strict=True))[name] or 0


@frozen
class Ending:
    """Somebody is about to end a job."""

    token: str
    life: str
    state: str
    slots: list[int]
    """All that are to be sealed."""


class Forgotten(RedisUnavailable):
    """The list may not know what slots have of a job's budget."""


class JobList:
    """The list of one frontier."""

    def __init__(self, control: redis.Redis, prefix: str) -> None:
        self._client = control
        self._prefix = list_prefix(prefix)
        self._scripts = Scripts(control, list_prefix(prefix), list_prefix(prefix))

    # --- before something comes ----------------------------------------------------------------------------------

    def join(self, job: str, slots: Iterable[int], duplicates: int = 0, *, from_pages: bool = False) -> Joined:
        """Something is about to come to these slots of a job; `from_pages`: stored pages tell of it."""
        args: list[Arg] = [job, duplicates, int(not from_pages), *slots]
        return self._joined(job, self._scripts.call("join_slots", args))

    def _joined(self, job: str, answer: Sequence[Any]) -> Joined:
        state, life, over, recalls, pages = answer
        return Joined(job, state_of(state), life, bool(over), bool(recalls), pages)

    def facts(self, job: str) -> Facts | None:
        """None when it is unknown."""
        with translated_errors("job"):
            pipeline = self._client.pipeline(transaction=True)
            pipeline.hmget(f"{self._prefix}:job:{job}", [*_FACTS, *LIMITS, *HOST_LIMITS])
            pipeline.hgetall(f"{self._prefix}:tenants")
            pipeline.time()
            found, weights, (seconds, micros) = pipeline.execute()
        values = dict(zip((*_FACTS, *LIMITS, *HOST_LIMITS), cast("list[str | None]", found), strict=True))
        state, life, tenant = values["state"], values["life"], values["tenant"] or ""
        if state is None or life is None:
            return None
        now, elapsed = seconds * 1000 + micros // 1000, None
        if values["started"]:
            until = int(values["paused"]) if values["paused"] else now
            elapsed = max(0, until - int(values["started"]) - int(values["rested"] or 0))
        limits: list[Arg] = [part for name in (*LIMITS, *HOST_LIMITS) for part in (name, values[name] or "")]
        return Facts(
            job,
            state,
            life,
            values["ended"] is not None,
            tenant,
            cast("dict[str, str]", weights).get(tenant, 1),
            int(values["expected"] or 0),
            int(values["pages"] or 0),
            elapsed,
            _time_of(values["started"], values["rested"]),
            limits,
            int(values["limits"] or 0),
            values["rebuild"] is not None,
        )

    def lives(self, jobs: Sequence[str]) -> dict[str, Standing]:
        """Of those that are known."""
        with translated_errors("jobs"):
            pipeline = self._client.pipeline(transaction=False)
            for job in jobs:
                pipeline.hmget(f"{self._prefix}:job:{job}", ["life", "state", "limits", "ended", "started", "rested"])
            found = cast("list[list[str | None]]", pipeline.execute()) if jobs else []
        return {
            job: Standing(life, state or "", limits or "0", ended is not None, _time_of(started, rested))
            for job, (life, state, limits, ended, started, rested) in zip(jobs, found, strict=True)
            if life is not None
        }

    def slots(self, jobs: Sequence[str]) -> dict[str, list[int]]:
        """Job → those in which it has hosts."""
        with translated_errors("slots"):
            pipeline = self._client.pipeline(transaction=False)
            for job in jobs:
                pipeline.smembers(f"{self._prefix}:slots:{job}")
            found = cast("list[set[str]]", pipeline.execute()) if jobs else []
        return {job: sorted(map(int, slots)) for job, slots in zip(jobs, found, strict=True)}

    def slots_of(self, job: str) -> list[int]:
        return self.slots([job])[job]

    def add_slot(self, job: str, slot: int) -> None:
        """It was forgotten that the job has hosts there."""
        with translated_errors("slots"):
            self._client.sadd(f"{self._prefix}:slots:{job}", str(slot))

    def known(self) -> list[str]:
        """All jobs."""
        with translated_errors("jobs"):
            return sorted(cast("set[str]", self._client.smembers(f"{self._prefix}:jobs")))

    def note_start(self, job: str, life: str) -> bool:
        """A job's first lease; True for the first who says so."""
        return self._note(job, life, "started", "?", "")

    def note_recalled(self, job: str, life: str, rows: int, first_ms: int = 0) -> None:
        """So many stored rows were found again; the first was asked for then, on the clock of some worker."""
        self._note(job, life, "recalled", "+", rows)
        if first_ms:
            self._note(job, life, "started", "?", first_ms)

    def next_limits(self, job: str) -> None:
        """Its limits have changed: slots that were away have older ones."""
        self._note(job, "", "limits", "+", 1)

    def _note(self, job: str, life: str, field: str, how: str, value: Arg) -> bool:
        """Of a job that was dropped meanwhile nothing is written down: it would count as known."""
        return bool(self._scripts.call("note_fact", [job, life, field, how, value]))

    def _time(self) -> tuple[int, int]:
        with translated_errors("time"):
            return self._client.time()

    # --- losses of servers ---------------------------------------------------------------------------------------

    def fence(self) -> int:
        """How many losses of servers were noticed."""
        with translated_errors("fence"):
            return int(self._client.get(f"{self._prefix}:fence") or 0)

    def next_fence(self) -> int:
        """One more; numbers go by the time, so that a list which was emptied does not give those again that it gave."""
        seconds, micros = self._time()
        self.raise_fence(seconds * 1_000_000 + micros)
        with translated_errors("fence"):
            return int(self._client.incr(f"{self._prefix}:fence"))

    def raise_fence(self, fence: int) -> None:
        """To this one, which a server knows of."""
        self._scripts.call("raise_fence", [fence])

    def brought(self, ago: timedelta = timedelta()) -> dict[tuple[str, int], str]:
        """(name, slot) that something was brought to of which no page tells, so long ago or longer → its text."""
        seconds, micros = self._time()
        with translated_errors("brought"):
            last = seconds * 1000 + micros // 1000 - ms(ago)
            found = cast("list[str]", self._client.zrangebyscore(f"{self._prefix}:brought", "-inf", last))
        return {(text.split(" ")[0], int(text.split(" ")[1])): text for text in found}

    def forget_brought(self, texts: Sequence[str]) -> None:
        """It has arrived for good, or the job is rebuilt."""
        with translated_errors("brought"):
            if texts:
                self._client.zrem(f"{self._prefix}:brought", *texts)

    # --- budgets of pages ----------------------------------------------------------------------------------------

    def allot(
        self, job: str, life: str, slot: int, share: Share = NO_SHARE, wanted: int = 0, back: int = 0
    ) -> tuple[int, int, bool]:
        """More of the budget for a slot that has this. (all that it may have, its version, is there no more?)

        Pages that come back to it need no budget.
        """
        args: list[Arg] = [job, life, slot, wanted, share.used, back, share.pages, share.version]
        limit, version, dry = self._scripts.call("allot", args)
        if limit < 0:
            raise Forgotten("the control Redis was started anew: it is found out first what it has given out")
        return limit, version, bool(dry)

    def note_share(self, job: str, life: str, slot: int, pages: int, version: int) -> bool:
        """A slot has no more than this, under this version; False when it has got more meanwhile."""
        return bool(self._scripts.call("note_share", [job, life, slot, pages, version]))

    def note_forgotten(self, job: str, life: str, slot: int, pages: int, known: int) -> None:
        """A slot has this, and knows this version: the list may have forgotten what it knew."""
        self._scripts.call("note_share", [job, life, slot, pages, "", known])

    def run(self) -> str:
        """Of the control Redis."""
        with translated_errors("server"):
            return str(self._client.info("server")["run_id"])

    def note_agreed(self, job: str, life: str, run: str) -> None:
        """In this run, the list knows what slots have of the job's budget."""
        self._note(job, life, "agreed", "=", run)

    def shares(self, job: str) -> dict[int, tuple[int, int]]:
        """Slot → (pages that it may have, version)"""
        with translated_errors("shares"):
            found = cast("dict[str, str]", self._client.hgetall(f"{self._prefix}:shares:{job}"))
        pairs = {int(slot): text.split() for slot, text in found.items()}
        return {slot: (int(pages), int(version)) for slot, (pages, version) in pairs.items()}

    # --- the end -------------------------------------------------------------------------------------------------

    def begin_end(self, job: str) -> Ending | None:
        """Somebody is about to end the job; None when it cannot end now."""
        found = cast("list[str]", self._scripts.call("begin_end", [job]))
        return Ending(found[0], found[1], found[2], sorted(map(int, found[3:]))) if found else None

    def end(self, job: str, token: str, rests: Sequence[Rest]) -> bool:
        """All slots are sealed: the job ends with their sums. False when somebody has come between."""
        sums = {name: sum(int(rest.sums.get(name, 0)) for rest in rests) for name in (*COUNTERS, "redirects")}
        reasons: dict[str, int] = {}
        for rest in rests:
            for reason, count in rest.reasons.items():
                reasons[reason] = reasons.get(reason, 0) + int(count)
        args: list[Arg] = [job, token, len(sums)]
        for name, count in (*sums.items(), *reasons.items()):
            args += (name, count)
        for rest in rests:
            for host, latency in rest.slowest:
                args += (f"@{host}", latency)
        return bool(self._scripts.call("end_job", args))

    def go_on(self, job: str) -> Joined:
        """Something comes to the job: whoever is about to end it begins again."""
        return self._joined(job, self._scripts.call("go_on", [job, ""]))

    def give_up_end(self, job: str, token: str) -> None:
        """The job is not ended under this token."""
        self._scripts.call("go_on", [job, token])


def _time_of(started: str | None, rested: str | None) -> str:
    return f"{started} {rested or 0}" if started else ""
