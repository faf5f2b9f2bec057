"""What the fields of each job's items look like, as far as they have been counted."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from shoal.core.tally import Tally
from shoal.errors import RowRefused
from shoal.store.tables import field_tallies
from shoal.store.trouble import translated_errors


@dataclass(slots=True)
class Counted:
    """A tally, and the last item that is in it."""

    tally: Tally
    last_id: int = 0


class Tallies:
    """One row for each version of a job's items."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def get(self, job: str, version: str) -> Counted:
        """What was counted so far; nothing for a job that nobody has counted."""
        query = sa.select(field_tallies).where(_those(job, version))
        with translated_errors(), self._engine.connect() as connection:
            row = connection.execute(query).mappings().first()
        return Counted(Tally()) if row is None else Counted(Tally.of_json(row["tally"]), row["last_id"])

    def put(self, job: str, version: str, counted: Counted, after: int) -> bool:
        """Write down what was counted from the item with the id `after` on; False when somebody else was faster."""
        values = {"last_id": counted.last_id, "tally": counted.tally.to_json()}
        mine = sa.and_(_those(job, version), field_tallies.c.last_id == after)
        try:
            with translated_errors(), self._engine.begin() as connection:
                if connection.execute(sa.update(field_tallies).where(mine).values(values)).rowcount:
                    return True
                if after:
                    return False
                return self._insert(connection, {"job": job, "version": version, **values})
        except RowRefused:  # both were the first
            return False

    def _insert(self, connection: Connection, values: dict[str, object]) -> bool:
        known = sa.select(field_tallies.c.job).where(_those(str(values["job"]), str(values["version"])))
        if connection.execute(known).first():
            return False
        connection.execute(sa.insert(field_tallies).values(values))
        return True


def _those(job: str, version: str) -> sa.ColumnElement[bool]:
    return sa.and_(field_tallies.c.job == job, field_tallies.c.version == version)
