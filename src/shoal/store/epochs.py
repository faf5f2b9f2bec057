"""How far a frontier had come when it was last looked at: one that has not come further has lost something."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.engine import Engine

from shoal.store.tables import epochs
from shoal.store.trouble import translated_errors


class Epochs:
    """The last epoch of one frontier, which only grows."""

    def __init__(self, engine: Engine, frontier: str) -> None:
        self._engine = engine
        self.frontier = frontier

    def of(self, frontier: str) -> Epochs:
        """Those of another one in the same database."""
        return Epochs(self._engine, frontier)

    def last(self) -> int:
        """0 when nobody has looked yet."""
        query = sa.select(epochs.c.epoch).where(epochs.c.frontier == self.frontier)
        with translated_errors(), self._engine.connect() as connection:
            return connection.execute(query).scalar() or 0

    def note(self, epoch: int) -> None:
        """The frontier has come this far."""
        mine = epochs.c.frontier == self.frontier
        with translated_errors(), self._engine.begin() as connection:
            changed = connection.execute(sa.update(epochs).where(mine, epochs.c.epoch < epoch).values(epoch=epoch))
            if changed.rowcount == 0:
                connection.execute(self._first(epoch))

    def _first(self, epoch: int) -> sa.Insert:
        if self._engine.dialect.name == "postgresql":
            from sqlalchemy.dialects.postgresql import insert
        else:
            from sqlalchemy.dialects.sqlite import insert
        return insert(epochs).values(frontier=self.frontier, epoch=epoch).on_conflict_do_nothing()
