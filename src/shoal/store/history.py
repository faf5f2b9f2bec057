"""Samples of jobs and of the fleet: one row each, thinned out with their age.

A row is kept for as long as its tier says, the first of each ten minutes for a week. Rows that are too many all the
same are removed from the tier that has most of them, the oldest of all jobs first. A job's rows go with the job.
"""

from __future__ import annotations

from collections.abc import Sequence

import orjson
import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from shoal.core.frozen import frozen
from shoal.core.history import COARSEST, TIERS, Sample, Tier, Window, job_sample, spacing_ms
from shoal.core.job_status import JobStatus
from shoal.store.in_order import after
from shoal.store.tables import FIRST_VERSION, history, items
from shoal.store.trouble import translated_errors
from shoal.store.upsert import insert_new

FLEET = ""
"""In the place of a job: everything together."""
READ_AT_MOST = 5_000
"""Samples of one chart; a series has fewer, unless somebody has changed the clock."""
TRIM_AT_ONCE = 5_000
IDS_AT_ONCE = 500


@frozen
class ItemCount:
    """Items counted so far, and the last one that is in it: ids of a job become visible in their order."""

    items: int = 0
    last_id: int = 0


@frozen
class Taken:
    """A sample on its way to the database."""

    job: str
    sample: Sample
    tier: Tier
    counted: ItemCount


class HistoryStore:
    """The samples in one database."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._put = insert_new(engine.dialect.name, history)

    # --- writing -------------------------------------------------------------------------------------------------

    def write(self, taken: Sequence[Taken]) -> None:
        """Add samples; one that is there stays."""
        if taken:
            with translated_errors(), self._engine.begin() as connection:
                connection.execute(self._put, [_values(each) for each in taken])

    def note_end(self, status: JobStatus) -> None:
        """The last sums of a job; safe to repeat."""
        counted = self.count_items(status.job, self.counted([status.job]).get(status.job, ItemCount()))
        self.write([Taken(status.job, job_sample(status, counted.items), COARSEST, counted)])

    def count_items(self, job: str, before: ItemCount, at_most: int | None = None) -> ItemCount:
        """The job's items with those that have come since, or so many of them; of the fleet, what has come since."""
        ids = sa.select(items.c.id)
        if job == FLEET:
            new_ones = ids.where(items.c.id > before.last_id).order_by(items.c.id)
        else:
            new_ones = after(self._engine.dialect.name, ids, items, job, before.last_id, FIRST_VERSION)
        some = new_ones.limit(at_most).subquery()
        query = sa.select(sa.func.count(), sa.func.max(some.c.id)).select_from(some)
        with translated_errors(), self._engine.connect() as connection:
            new, last = connection.execute(query).one()
        return ItemCount(before.items + new, last or before.last_id)

    def last_item(self) -> int:
        """The id of the newest item of all."""
        with translated_errors(), self._engine.connect() as connection:
            return connection.execute(sa.select(sa.func.max(items.c.id))).scalar() or 0

    # --- reading -------------------------------------------------------------------------------------------------

    def counted(self, jobs: Sequence[str]) -> dict[str, ItemCount]:
        """What was counted of the items of these, as their newest samples say."""
        found: dict[str, ItemCount] = {}
        with translated_errors(), self._engine.connect() as connection:
            for start in range(0, len(jobs), IDS_AT_ONCE):
                some = history.c.job.in_(jobs[start : start + IDS_AT_ONCE])
                newest = sa.select(history.c.job, sa.func.max(history.c.at_ms)).where(some).group_by(history.c.job)
                query = sa.select(history).where(sa.tuple_(history.c.job, history.c.at_ms).in_(newest))
                for row in connection.execute(query).mappings():
                    found[row["job"]] = ItemCount(_sample(row).counters.get("items", 0), row["last_item"])
        return found

    def newest_ms(self, job: str = FLEET) -> int | None:
        """When the last sample was taken."""
        query = sa.select(sa.func.max(history.c.at_ms)).where(history.c.job == job)
        with translated_errors(), self._engine.connect() as connection:
            return connection.execute(query).scalar()

    def read(self, job: str, window: Window) -> list[Sample]:
        """What a chart of this window needs, in order of time: of old samples none that are closer than need be."""
        apart = spacing_ms(window)
        reach = 2 * apart
        wanted = [
            history.c.job == job,
            history.c.at_ms >= window.from_ms - reach,
            history.c.at_ms < window.to_ms + reach,
            sa.or_(history.c.step_ms >= apart, history.c.at_ms >= window.to_ms - reach),
        ]
        query = sa.select(history).where(*wanted).order_by(history.c.at_ms.desc()).limit(READ_AT_MOST)
        with translated_errors(), self._engine.connect() as connection:
            return [_sample(row) for row in connection.execute(query).mappings()][::-1]

    # --- removing ------------------------------------------------------------------------------------------------

    def trim(self, now_ms: int, keep_rows: int) -> int:
        """Remove samples that are too old or too many; how many went this time."""
        with translated_errors(), self._engine.begin() as connection:
            gone = sum(_remove(connection, _of(tier, now_ms - tier.kept_ms), TRIM_AT_ONCE) for tier in TIERS)
            counts = _counts(connection)
            surplus = sum(counts.values()) - keep_rows
            if surplus > 0:
                fullest = max(TIERS, key=lambda tier: counts.get(tier.step_ms, 0))
                of_jobs = sa.and_(_of(fullest, now_ms), history.c.job != FLEET)
                gone += _remove(connection, of_jobs, min(surplus, TRIM_AT_ONCE))
        return gone


def _values(taken: Taken) -> dict[str, object]:
    sample = taken.sample
    parts = {"counters": sample.counters, "gauges": sample.gauges, "reasons": sample.reasons, "end": sample.end}
    return {
        "job": taken.job,
        "at_ms": sample.at_ms,
        "step_ms": taken.tier.step_ms,
        "last_item": taken.counted.last_id,
        "sample": orjson.dumps(parts).decode(),
    }


def _sample(row: sa.RowMapping) -> Sample:
    return Sample(row["at_ms"], **orjson.loads(row["sample"]))


def _counts(connection: Connection) -> dict[int, int]:
    query = sa.select(history.c.step_ms, sa.func.count().label("rows")).group_by(history.c.step_ms)
    return {row.step_ms: row.rows for row in connection.execute(query)}


def _of(tier: Tier, before_ms: int) -> sa.ColumnElement[bool]:
    return sa.and_(history.c.step_ms == tier.step_ms, history.c.at_ms < before_ms)


def _remove(connection: Connection, wanted: sa.ColumnElement[bool], at_most: int) -> int:
    """The oldest of these."""
    first = sa.select(history.c.job, history.c.at_ms).where(wanted).order_by(history.c.at_ms).limit(at_most).subquery()
    key = sa.tuple_(history.c.job, history.c.at_ms)
    return connection.execute(sa.delete(history).where(key.in_(sa.select(first)))).rowcount
