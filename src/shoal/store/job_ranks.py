"""Jobs in an order of somebody's choice, in terms of the database: what is sorted by, and what comes behind a place."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from shoal.core.job_order import WHOLE, JobOrder, JobSort
from shoal.store.tables import jobs

ENDED = jobs.c.ended_ms.is_not(None)
_FAILED = ("dead:%", "robots:%")
"""Reasons of requests that ended without a page."""


def rank(order: JobOrder, dialect: str) -> sa.ColumnElement[Any]:
    """What the rows are sorted by. Of sums this holds for jobs that have ended: others have moved on since."""
    match order.by:
        case JobSort.CREATED:
            return jobs.c.created_ms
        case JobSort.NAME:
            return jobs.c.name
        case JobSort.STATE:
            return jobs.c.state
        case JobSort.PAGES:
            redirects = jobs.c.status[("reasons", "done:redirect")].as_integer()
            return jobs.c.status[("counters", "done")].as_integer() - sa.func.coalesce(redirects, 0)
        case JobSort.ERRORS:
            return _errors(dialect)
        case JobSort.ETA:
            return sa.literal(order.unknown)
        case JobSort.PROGRESS:
            return sa.literal(WHOLE)
        case _:
            return sa.literal(0)


def _errors(dialect: str) -> sa.ColumnElement[Any]:
    if dialect == "sqlite":
        each = sa.func.json_each(jobs.c.status, "$.reasons").table_valued("key", "value")
    else:
        each = sa.func.json_each_text(jobs.c.status["reasons"]).table_valued("key", "value")
    count = sa.func.sum(sa.cast(each.c.value, sa.BigInteger))
    failed = sa.or_(*(each.c.key.like(reason) for reason in _FAILED))
    total = sa.cast(sa.func.coalesce(count, 0), sa.BigInteger)
    return sa.select(total).select_from(each).where(failed).correlate(jobs).scalar_subquery()


def in_order(query: sa.Select[Any], order: JobOrder, ranked: sa.ColumnElement[Any]) -> sa.Select[Any]:
    """Sorted, from behind the place where the list before has ended."""
    plain = order.by is JobSort.CREATED
    place = (jobs.c.created_ms, jobs.c.id) if plain else (ranked, jobs.c.created_ms, jobs.c.id)
    if order.after is not None:
        last = sa.tuple_(*map(sa.literal, order.after[1:] if plain else order.after))
        query = query.where(sa.tuple_(*place) > last if order.ascending else sa.tuple_(*place) < last)
    moving = (each for each in place if not isinstance(each, sa.BindParameter))  # databases take a number for a column
    return query.order_by(*(each.asc() if order.ascending else each.desc() for each in moving))
