"""Items with versions, their quarantine, what their fields look like; extractions from stored pages; deliveries."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None
additive = False

_Id = sa.BigInteger().with_variant(sa.Integer, "sqlite")
_PAGE_COLUMNS = ("callback", "meta", "content_hash", "simhash", "duplicate_of")


def _version() -> sa.Column[str]:
    return sa.Column("version", sa.String(40), nullable=False, server_default="v1")


def _callback() -> sa.Column[str]:
    return sa.Column("callback", sa.String(100), nullable=False, server_default="")


def upgrade() -> None:
    op.add_column("jobs", sa.Column("drift", sa.Text))
    op.create_index("jobs_by_name", "jobs", ["tenant", "name", "created_ms"])
    unjudged = sa.text("drift IS NULL")
    op.create_index("jobs_unjudged", "jobs", ["ended_ms"], sqlite_where=unjudged, postgresql_where=unjudged)
    op.add_column("pages", _callback())
    op.add_column("pages", sa.Column("meta", sa.Text))
    for name in _PAGE_COLUMNS[2:]:
        op.add_column("pages", sa.Column(name, sa.BigInteger))
    op.add_column("dead_letters", _callback())
    op.add_column("dead_letters", sa.Column("meta", sa.Text))
    op.drop_index("items_in_order", "items")
    with op.batch_alter_table("items", table_kwargs={"sqlite_autoincrement": True}) as items:
        items.add_column(_version())
        items.drop_constraint("items_by_fingerprint", type_="unique")
        items.create_unique_constraint("items_by_fingerprint", ["job", "version", "fingerprint", "number"])
    op.create_index("items_in_order", "items", ["job", "version", "id"])
    _create_quarantine()
    _create_extractions()
    op.create_table(
        "field_tallies",
        sa.Column("job", sa.String(40), primary_key=True),
        sa.Column("version", sa.String(40), primary_key=True),
        sa.Column("last_id", sa.BigInteger, nullable=False),
        sa.Column("tally", sa.Text, nullable=False),
    )
    _create_deliveries()


def _create_quarantine() -> None:
    op.create_table(
        "quarantine",
        sa.Column("id", _Id, primary_key=True, autoincrement=True),
        sa.Column("job", sa.String(40), nullable=False),
        sa.Column("fingerprint", sa.BigInteger, nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("url", sa.Text, nullable=False),
        sa.Column("data", sa.Text, nullable=False),
        _version(),
        sa.Column("reasons", sa.Text, nullable=False),
        sa.UniqueConstraint("job", "version", "fingerprint", "number", name="quarantine_by_fingerprint"),
        sqlite_autoincrement=True,
    )
    op.create_index("quarantine_in_order", "quarantine", ["job", "version", "id"])


def _create_extractions() -> None:
    op.create_table(
        "extractions",
        sa.Column("id", _Id, primary_key=True, autoincrement=True),
        sa.Column("job", sa.String(40), nullable=False),
        sa.Column("version", sa.String(40), nullable=False),
        sa.Column("spec", sa.JSON, nullable=False),
        sa.Column("state", sa.String(20), nullable=False),
        sa.Column("created_ms", sa.BigInteger, nullable=False),
        sa.Column("ended_ms", sa.BigInteger),
        sa.Column("error", sa.Text, nullable=False, server_default=""),
        sa.Column("total", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("request_id", sa.Text, nullable=False, server_default=""),
        sa.UniqueConstraint("job", "version", name="extractions_by_version"),
        sqlite_autoincrement=True,
    )
    op.create_index("extractions_running", "extractions", ["state", "created_ms"])
    op.create_table(
        "extraction_parts",
        sa.Column("extraction", sa.BigInteger, primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("first_id", sa.BigInteger, nullable=False),
        sa.Column("last_id", sa.BigInteger, nullable=False),
        sa.Column("done", sa.Boolean, nullable=False, server_default=sa.false()),
        *(sa.Column(name, sa.Integer, nullable=False, server_default="0") for name in ("pages", "items", "failed")),
        sa.Column("reasons", sa.Text, nullable=False, server_default="{}"),
    )


def _create_deliveries() -> None:
    op.create_table(
        "deliveries",
        sa.Column("id", _Id, primary_key=True, autoincrement=True),
        sa.Column("job", sa.String(40), nullable=False),
        _version(),
        sa.Column("output", sa.Text, nullable=False),
        sa.Column("state", sa.String(20), nullable=False),
        sa.Column("last_id", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("part", sa.Integer, nullable=False, server_default="0"),
        sa.Column("rows", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("parts", sa.Text, nullable=False, server_default="[]"),
        sa.Column("error", sa.Text, nullable=False, server_default=""),
        sa.Column("updated_ms", sa.BigInteger, nullable=False),
        sa.Column("allowed", sa.Text, nullable=False, server_default=""),
        sa.Column("early", sa.Boolean, nullable=False, server_default=sa.false()),
        *(sa.Column(name, sa.Integer, nullable=False, server_default="0") for name in ("round", "tries")),
        sa.Column("due_ms", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("owner", sa.String(40), nullable=False, server_default=""),
        sa.Column("owned_ms", sa.BigInteger, nullable=False, server_default="0"),
        sa.UniqueConstraint("job", "version", "output", name="deliveries_by_output"),
    )
    op.create_index("deliveries_by_state", "deliveries", ["state", "due_ms"])


def downgrade() -> None:
    for name in ("deliveries", "field_tallies", "extraction_parts", "extractions", "quarantine"):
        op.drop_table(name)
    op.execute("DELETE FROM items WHERE version <> 'v1'")
    op.drop_index("items_in_order", "items")
    with op.batch_alter_table("items") as items:
        items.drop_constraint("items_by_fingerprint", type_="unique")
        items.drop_column("version")
        items.create_unique_constraint("items_by_fingerprint", ["job", "fingerprint", "number"])
    op.create_index("items_in_order", "items", ["job", "id"])
    for name in ("meta", "callback"):
        op.drop_column("dead_letters", name)
    for name in reversed(_PAGE_COLUMNS):
        op.drop_column("pages", name)
    op.drop_index("jobs_unjudged", "jobs")
    op.drop_index("jobs_by_name", "jobs")
    op.drop_column("jobs", "drift")
