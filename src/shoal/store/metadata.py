"""What all tables are listed in, and how their rows are numbered."""

from __future__ import annotations

from sqlalchemy import BigInteger, Integer, MetaData

metadata = MetaData()

Id = BigInteger().with_variant(Integer, "sqlite")
