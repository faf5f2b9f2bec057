"""Pages of an earlier job in a later one: their items are copied where they lie, their bodies are borrowed.

All of it is written in the transaction of the pages' rows. The earlier job must still be there at its end: who gives a
job up waits for this transaction, or is before it, and then it is refused. So no archive goes that a row was just
made to point into.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence

import orjson
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from shoal.errors import LenderGone
from shoal.store.bulk import Bulk
from shoal.store.page_rows import CarriedOver, Recrawled
from shoal.store.tables import FIRST_VERSION, borrowed, items, jobs, outlinks, quarantine
from shoal.store.upsert import insert_new

_COPIED = ("fingerprint", "number", "url", "data", "version")


class Carrier:
    """Writes what belongs to pages that were carried over, within a transaction of the caller's."""

    def __init__(self, dialect: str) -> None:
        self._listed: Callable[[Sequence[int]], object] = list if dialect == "postgresql" else orjson.dumps
        self._copies = (*_copying(dialect, items), *_copying(dialect, quarantine, "reasons"))
        self._put_outlinks = Bulk(dialect, outlinks, ("job", "fingerprint"), long="found")
        self._put_loan = insert_new(dialect, borrowed)

    def write(self, connection: Connection, recrawled: Recrawled) -> None:
        """Outlinks, items and loans; raises LenderGone when an earlier job was given up."""
        if recrawled.outlinks:
            rows = [{"job": row.job, "fingerprint": row.fingerprint, "found": row.found} for row in recrawled.outlinks]
            self._put_outlinks.write(connection, rows)
        if not recrawled.carried:
            return
        self._copy_items(connection, recrawled.carried)
        loans = {(row.job, lender) for row in recrawled.carried for lender in row.lenders}
        if loans:
            connection.execute(self._put_loan, [{"job": job, "lender": lender} for job, lender in sorted(loans)])
        _check_sources(connection, {row.source for row in recrawled.carried})

    def _copy_items(self, connection: Connection, carried: Sequence[CarriedOver]) -> None:
        alike: dict[tuple[str, str], list[int]] = defaultdict(list)
        for row in carried:
            if row.with_items:
                alike[row.job, row.source].append(row.fingerprint)
        for (job, source), fingerprints in alike.items():
            some = {"job": job, "source": source, "version": FIRST_VERSION, "pages": self._listed(fingerprints)}
            for statement in self._copies:
                connection.execute(statement, some)


def _check_sources(connection: Connection, sources: set[str]) -> None:
    """Locked until the end of the transaction: nobody gives them up meanwhile."""
    query = sa.select(jobs.c.id).where(jobs.c.id.in_(sources), jobs.c.deleted_ms.is_(None))
    if connection.dialect.name == "postgresql":
        query = query.with_for_update(read=True)
    if gone := sources - set(connection.execute(query).scalars()):
        raise LenderGone(frozenset(gone))


def _copying(dialect: str, table: sa.Table, *more: str) -> tuple[sa.TextClause, sa.TextClause]:
    """(items that the earlier page has not go, those that it has come; a row that is there keeps its id)"""
    chosen = "= ANY(:pages)" if dialect == "postgresql" else "IN (SELECT value FROM json_each(:pages))"
    name, columns = table.name, (*_COPIED, *more)
    same = "s.job = :source AND s.version = t.version AND s.fingerprint = t.fingerprint AND s.number = t.number"
    there = f"EXISTS (SELECT 1 FROM {name} AS s WHERE {same})"
    cut = f"DELETE FROM {name} AS t WHERE job = :job AND version = :version AND fingerprint {chosen} AND NOT {there}"
    listed = ", ".join(columns)
    changed = ", ".join(f"{each} = excluded.{each}" for each in ("url", "data", *more))
    put = (
        f"INSERT INTO {name} (job, {listed}) SELECT :job, {listed} FROM {name} "
        f"WHERE job = :source AND version = :version AND fingerprint {chosen} ORDER BY fingerprint, number "
        f"ON CONFLICT (job, version, fingerprint, number) DO UPDATE SET {changed}"
    )
    return sa.text(cut), sa.text(put)
