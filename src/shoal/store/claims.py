"""Idempotency keys: a client may send the same submission twice, and it counts once."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from shoal.core.frozen import frozen
from shoal.store.tables import idempotency


@frozen
class Claim:
    """A client's word that the same submission may come twice and counts once."""

    key: str
    digest: str
    """Of the submission: the key must not be used for another one."""


OWN = "schedule "
"""Begins keys of ours. No client's key has a blank: theirs are others. They are kept for as long as their job."""


class Claimed(Exception):
    """This Idempotency-Key has made a job already."""

    def __init__(self, job: str, *, same: bool) -> None:
        super().__init__(job)
        self.job = job
        self.same = same
        """Was it the same submission?"""


def insert_claim(connection: Connection, claim: Claim, tenant: str, job: str, created_ms: int) -> None:
    """Within a transaction: the key belongs to this job from now on. Raises Claimed when it belongs to another."""
    if connection.dialect.name == "postgresql":
        from sqlalchemy.dialects.postgresql import insert
    else:
        from sqlalchemy.dialects.sqlite import insert
    values = {"tenant": tenant, "key": claim.key, "digest": claim.digest, "job": job, "created_ms": created_ms}
    statement = insert(idempotency).values(**values).on_conflict_do_nothing()
    if connection.execute(statement.returning(idempotency.c.job)).first():
        return
    query = sa.select(idempotency.c.job, idempotency.c.digest).where(
        idempotency.c.tenant == tenant, idempotency.c.key == claim.key
    )
    owner, digest = connection.execute(query).one()
    raise Claimed(owner, same=digest == claim.digest)
