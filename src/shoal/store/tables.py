"""The tables. Times are integers, milliseconds since 1970; fingerprints are signed 64-bit integers.

A page, a dead letter and an item belong to (job, fingerprint): writing one again replaces it, so a fetch that is
repeated after a crash leaves no second row.
"""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Float,
    Index,
    Integer,
    LargeBinary,
    String,
    Table,
    Text,
    UniqueConstraint,
    false,
    true,
)

from shoal.core.versions import FIRST_VERSION as FIRST_VERSION
from shoal.store.host_tables import ledger as ledger
from shoal.store.metadata import Id as _Id
from shoal.store.metadata import metadata as metadata
from shoal.store.metadata import only_where
from shoal.store.schedule_tables import schedules as schedules
from shoal.store.webhook_tables import events as events

jobs = Table(
    "jobs",
    metadata,
    Column("id", String(40), primary_key=True),
    Column("name", String(200), nullable=False),
    Column("spec", JSON, nullable=False),
    Column("queue", String(40), nullable=False),
    Column("state", String(20), nullable=False),
    Column("created_ms", BigInteger, nullable=False),
    Column("started_ms", BigInteger),
    Column("ended_ms", BigInteger),
    Column("status", JSON),
    Column("tenant", String(80), nullable=False, server_default="default"),
    Column("request_id", String(100), nullable=False, server_default=""),
    Column("labels", Text, nullable=False, server_default=""),
    Column("open", Boolean, nullable=False, server_default=false()),
    Column("deleted_ms", BigInteger),
    Column("drift", Text),
    Column("trace", String(60), nullable=False, server_default=""),
    Column("manner", String(16), nullable=False, server_default=""),
    Index("jobs_by_manner", "tenant", "manner", "created_ms"),
    Index("jobs_by_creation", "created_ms"),
    Index("jobs_by_tenant", "tenant", "created_ms"),
    Index("jobs_by_name", "tenant", "name", "created_ms"),
    Index("jobs_living", "created_ms", info=only_where("ended_ms IS NULL")),
    Index("jobs_unjudged", "ended_ms", info=only_where("drift IS NULL")),
)
"""`labels` has a blank before and after each label; `deleted_ms` is when its data was given up for removal; `drift` is
in what it differs from earlier runs of its name, as JSON, NULL before that was looked at; `trace` is the `traceparent`
of its submission, `manner` a digest of how it fetches."""

submissions = Table(
    "submissions",
    metadata,
    Column("id", _Id, primary_key=True, autoincrement=True),
    Column("job", String(40), nullable=False),
    Column("count", Integer, nullable=False),
    Column("urls", LargeBinary, nullable=False),
    Column("kind", String(10), nullable=False, server_default="urls"),
    Column("created_ms", BigInteger, nullable=False, server_default="0"),
    Column("admitted", Boolean, nullable=False, server_default=true()),
    Index("submissions_by_job", "job"),
    Index("submissions_waiting", "created_ms", info=only_where("NOT admitted")),
)
"""What was submitted; not `admitted` until it is known to be in the frontier."""

idempotency = Table(
    "idempotency",
    metadata,
    Column("tenant", String(80), primary_key=True),
    Column("key", String(255), primary_key=True),
    Column("digest", String(64), nullable=False),
    Column("job", String(40), nullable=False),
    Column("created_ms", BigInteger, nullable=False),
    Index("idempotency_by_age", "created_ms"),
)
"""Which submission a client's Idempotency-Key has already made."""

api_keys = Table(
    "api_keys",
    metadata,
    Column("prefix", String(16), primary_key=True),
    Column("digest", String(64), nullable=False),
    Column("label", String(200), nullable=False),
    Column("tenant", String(80), nullable=False),
    Column("scopes", String(80), nullable=False),
    Column("rate", Float, nullable=False),
    Column("created_ms", BigInteger, nullable=False),
    Column("revoked_ms", BigInteger),
)
"""API keys by their public prefix; of the secret only a SHA-256 is kept."""

