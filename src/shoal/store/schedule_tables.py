"""Tables about schedules: what is submitted when, and what became of each time."""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Column, Index, Integer, String, Table, Text, UniqueConstraint, true

from shoal.store.metadata import Id as _Id
from shoal.store.metadata import metadata, only_where

schedules = Table(
    "schedules",
    metadata,
    Column("id", _Id, primary_key=True, autoincrement=True),
    Column("tenant", String(80), nullable=False),
    Column("name", String(50), nullable=False),
    Column("timing", Text, nullable=False),
    Column("allowed", Text, nullable=False, server_default=""),
    Column("enabled", Boolean, nullable=False, server_default=true()),
    Column("anchor_ms", BigInteger, nullable=False),
    Column("cursor_ms", BigInteger, nullable=False),
    Column("next_slot_ms", BigInteger),
    Column("next_ms", BigInteger),
    Column("created_ms", BigInteger, nullable=False),
    Column("changed_ms", BigInteger, nullable=False),
    Column("revision", Integer, nullable=False, server_default="0"),
    Column("spec", Text, nullable=False),
    UniqueConstraint("tenant", "name", name="schedules_by_name"),
    Index("schedules_due", "next_ms", info=only_where("next_ms IS NOT NULL")),
    sqlite_autoincrement=True,
)
"""Jobs that are submitted again and again. All slots up to `cursor_ms` were decided about; the next one, if there is
one and it is not paused, is due at `next_ms`. `revision` grows with every change: who has read an older one changes
nothing. `allowed` is the operator's word that allows the jobs' output, for schedules of the API. `spec` may be long,
and stands last: who looks for what is due reads none."""

_RUNS_OPEN = "state IN ('waiting', 'starting', 'running')"

schedule_runs = Table(
    "schedule_runs",
    metadata,
    Column("id", _Id, primary_key=True, autoincrement=True),
    Column("schedule", BigInteger, nullable=False),
    Column("slot_ms", BigInteger, nullable=False),
    Column("due_ms", BigInteger, nullable=False),
    Column("planned_ms", BigInteger, nullable=False),
    Column("last_ms", BigInteger, nullable=False),
    Column("slots", Integer, nullable=False, server_default="1"),
    Column("kind", String(10), nullable=False),
    Column("state", String(10), nullable=False),
    Column("reason", String(20), nullable=False, server_default=""),
    Column("detail", Text, nullable=False, server_default=""),
    Column("job", String(40), nullable=False, server_default=""),
    Column("other", String(40), nullable=False, server_default=""),
    Column("previous", String(40), nullable=False, server_default=""),
    Column("try_ms", BigInteger, nullable=False, server_default="0"),
    Column("decided_ms", BigInteger),
    Column("started_ms", BigInteger),
    Column("ended_ms", BigInteger),
    Column("sums", Text),
    UniqueConstraint("schedule", "slot_ms", name="schedule_runs_by_slot"),
    Index("schedule_runs_by_start", "started_ms"),
    Index("schedule_runs_open", "schedule", "slot_ms", info=only_where(_RUNS_OPEN)),
)
"""One row a slot, which is why none runs twice; `slots` that were missed together, up to `last_ms`, share one. `other`
is the job that stood in its way, `previous` the schedule's last finished job when it began; `sums` (JSON) is what its
job had done when it ended."""
