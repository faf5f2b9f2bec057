"""Rows of one job in the order of an index that begins with the job, however many rows others have.

Asked for a job's rows by id, PostgreSQL may walk the primary key from its start and pass over all that others have
stored before: it takes the job's rows for spread evenly. Where an order by (job, id) is asked for, and the job is a
range and no constant, only the index (job, id) has it. SQLite takes that index by itself.
"""

from __future__ import annotations

from typing import Any, TypeVar

import sqlalchemy as sa

from shoal.store.tables import items, outlinks, quarantine

_REMOVED_BY = {items.name: ("version", "id"), quarantine.name: ("version", "id"), outlinks.name: ("fingerprint",)}
"""Table → what its index has behind the job, where that is not the id."""

Asked = TypeVar("Asked", bound="sa.Select[*tuple[Any, ...]]")


def after(dialect: str, query: Asked, table: sa.Table, job: str, last_id: int, version: str | None = None) -> Asked:
    """The query for rows of a job, and of a version of those that have one, behind an id and in the order of ids."""
    c = table.c
    mine = {"job": job} if version is None else {"job": job, "version": version}
    versioned = [c[name] == value for name, value in mine.items() if name != "job"]
    if dialect != "postgresql":
        return query.where(c.job == job, *versioned, c.id > last_id).order_by(c.id)
    columns, values = [c[name] for name in mine], [sa.literal(value) for value in mine.values()]
    behind = sa.tuple_(*columns, c.id) > sa.tuple_(*values, sa.literal(last_id, sa.BigInteger))
    return query.where(c.job >= job, c.job <= job, *versioned, behind).order_by(*columns, c.id)


def newest_id(dialect: str, table: sa.Table, job: str) -> sa.Select[Any]:
    """The id of the row that came last."""
    c = table.c
    query = sa.select(c.id).limit(1)
    if dialect != "postgresql":
        return query.where(c.job == job).order_by(c.id.desc())
    return query.where(c.job >= job, c.job <= job).order_by(c.job.desc(), c.id.desc())


def some_ids(dialect: str, table: sa.Table, job: str, at_most: int) -> sa.Select[Any]:
    """Some rows of a job, to be removed."""
    c = table.c
    order = [c[name] for name in _REMOVED_BY.get(table.name, ("id",))]
    query = sa.select(c.id).limit(at_most)
    if dialect == "postgresql" and order == [c.id]:
        return query.where(c.job >= job, c.job <= job).order_by(c.job, c.id)
    return query.where(c.job == job).order_by(*order)
