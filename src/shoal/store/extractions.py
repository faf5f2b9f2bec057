"""Further extractions from stored pages: what was asked for, and how far each share of the pages has come.

A share, a part, is a range of page ids. It moves on in the transaction that has the items of the pages that it leaves
behind, and only from the very place where whoever moves it has found it: two who work on the same part cannot both
move it, and a crash repeats what was not written, and nothing else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field, replace
from enum import StrEnum
from typing import Any

import orjson
import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from shoal.core.frozen import frozen
from shoal.core.spec import JobSpec
from shoal.core.versions import with_extraction
from shoal.errors import Conflict, NotFound
from shoal.store.export import Record, iso
from shoal.store.in_order import after
from shoal.store.items import ItemRow, ItemWriter, Quarantined
from shoal.store.pages import in_turn
from shoal.store.tables import FIRST_VERSION, extraction_parts, extractions, items, pages, quarantine
from shoal.store.trouble import translated_errors

PART_PAGES = 500
MOST_PARTS = 20_000
"""Of a job with more pages the parts are larger."""
MAX_VERSIONS = 100
"""Of one job."""
REMOVE_AT_ONCE = 2_500


class ExtractionState(StrEnum):
    """Of one extraction."""

    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"
    """Its items are being removed, and then it is gone."""


@frozen
class Extraction:
    """One version of a job's items."""

    id: int
    job: str
    version: str
    spec: Mapping[str, Any]
    """What it takes from pages: the settings of a job that say so."""
    state: ExtractionState
    created_ms: int
    ended_ms: int | None
    error: str
    total: int
    """Pages that there were when it began."""
    request_id: str


@frozen
class Version:
    """A version of a job's items, for who reads them."""

    name: str
    spec: JobSpec
    """The job as if it had been submitted so."""


@frozen
class Part:
    """A share of the pages, as far as it has come."""

    extraction: int
    number: int
    first_id: int
    """The first page that is still to be read."""
    last_id: int
    done: bool = False
    pages: int = 0
    """That were read, or could not be."""
    items: int = 0
    failed: int = 0
    reasons: Mapping[str, int] = field(default_factory=dict[str, int])

    def moved(self, upto: int, read: int, found: int, failures: Mapping[str, int]) -> Part:
        """Behind the page with this id, after so many pages and items."""
        return replace(
            self,
            first_id=upto + 1,
            done=upto >= self.last_id,
            pages=self.pages + read,
            items=self.items + found,
            failed=self.failed + sum(failures.values()),
            reasons=dict(Counter(self.reasons) + Counter(failures)),
        )


@frozen
class Progress:
    """How far an extraction has come."""

    extraction: Extraction
    pages: int
    items: int
    quarantined: int
    """Items that break the contract; they are not among the others."""
    failed: int
    reasons: Mapping[str, int]
    """Why pages could not be read → how many."""

    @property
    def record(self) -> Record:
        """For programs."""
        made = self.extraction
        return {
            "job": made.job,
            "version": made.version,
            "state": made.state.value,
            "total": made.total,
            "pages": self.pages,
            "items": self.items,
            "quarantined": self.quarantined,
            "failed": self.failed,
            "reasons": dict(self.reasons),
            "error": made.error,
            "created_at": iso(made.created_ms),
            "ended_at": None if made.ended_ms is None else iso(made.ended_ms),
        }


