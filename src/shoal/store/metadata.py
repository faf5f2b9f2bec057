"""What all tables are listed in, and how their rows are numbered."""

from __future__ import annotations

from sqlalchemy import BigInteger, Integer, MetaData

metadata = MetaData()

Id = BigInteger().with_variant(Integer, "sqlite")


def only_where(condition: str) -> dict[str, str]:
    """What is noted of an index that has only some rows; which ones, the migrations tell the database.

    Said in SQLAlchemy's own way, every process would load the dialect of PostgreSQL to check the argument's name.
    """
    return {"where": condition}
