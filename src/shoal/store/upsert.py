"""Rows that meet one of the same key: the statements for each database, whose dialect is loaded when it is used."""

from __future__ import annotations

import sqlalchemy as sa


def upsert(dialect: str, table: sa.Table, key: tuple[str, ...]) -> sa.Insert:
    """Insert, or replace all but the key and the id."""
    if dialect == "postgresql":
        from sqlalchemy.dialects.postgresql import insert
    else:
        from sqlalchemy.dialects.sqlite import insert
    statement = insert(table)
    changed = {c.name: statement.excluded[c.name] for c in table.c if c.name not in key and c.name != "id"}
    return statement.on_conflict_do_update(index_elements=key, set_=changed)


def insert_new(dialect: str, table: sa.Table) -> sa.Insert:
    """Insert, unless there is one of the same key."""
    if dialect == "postgresql":
        from sqlalchemy.dialects.postgresql import insert
    else:
        from sqlalchemy.dialects.sqlite import insert
    return insert(table).on_conflict_do_nothing()