class ExtractionStore:
    """Extractions of all jobs."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._items = ItemWriter(engine.dialect.name)

    # --- looking -------------------------------------------------------------------------------------------------

    def find(self, job: str, version: str) -> Extraction | None:
        """The version of a job that is called so."""
        return next(iter(self._select(extractions.c.job == job, extractions.c.version == version)), None)

    def get(self, extraction: int) -> Extraction | None:
        return next(iter(self._select(extractions.c.id == extraction)), None)

    def of_job(self, job: str) -> list[Extraction]:
        """In the order in which they began."""
        return self._select(extractions.c.job == job)

    def in_state(self, state: ExtractionState, at_most: int = 1_000) -> list[Extraction]:
        """The oldest first."""
        return self._select(extractions.c.state == state.value, at_most=at_most)

    def choose(self, job: str, spec: JobSpec, wanted: str | None = None) -> Version:
        """The version that is asked for, complete or not; else the newest that is complete, or the job's own."""
        known = {each.version: each for each in self.of_job(job) if each.state is not ExtractionState.CANCELLED}
        done = [each.version for each in known.values() if each.state is ExtractionState.DONE]
        name = wanted or (done[-1] if done else FIRST_VERSION)
        if name == FIRST_VERSION:
            return Version(name, spec)
        if name not in known:
            there = ", ".join([FIRST_VERSION, *known])
            raise NotFound(f"job {job} has no version {name[:60]!r} of its items; there is {there}")
        return Version(name, with_extraction(spec, known[name].spec))

    def progress(self, extraction: Extraction) -> Progress:
        """Its sums over all parts."""
        c = extraction_parts.c
        mine = c.extraction == extraction.id
        sums = sa.select(sa.func.sum(c.pages), sa.func.sum(c["items"]), sa.func.sum(c.failed)).where(mine)
        with self._transaction() as connection:
            read, found, failed = (int(each or 0) for each in connection.execute(sums).one())
            told = connection.execute(sa.select(c.reasons).where(mine, c.failed > 0)).scalars().all() if failed else ()
            broken = _count_quarantined(connection, extraction) if extraction.spec.get("contract") else 0
        reasons: Counter[str] = Counter()
        for text in told:
            reasons.update(orjson.loads(text))
        return Progress(extraction, read, found, broken, failed, dict(reasons.most_common()))

    def part(self, extraction: int, number: int) -> Part | None:
        c = extraction_parts.c
        query = sa.select(extraction_parts).where(c.extraction == extraction, c.number == number)
        with self._transaction() as connection:
            row = connection.execute(query).mappings().first()
        if row is None:
            return None
        return Part(**{**row, "reasons": orjson.loads(row["reasons"])})

    def undone(self, extraction: int) -> list[int]:
        """Parts that are still to be worked on."""
        c = extraction_parts.c
        query = sa.select(c.number).where(c.extraction == extraction, c.done.is_(False)).order_by(c.number)
        with self._transaction() as connection:
            return list(connection.execute(query).scalars())

    # --- changing ------------------------------------------------------------------------------------------------

    def begin(self, job: str, version: str, spec: Mapping[str, Any], now_ms: int, request_id: str = "") -> Extraction:
        """Write an extraction down over all pages that the job has now; Conflict when there is one of this name."""
        shares, total = self._shares(job)
        state = ExtractionState.RUNNING if shares else ExtractionState.DONE
        values: dict[str, Any] = {
            "job": job,
            "version": version,
            "spec": dict(spec),
            "state": state.value,
            "created_ms": now_ms,
            "ended_ms": None if shares else now_ms,
            "total": total,
            "request_id": request_id,
        }
        with self._transaction() as connection:
            if self._known(connection, job, version):
                raise Conflict(f"job {job} has a version {version!r} already: give another name, or drop that first")
            made = connection.execute(sa.insert(extractions).values(values)).inserted_primary_key
            number = int(made[0]) if made else 0
            rows = [
                {"extraction": number, "number": place, "first_id": first, "last_id": last}
                for place, (first, last) in enumerate(shares, 1)
            ]
            if rows:
                connection.execute(sa.insert(extraction_parts), rows)
        return Extraction(number, job, version, spec, state, now_ms, values["ended_ms"], "", total, request_id)

    def advance(
        self, job: str, part: Part, moved: Part, rows: Sequence[ItemRow], refused: Sequence[Quarantined] = ()
    ) -> bool:
        """Items and progress, all or nothing; False, and nothing, when somebody else has moved it, or nobody may."""
        c, owner = extraction_parts.c, extractions.c
        runs = sa.select(owner.id).where(owner.id == part.extraction, owner.state == ExtractionState.RUNNING.value)
        here = (c.extraction == part.extraction, c.number == part.number, c.first_id == part.first_id)
        sums = {name: getattr(moved, name) for name in ("first_id", "done", "pages", "items", "failed")}
        change = sa.update(extraction_parts).where(*here, c.done.is_(False), runs.exists())
        with self._transaction() as connection:
            in_turn(connection, {job})
            reasons = orjson.dumps(dict(moved.reasons)).decode()
            if not connection.execute(change.values(**sums, reasons=reasons)).rowcount:
                return False
            self._items.add(connection, rows, refused)
        return True

    def check(self, row: ItemRow) -> None:
        """Raises RowRefused when the database would not take this item."""
        with translated_errors(), self._engine.connect() as connection:
            self._items.add(connection, [row])
            connection.rollback()

    def finish(self, extraction: int, now_ms: int) -> bool:
        """It is done when all its parts are; True for the one who has found it so first."""
        c = extraction_parts.c
        left = sa.select(c.number).where(c.extraction == extraction, c.done.is_(False))
        return self._end(extraction, ExtractionState.DONE, now_ms, "", ~left.exists())

    def fail(self, extraction: int, error: str, now_ms: int) -> bool:
        """It cannot be done."""
        return self._end(extraction, ExtractionState.FAILED, now_ms, error)

    def cancel(self, extraction: Extraction, now_ms: int) -> None:
        """Give it up; whoever works on it writes nothing more."""
        change = sa.update(extractions).where(extractions.c.id == extraction.id)
        with self._transaction() as connection:
            in_turn(connection, {extraction.job})
            connection.execute(change.values(state=ExtractionState.CANCELLED.value, ended_ms=now_ms))

    def clear(self, extraction: Extraction) -> bool:
        """Remove a batch of what a cancelled one has left; True when nothing is left, nor it itself."""
        with self._transaction() as connection:
            gone = sum(_remove_items(connection, table, extraction) for table in (items, quarantine))
            if not gone:
                connection.execute(sa.delete(extraction_parts).where(extraction_parts.c.extraction == extraction.id))
                connection.execute(sa.delete(extractions).where(extractions.c.id == extraction.id))
        return not gone

    def remove(self, job: str) -> None:
        """Forget all extractions of a job; nobody adds items to them after this."""
        with self._transaction() as connection:
            in_turn(connection, {job})
            remove_extractions(connection, job)

    # --- inside --------------------------------------------------------------------------------------------------

    def _shares(self, job: str) -> tuple[list[tuple[int, int]], int]:
        """(ranges of page ids, number of pages without redirects)"""
        with self._transaction() as connection:
            counted = connection.execute(sa.select(sa.func.count()).where(pages.c.job == job)).scalar_one()
            size = max(PART_PAGES, -(-counted // MOST_PARTS))
            shares, total, last = list[tuple[int, int]](), 0, 0
            while True:
                columns = sa.select(pages.c.id, pages.c.redirect)
                some = after(connection.dialect.name, columns, pages, job, last).limit(size).subquery()
                kept = sa.func.sum(sa.case((some.c.redirect.is_(None), 1), else_=0))
                query = sa.select(sa.func.max(some.c.id), sa.func.coalesce(kept, 0))
                newest, found = connection.execute(query).one()
                if newest is None:
                    return shares, total
                shares.append((last + 1, newest))
                total, last = total + int(found), newest

    def _known(self, connection: Connection, job: str, version: str) -> bool:
        names = connection.execute(sa.select(extractions.c.version).where(extractions.c.job == job)).scalars().all()
        if len(names) >= MAX_VERSIONS:
            raise Conflict(f"job {job} has {len(names)} versions, and more are not kept: drop one first")
        return version in names

    def _end(
        self, extraction: int, state: ExtractionState, now_ms: int, error: str, *only: sa.ColumnElement[bool]
    ) -> bool:
        c = extractions.c
        change = sa.update(extractions).where(c.id == extraction, c.state == ExtractionState.RUNNING.value, *only)
        with self._transaction() as connection:
            ended = connection.execute(change.values(state=state.value, ended_ms=now_ms, error=error))
        return bool(ended.rowcount)

    def _select(self, *only: sa.ColumnElement[bool], at_most: int = 1_000) -> list[Extraction]:
        query = sa.select(extractions).where(*only).order_by(extractions.c.id).limit(at_most)
        with self._transaction() as connection:
            rows = connection.execute(query).mappings().all()
        return [_extraction_of(row) for row in rows]

    @contextmanager
    def _transaction(self) -> Generator[Connection]:
        with translated_errors(), self._engine.begin() as connection:
            yield connection


def _extraction_of(row: sa.RowMapping) -> Extraction:
    values: dict[str, Any] = {**row, "state": ExtractionState(row["state"])}
    return Extraction(**values)


def _count_quarantined(connection: Connection, extraction: Extraction) -> int:
    mine = (quarantine.c.job == extraction.job, quarantine.c.version == extraction.version)
    return connection.execute(sa.select(sa.func.count()).where(*mine)).scalar_one()


def remove_extractions(connection: Connection, job: str) -> int:
    """Within a transaction of the caller's; returns how many there were."""
    mine = sa.select(extractions.c.id).where(extractions.c.job == job)
    connection.execute(sa.delete(extraction_parts).where(extraction_parts.c.extraction.in_(mine)))
    return connection.execute(sa.delete(extractions).where(extractions.c.job == job)).rowcount


def _remove_items(connection: Connection, table: sa.Table, extraction: Extraction) -> int:
    c = table.c
    mine = (c.job == extraction.job, c.version == extraction.version)
    first = sa.select(c.id).where(*mine).order_by(c.id).limit(REMOVE_AT_ONCE)
    return connection.execute(sa.delete(table).where(c.id.in_(first))).rowcount