pages = Table(
    "pages",
    metadata,
    Column("id", _Id, primary_key=True, autoincrement=True),
    Column("job", String(40), nullable=False),
    Column("fingerprint", BigInteger, nullable=False),
    Column("url", Text, nullable=False),
    Column("host", Text, nullable=False),
    Column("status", Integer, nullable=False),
    Column("depth", Integer, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("content_type", Text, nullable=False),
    Column("charset", Text, nullable=False),
    Column("size", Integer, nullable=False),
    Column("elapsed_ms", Float, nullable=False),
    Column("fetched_ms", BigInteger, nullable=False),
    Column("redirect", Text),
    Column("canonical", Text),
    Column("archive_key", Text),
    Column("archive_offset", BigInteger),
    Column("archive_length", BigInteger),
    Column("request_id", String(100), nullable=False, server_default=""),
    Column("hops", Integer, nullable=False, server_default="0"),
    Column("received", BigInteger, nullable=False, server_default="0"),
    Column("engine", String(10), nullable=False, server_default="http"),
    Column("captures", Text),
    Column("notes", Text),
    Column("callback", String(100), nullable=False, server_default=""),
    Column("meta", Text),
    Column("content_hash", BigInteger),
    Column("simhash", BigInteger),
    Column("duplicate_of", BigInteger),
    Column("found_on", BigInteger),
    Column("etag", Text),
    Column("last_modified", Text),
    Column("checked_ms", BigInteger),
    Column("interval_ms", BigInteger),
    Column("reused", String(20)),
    Column("unverified", Integer, nullable=False, server_default="0"),
    Column("body_hash", BigInteger),
    Column("digest", BigInteger),
    Index("pages_in_order", "job", "id"),
    UniqueConstraint("job", "fingerprint", name="pages_by_fingerprint"),
)
"""`captures` (what was kept of a rendered page besides its response) and `notes` (what was seen meanwhile) are JSON,
and so is `meta`, what a spider has sent along to the page's `callback`. `content_hash` and `simhash` are of the page's
text; `duplicate_of` is the fingerprint of an earlier page of the job with nearly the same, `found_on` of the page that
first led to it. `reused` says how a page was carried over from an earlier job, and `checked_ms` when its host last said
that this is the page, `unverified` times in a row without sending it; `interval_ms` is how often it is visited,
`body_hash` of its unpacked body, `digest` of its text without noise, for jobs that are compared with earlier ones."""

outlinks = Table(
    "outlinks",
    metadata,
    Column("id", _Id, primary_key=True, autoincrement=True),
    Column("job", String(40), nullable=False),
    Column("fingerprint", BigInteger, nullable=False),
    Column("found", LargeBinary, nullable=False),
    UniqueConstraint("job", "fingerprint", name="outlinks_by_fingerprint"),
)
"""All that a page leads to, as it was found: for the next run, which then need not read it again if it has not
changed."""

borrowed = Table(
    "borrowed",
    metadata,
    Column("id", _Id, primary_key=True, autoincrement=True),
    Column("job", String(40), nullable=False),
    Column("lender", String(40), nullable=False),
    UniqueConstraint("job", "lender", name="borrowed_by_job"),
    Index("borrowed_by_lender", "lender"),
)
"""Pages of `job` lie in the archive folder of `lender`, which stays for as long as there is such a row."""

links = Table(
    "links",
    metadata,
    Column("id", _Id, primary_key=True, autoincrement=True),
    Column("job", String(40), nullable=False),
    Column("depth", Integer, nullable=False),
    Column("urls", LargeBinary, nullable=False),
    Column("fingerprint", BigInteger),
    Index("links_in_order", "job", "id"),
    Index("links_by_fingerprint", "job", "fingerprint"),
)
"""Links that were followed from pages whose bodies are not kept: what the frontier is rebuilt from in their place."""

schema_log = Table(
    "schema_log",
    metadata,
    Column("revision", String(32), primary_key=True),
    Column("works_from", String(32), nullable=False),
    Column("version", String(40), nullable=False),
    Column("at_ms", BigInteger, nullable=False),
)
"""Upgrades of the schema: to which version, by which Shoal, and the oldest version whose processes can work with it."""

database_name = Table(
    "database_name",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("name", String(32), nullable=False),
)
"""One row: a random name, which tells this database from others that are called alike elsewhere."""

epochs = Table(
    "epochs",
    metadata,
    Column("frontier", String(200), primary_key=True),
    Column("epoch", BigInteger, nullable=False),
)
"""How far each frontier, by the prefix of its keys, had come when it was last looked at."""

items = Table(
    "items",
    metadata,
    Column("id", _Id, primary_key=True, autoincrement=True),
    Column("job", String(40), nullable=False),
    Column("fingerprint", BigInteger, nullable=False),
    Column("number", Integer, nullable=False),
    Column("url", Text, nullable=False),
    Column("data", Text, nullable=False),
    Column("version", String(40), nullable=False, server_default=FIRST_VERSION),
    Index("items_in_order", "job", "version", "id"),
    UniqueConstraint("job", "version", "fingerprint", "number", name="items_by_fingerprint"),
    sqlite_autoincrement=True,
)
"""`version` is that of the extractor: a job's own spec is the first."""

quarantine = Table(
    "quarantine",
    metadata,
    Column("id", _Id, primary_key=True, autoincrement=True),
    Column("job", String(40), nullable=False),
    Column("fingerprint", BigInteger, nullable=False),
    Column("number", Integer, nullable=False),
    Column("url", Text, nullable=False),
    Column("data", Text, nullable=False),
    Column("version", String(40), nullable=False, server_default=FIRST_VERSION),
    Column("reasons", Text, nullable=False),
    Index("quarantine_in_order", "job", "version", "id"),
    UniqueConstraint("job", "version", "fingerprint", "number", name="quarantine_by_fingerprint"),
    sqlite_autoincrement=True,
)
"""Items that break their job's contract, with the reasons as JSON; one of these numbers is not among the items."""

extractions = Table(
    "extractions",
    metadata,
    Column("id", _Id, primary_key=True, autoincrement=True),
    Column("job", String(40), nullable=False),
    Column("version", String(40), nullable=False),
    Column("spec", JSON, nullable=False),
    Column("state", String(20), nullable=False),
    Column("created_ms", BigInteger, nullable=False),
    Column("ended_ms", BigInteger),
    Column("error", Text, nullable=False, server_default=""),
    Column("total", BigInteger, nullable=False, server_default="0"),
    Column("request_id", Text, nullable=False, server_default=""),
    UniqueConstraint("job", "version", name="extractions_by_version"),
    Index("extractions_running", "state", "created_ms"),
    sqlite_autoincrement=True,
)
"""Further extractions from pages that are stored: each makes a version of a job's items. `total` is the number of pages
that there were when it began."""

extraction_parts = Table(
    "extraction_parts",
    metadata,
    Column("extraction", BigInteger, primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("first_id", BigInteger, nullable=False),
    Column("last_id", BigInteger, nullable=False),
    Column("done", Boolean, nullable=False, server_default=false()),
    Column("pages", Integer, nullable=False, server_default="0"),
    Column("items", Integer, nullable=False, server_default="0"),
    Column("failed", Integer, nullable=False, server_default="0"),
    Column("reasons", Text, nullable=False, server_default="{}"),
)
"""An extraction's share of page ids, for one worker at a time. `first_id` moves on, up to behind `last_id`, in the
transaction that has the items of the pages before it; `reasons` says as JSON why how many pages could not be read."""

field_tallies = Table(
    "field_tallies",
    metadata,
    Column("job", String(40), primary_key=True),
    Column("version", String(40), primary_key=True),
    Column("last_id", BigInteger, nullable=False),
    Column("tally", Text, nullable=False),
)
"""What the fields of a job's items look like, by host, over the items up to `last_id`; as JSON."""

deliveries = Table(
    "deliveries",
    metadata,
    Column("id", _Id, primary_key=True, autoincrement=True),
    Column("job", String(40), nullable=False),
    Column("version", String(40), nullable=False, server_default=FIRST_VERSION),
    Column("output", Text, nullable=False),
    Column("state", String(20), nullable=False),
    Column("last_id", BigInteger, nullable=False, server_default="0"),
    Column("part", Integer, nullable=False, server_default="0"),
    Column("rows", BigInteger, nullable=False, server_default="0"),
    Column("parts", Text, nullable=False, server_default="[]"),
    Column("error", Text, nullable=False, server_default=""),
    Column("updated_ms", BigInteger, nullable=False),
    Column("allowed", Text, nullable=False, server_default=""),
    Column("early", Boolean, nullable=False, server_default=false()),
    Column("round", Integer, nullable=False, server_default="0"),
    Column("tries", Integer, nullable=False, server_default="0"),
    Column("due_ms", BigInteger, nullable=False, server_default="0"),
    Column("owner", String(40), nullable=False, server_default=""),
    Column("owned_ms", BigInteger, nullable=False, server_default="0"),
    UniqueConstraint("job", "version", "output", name="deliveries_by_output"),
    Index("deliveries_by_state", "state", "due_ms"),
)
"""Where a job's items are delivered to, and how far that has come: items up to `last_id`, in `parts` (JSON).

`output` is JSON, with credentials if it has any. `allowed` is the operator's word that allows it, for jobs of the
API. One that is `early` is begun before its job ends. Whoever works on one owns it until `owned_ms`."""

history = Table(
    "history",
    metadata,
    Column("job", String(40), primary_key=True),
    Column("at_ms", BigInteger, primary_key=True),
    Column("step_ms", Integer, nullable=False),
    Column("last_item", BigInteger, nullable=False, server_default="0"),
    Column("sample", Text, nullable=False),
    Index("history_by_age", "step_ms", "at_ms"),
)
"""How a job stood at a moment, or, with an empty name in its place, the fleet: JSON. Kept as long as samples that are
`step_ms` apart; `last_item` is the last item that it has counted."""

dead_letters = Table(
    "dead_letters",
    metadata,
    Column("id", _Id, primary_key=True, autoincrement=True),
    Column("job", String(40), nullable=False),
    Column("fingerprint", BigInteger, nullable=False),
    Column("url", Text, nullable=False),
    Column("host", Text, nullable=False),
    Column("outcome", String(20), nullable=False),
    Column("reason", Text, nullable=False),
    Column("detail", Text, nullable=False),
    Column("depth", Integer, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("at_ms", BigInteger, nullable=False),
    Column("callback", String(100), nullable=False, server_default=""),
    Column("meta", Text),
    Column("found_on", BigInteger),
    Index("dead_letters_in_order", "job", "id"),
    UniqueConstraint("job", "fingerprint", name="dead_letters_by_fingerprint"),
    sqlite_autoincrement=True,
)
