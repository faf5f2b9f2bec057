"""Looking at several slots at once: is there work, how do jobs stand there, which jobs are there.

One pipeline for each server; servers that are away are left out, and slots that have moved are followed.
"""

# redis-py's hints leave gaps: what falls into them is unknown to the checker in this file only.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import cast

from shoal.core.job_status import Counters, JobStatus
from shoal.core.model import JobState
from shoal.errors import RedisUnavailable
from shoal.frontier.job_list import JobList
from shoal.frontier.memory import remember
from shoal.frontier.scripts import Elsewhere, translated_errors
from shoal.frontier.shards import HERE, Shards
from shoal.frontier.slot import SEALED
from shoal.frontier.slot_keys import SLOWEST
from shoal.frontier.slots import SLOTS
from shoal.frontier.tag import name_of
from shoal.frontier.wire import Glance, read_status, wait_of

Raw = tuple[dict[str, str], dict[str, str], list[tuple[str, float]], int]
"""A job's hash, its reasons and its slowest hosts, and when that was, in ms on the clock of its server."""


class SpreadView:
    """What can be read of the slots of one frontier."""

    def __init__(self, jobs: JobList, shards: Shards) -> None:
        self._list = jobs
        self._shards = shards
        self._keys = shards.keys
        self._last: dict[tuple[str, int], Raw] = {}
        """What was last read of a job in a slot, for when its server is away."""

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
        with translated_errors("glance"):
            pipeline = client.pipeline(transaction=False)
            for slot in slots:
                self._keys[slot].ask_for_work(pipeline, queues)
            pipeline.time()
            *found, (seconds, micros) = pipeline.execute()
        answers, now = iter(found), seconds * 1000 + micros // 1000
        glances: dict[int, Glance] = {}
        for slot in slots:
            where, lease = next(answers), next(answers)
            firsts = {queue: next(answers) for queue in queues}
            waits = {queue: wait_of(max(0, round(first[0][1] - now))) for queue, first in firsts.items() if first}
            if where == HERE:
                glances[slot] = Glance(int(bool(lease) and lease[0][1] <= now), waits)
            elif where and where.startswith("moved "):
                self._shards.follow(slot, Elsewhere(where))
                moved.append(slot)
        return glances

    def statuses(self, jobs: Sequence[str]) -> dict[str, list[JobStatus]]:
        """Each job as it stands in each of its slots; one that has ended has nothing there that counts.

        Where a server is away, as it was when it was last seen.
        """
        lives, members = self._list.lives(jobs), self._list.slots(jobs)
        names = {job: name_of(job, each.life) for job, each in lives.items() if not each.ended}
        pairs = [(names[job], slot) for job in names for slot in members[job]]
        raw, away = self.raw(pairs)
        found: dict[str, list[JobStatus]] = {job: [] for job in jobs}
        for job, name in names.items():
            for slot in members[job]:
                found[job] += self._part(job, (name, slot), raw, away)
        return found

    def _part(
        self, job: str, pair: tuple[str, int], raw: Mapping[tuple[str, int], Raw], away: set[int]
    ) -> list[JobStatus]:
        known = raw.get(pair) or (self._last.get(pair) if pair[1] in away else None)
        part = JobStatus(job, JobState.RUNNING, Counters())
        if known and known[0]:
            state = known[0]["state"]
            values = {**known[0], "state": known[0].get("was", "running") if state == SEALED else state}
            part = read_status(job, values, known[1], known[2], known[3])
        elif pair[1] not in away:
            return []
        return [replace(part, partial=pair[1] in away)]

    def raw(self, pairs: Sequence[tuple[str, int]]) -> tuple[dict[tuple[str, int], Raw], set[int]]:
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
            remember(self._last, pair, each)
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
                pipeline.time()
                *answers, (seconds, micros) = pipeline.execute()
        except RedisUnavailable as exc:
            self._shards.failed(server, exc)
            return pairs
        left: list[tuple[str, int]] = []
        for i, pair in enumerate(pairs):
            mark, *values = answers[4 * i : 4 * i + 4]
            if mark == HERE:
                raw[pair] = cast("Raw", (*values, seconds * 1000 + micros // 1000))
            else:
                left.append(pair)
        return left

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
