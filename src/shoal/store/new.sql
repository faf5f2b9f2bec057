CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);

CREATE TABLE jobs (
	id VARCHAR(40) NOT NULL, 
	name VARCHAR(200) NOT NULL, 
	spec JSON NOT NULL, 
	queue VARCHAR(40) NOT NULL, 
	state VARCHAR(20) NOT NULL, 
	created_ms BIGINT NOT NULL, 
	started_ms BIGINT, 
	ended_ms BIGINT, 
	status JSON, tenant VARCHAR(80) DEFAULT 'default' NOT NULL, request_id VARCHAR(100) DEFAULT '' NOT NULL, labels TEXT DEFAULT '' NOT NULL, open BOOLEAN DEFAULT 0 NOT NULL, deleted_ms BIGINT, drift TEXT, trace VARCHAR(60) DEFAULT '' NOT NULL, manner VARCHAR(16) DEFAULT '' NOT NULL, 
	PRIMARY KEY (id)
);

CREATE INDEX jobs_by_creation ON jobs (created_ms);

CREATE TABLE submissions (
	id INTEGER NOT NULL, 
	job VARCHAR(40) NOT NULL, 
	count INTEGER NOT NULL, 
	urls BLOB NOT NULL, kind VARCHAR(10) DEFAULT 'urls' NOT NULL, created_ms BIGINT DEFAULT '0' NOT NULL, admitted BOOLEAN DEFAULT 1 NOT NULL, 
	PRIMARY KEY (id)
);

CREATE INDEX submissions_by_job ON submissions (job);

CREATE TABLE pages (
	id INTEGER NOT NULL, 
	job VARCHAR(40) NOT NULL, 
	fingerprint BIGINT NOT NULL, 
	url TEXT NOT NULL, 
	host TEXT NOT NULL, 
	status INTEGER NOT NULL, 
	depth INTEGER NOT NULL, 
	attempt INTEGER NOT NULL, 
	content_type TEXT NOT NULL, 
	charset TEXT NOT NULL, 
	size INTEGER NOT NULL, 
	elapsed_ms FLOAT NOT NULL, 
	fetched_ms BIGINT NOT NULL, 
	redirect TEXT, 
	canonical TEXT, 
	archive_key TEXT, 
	archive_offset BIGINT, 
	archive_length BIGINT, request_id VARCHAR(100) DEFAULT '' NOT NULL, hops INTEGER DEFAULT '0' NOT NULL, received BIGINT DEFAULT '0' NOT NULL, engine VARCHAR(10) DEFAULT 'http' NOT NULL, captures TEXT, notes TEXT, callback VARCHAR(100) DEFAULT '' NOT NULL, meta TEXT, content_hash BIGINT, simhash BIGINT, duplicate_of BIGINT, found_on BIGINT, etag TEXT, last_modified TEXT, checked_ms BIGINT, interval_ms BIGINT, reused VARCHAR(20), unverified INTEGER DEFAULT '0' NOT NULL, body_hash BIGINT, digest BIGINT, 
	PRIMARY KEY (id), 
	CONSTRAINT pages_by_fingerprint UNIQUE (job, fingerprint)
);

CREATE INDEX jobs_by_tenant ON jobs (tenant, created_ms);

CREATE INDEX submissions_waiting ON submissions (created_ms) WHERE NOT admitted;

CREATE TABLE "dead_letters" (
	id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	job VARCHAR(40) NOT NULL, 
	fingerprint BIGINT NOT NULL, 
	url TEXT NOT NULL, 
	host TEXT NOT NULL, 
	outcome VARCHAR(20) NOT NULL, 
	reason TEXT NOT NULL, 
	detail TEXT NOT NULL, 
	depth INTEGER NOT NULL, 
	attempts INTEGER NOT NULL, 
	at_ms BIGINT NOT NULL, callback VARCHAR(100) DEFAULT '' NOT NULL, meta TEXT, found_on BIGINT, 
	CONSTRAINT dead_letters_by_fingerprint UNIQUE (job, fingerprint)
);

CREATE INDEX pages_in_order ON pages (job, id);

CREATE INDEX dead_letters_in_order ON dead_letters (job, id);

CREATE TABLE idempotency (
	tenant VARCHAR(80) NOT NULL, 
	"key" VARCHAR(255) NOT NULL, 
	digest VARCHAR(64) NOT NULL, 
	job VARCHAR(40) NOT NULL, 
	created_ms BIGINT NOT NULL, 
	PRIMARY KEY (tenant, "key")
);

CREATE INDEX idempotency_by_age ON idempotency (created_ms);

CREATE TABLE api_keys (
	prefix VARCHAR(16) NOT NULL, 
	digest VARCHAR(64) NOT NULL, 
	label VARCHAR(200) NOT NULL, 
	tenant VARCHAR(80) NOT NULL, 
	scopes VARCHAR(80) NOT NULL, 
	rate FLOAT NOT NULL, 
	created_ms BIGINT NOT NULL, 
	revoked_ms BIGINT, 
	PRIMARY KEY (prefix)
);

CREATE TABLE robots (
	origin TEXT NOT NULL, 
	status INTEGER NOT NULL, 
	version VARCHAR(16) NOT NULL, 
	fetched_ms BIGINT NOT NULL, 
	until_ms BIGINT NOT NULL, 
	PRIMARY KEY (origin)
);

CREATE TABLE robots_texts (
	version VARCHAR(16) NOT NULL, 
	body BLOB NOT NULL, 
	seen_ms BIGINT NOT NULL, 
	PRIMARY KEY (version)
);

CREATE TABLE host_limits (
	host TEXT NOT NULL, 
	rate FLOAT, 
	parallel INTEGER, 
	paused BOOLEAN DEFAULT 0 NOT NULL, 
	note TEXT DEFAULT '' NOT NULL, 
	set_ms BIGINT NOT NULL, 
	PRIMARY KEY (host)
);

CREATE TABLE ledger (
	id INTEGER NOT NULL, 
	at_ms BIGINT NOT NULL, 
	host TEXT NOT NULL, 
	job VARCHAR(40) NOT NULL, 
	url TEXT NOT NULL, 
	status INTEGER NOT NULL, 
	reason TEXT NOT NULL, 
	rate FLOAT NOT NULL, 
	parallel INTEGER NOT NULL, 
	source VARCHAR(10) NOT NULL, 
	robots VARCHAR(16) NOT NULL, 
	rule TEXT NOT NULL, 
	PRIMARY KEY (id)
);

CREATE INDEX ledger_by_host ON ledger (host, at_ms);

CREATE TABLE links (
	id INTEGER NOT NULL, 
	job VARCHAR(40) NOT NULL, 
	depth INTEGER NOT NULL, 
	urls BLOB NOT NULL, fingerprint BIGINT, 
	PRIMARY KEY (id)
);

CREATE INDEX links_in_order ON links (job, id);

CREATE TABLE epochs (
	frontier VARCHAR(200) NOT NULL, 
	epoch BIGINT NOT NULL, 
	PRIMARY KEY (frontier)
);

CREATE INDEX jobs_living ON jobs (created_ms) WHERE ended_ms IS NULL;

CREATE INDEX links_by_fingerprint ON links (job, fingerprint);

CREATE INDEX jobs_by_name ON jobs (tenant, name, created_ms);

CREATE INDEX jobs_unjudged ON jobs (ended_ms) WHERE drift IS NULL;

CREATE TABLE "items" (
	id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	job VARCHAR(40) NOT NULL, 
	fingerprint BIGINT NOT NULL, 
	number INTEGER NOT NULL, 
	url TEXT NOT NULL, 
	data TEXT NOT NULL, 
	version VARCHAR(40) DEFAULT 'v1' NOT NULL, 
	CONSTRAINT items_by_fingerprint UNIQUE (job, version, fingerprint, number)
);

CREATE INDEX items_in_order ON items (job, version, id);

CREATE TABLE quarantine (
	id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	job VARCHAR(40) NOT NULL, 
	fingerprint BIGINT NOT NULL, 
	number INTEGER NOT NULL, 
	url TEXT NOT NULL, 
	data TEXT NOT NULL, 
	version VARCHAR(40) DEFAULT 'v1' NOT NULL, 
	reasons TEXT NOT NULL, 
	CONSTRAINT quarantine_by_fingerprint UNIQUE (job, version, fingerprint, number)
);

CREATE INDEX quarantine_in_order ON quarantine (job, version, id);

CREATE TABLE extractions (
	id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	job VARCHAR(40) NOT NULL, 
	version VARCHAR(40) NOT NULL, 
	spec JSON NOT NULL, 
	state VARCHAR(20) NOT NULL, 
	created_ms BIGINT NOT NULL, 
	ended_ms BIGINT, 
	error TEXT DEFAULT '' NOT NULL, 
	total BIGINT DEFAULT '0' NOT NULL, 
	request_id TEXT DEFAULT '' NOT NULL, 
	CONSTRAINT extractions_by_version UNIQUE (job, version)
);

CREATE INDEX extractions_running ON extractions (state, created_ms);

CREATE TABLE extraction_parts (
	extraction BIGINT NOT NULL, 
	number INTEGER NOT NULL, 
	first_id BIGINT NOT NULL, 
	last_id BIGINT NOT NULL, 
	done BOOLEAN DEFAULT 0 NOT NULL, 
	pages INTEGER DEFAULT '0' NOT NULL, 
	items INTEGER DEFAULT '0' NOT NULL, 
	failed INTEGER DEFAULT '0' NOT NULL, 
	reasons TEXT DEFAULT '{}' NOT NULL, 
	PRIMARY KEY (extraction, number)
);

CREATE TABLE field_tallies (
	job VARCHAR(40) NOT NULL, 
	version VARCHAR(40) NOT NULL, 
	last_id BIGINT NOT NULL, 
	tally TEXT NOT NULL, 
	PRIMARY KEY (job, version)
);

CREATE TABLE deliveries (
	id INTEGER NOT NULL, 
	job VARCHAR(40) NOT NULL, 
	version VARCHAR(40) DEFAULT 'v1' NOT NULL, 
	output TEXT NOT NULL, 
	state VARCHAR(20) NOT NULL, 
	last_id BIGINT DEFAULT '0' NOT NULL, 
	part INTEGER DEFAULT '0' NOT NULL, 
	rows BIGINT DEFAULT '0' NOT NULL, 
	parts TEXT DEFAULT '[]' NOT NULL, 
	error TEXT DEFAULT '' NOT NULL, 
	updated_ms BIGINT NOT NULL, 
	allowed TEXT DEFAULT '' NOT NULL, 
	early BOOLEAN DEFAULT 0 NOT NULL, 
	round INTEGER DEFAULT '0' NOT NULL, 
	tries INTEGER DEFAULT '0' NOT NULL, 
	due_ms BIGINT DEFAULT '0' NOT NULL, 
	owner VARCHAR(40) DEFAULT '' NOT NULL, 
	owned_ms BIGINT DEFAULT '0' NOT NULL, 
	PRIMARY KEY (id), 
	CONSTRAINT deliveries_by_output UNIQUE (job, version, output)
);

CREATE INDEX deliveries_by_state ON deliveries (state, due_ms);

CREATE TABLE history (
	job VARCHAR(40) NOT NULL, 
	at_ms BIGINT NOT NULL, 
	step_ms INTEGER NOT NULL, 
	last_item BIGINT DEFAULT '0' NOT NULL, 
	sample TEXT NOT NULL, 
	PRIMARY KEY (job, at_ms)
);

CREATE INDEX history_by_age ON history (step_ms, at_ms);

CREATE TABLE schedules (
	id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	tenant VARCHAR(80) NOT NULL, 
	name VARCHAR(50) NOT NULL, 
	timing TEXT NOT NULL, 
	allowed TEXT DEFAULT '' NOT NULL, 
	enabled BOOLEAN DEFAULT 1 NOT NULL, 
	anchor_ms BIGINT NOT NULL, 
	cursor_ms BIGINT NOT NULL, 
	next_slot_ms BIGINT, 
	next_ms BIGINT, 
	created_ms BIGINT NOT NULL, 
	changed_ms BIGINT NOT NULL, 
	revision INTEGER DEFAULT '0' NOT NULL, 
	spec TEXT NOT NULL, 
	CONSTRAINT schedules_by_name UNIQUE (tenant, name)
);

CREATE INDEX schedules_due ON schedules (next_ms) WHERE next_ms IS NOT NULL;

CREATE TABLE schedule_runs (
	id INTEGER NOT NULL, 
	schedule BIGINT NOT NULL, 
	slot_ms BIGINT NOT NULL, 
	due_ms BIGINT NOT NULL, 
	planned_ms BIGINT NOT NULL, 
	last_ms BIGINT NOT NULL, 
	slots INTEGER DEFAULT '1' NOT NULL, 
	kind VARCHAR(10) NOT NULL, 
	state VARCHAR(10) NOT NULL, 
	reason VARCHAR(20) DEFAULT '' NOT NULL, 
	detail TEXT DEFAULT '' NOT NULL, 
	job VARCHAR(40) DEFAULT '' NOT NULL, 
	other VARCHAR(40) DEFAULT '' NOT NULL, 
	previous VARCHAR(40) DEFAULT '' NOT NULL, 
	try_ms BIGINT DEFAULT '0' NOT NULL, 
	decided_ms BIGINT, 
	started_ms BIGINT, 
	ended_ms BIGINT, 
	sums TEXT, 
	PRIMARY KEY (id), 
	CONSTRAINT schedule_runs_by_slot UNIQUE (schedule, slot_ms)
);

CREATE INDEX schedule_runs_by_start ON schedule_runs (started_ms);

CREATE INDEX schedule_runs_open ON schedule_runs (schedule, slot_ms) WHERE state IN ('waiting', 'starting', 'running');

CREATE TABLE events (
	id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	"key" VARCHAR(200) NOT NULL, 
	type VARCHAR(40) NOT NULL, 
	tenant VARCHAR(80) NOT NULL, 
	job VARCHAR(40) NOT NULL, 
	at_ms BIGINT NOT NULL, 
	data TEXT NOT NULL, 
	CONSTRAINT events_by_key UNIQUE ("key")
);

CREATE TABLE webhooks (
	id VARCHAR(40) NOT NULL, 
	tenant VARCHAR(80) NOT NULL, 
	name VARCHAR(80) NOT NULL, 
	settings TEXT NOT NULL, 
	secrets TEXT NOT NULL, 
	state VARCHAR(20) NOT NULL, 
	reason TEXT DEFAULT '' NOT NULL, 
	created_ms BIGINT NOT NULL, 
	by_api BOOLEAN DEFAULT 0 NOT NULL, 
	failures INTEGER DEFAULT '0' NOT NULL, 
	failing_since_ms BIGINT, 
	given_up INTEGER DEFAULT '0' NOT NULL, 
	hold_ms BIGINT DEFAULT '0' NOT NULL, 
	delivered_ms BIGINT, 
	PRIMARY KEY (id), 
	CONSTRAINT webhooks_by_name UNIQUE (tenant, name)
);

CREATE TABLE webhook_messages (
	id VARCHAR(40) NOT NULL, 
	webhook VARCHAR(40) NOT NULL, 
	type VARCHAR(40) NOT NULL, 
	job VARCHAR(40) NOT NULL, 
	at_ms BIGINT NOT NULL, 
	data TEXT NOT NULL, 
	first_id BIGINT, 
	last_id BIGINT, 
	state VARCHAR(20) NOT NULL, 
	tries INTEGER DEFAULT '0' NOT NULL, 
	error TEXT DEFAULT '' NOT NULL, 
	created_ms BIGINT NOT NULL, 
	updated_ms BIGINT NOT NULL, 
	due_ms BIGINT DEFAULT '0' NOT NULL, 
	owner VARCHAR(40) DEFAULT '' NOT NULL, 
	owned_ms BIGINT DEFAULT '0' NOT NULL, 
	PRIMARY KEY (id)
);

CREATE INDEX webhook_messages_due ON webhook_messages (webhook, state, due_ms);

CREATE INDEX webhook_messages_by_age ON webhook_messages (created_ms, id);

CREATE TABLE webhook_attempts (
	id INTEGER NOT NULL, 
	message VARCHAR(40) NOT NULL, 
	at_ms BIGINT NOT NULL, 
	status INTEGER NOT NULL, 
	reason TEXT NOT NULL, 
	elapsed_ms FLOAT NOT NULL, 
	answer TEXT NOT NULL, 
	PRIMARY KEY (id)
);

CREATE INDEX webhook_attempts_by_message ON webhook_attempts (message, id);

CREATE TABLE webhook_cursors (
	webhook VARCHAR(40) NOT NULL, 
	job VARCHAR(40) NOT NULL, 
	type VARCHAR(40) NOT NULL, 
	last_id BIGINT DEFAULT '0' NOT NULL, 
	data TEXT NOT NULL, 
	open BOOLEAN DEFAULT 1 NOT NULL, 
	ended BOOLEAN DEFAULT 0 NOT NULL, 
	updated_ms BIGINT NOT NULL, 
	PRIMARY KEY (webhook, job, type)
);

CREATE INDEX webhook_cursors_by_job ON webhook_cursors (job);

CREATE INDEX jobs_by_manner ON jobs (tenant, manner, created_ms);

CREATE TABLE outlinks (
	id INTEGER NOT NULL, 
	job VARCHAR(40) NOT NULL, 
	fingerprint BIGINT NOT NULL, 
	found BLOB NOT NULL, 
	PRIMARY KEY (id), 
	CONSTRAINT outlinks_by_fingerprint UNIQUE (job, fingerprint)
);

CREATE TABLE borrowed (
	id INTEGER NOT NULL, 
	job VARCHAR(40) NOT NULL, 
	lender VARCHAR(40) NOT NULL, 
	PRIMARY KEY (id), 
	CONSTRAINT borrowed_by_job UNIQUE (job, lender)
);

CREATE INDEX borrowed_by_lender ON borrowed (lender);

CREATE TABLE schema_log (
	revision VARCHAR(32) NOT NULL, 
	works_from VARCHAR(32) NOT NULL, 
	version VARCHAR(40) NOT NULL, 
	at_ms BIGINT NOT NULL, 
	PRIMARY KEY (revision)
);

CREATE TABLE database_name (
	id INTEGER NOT NULL, 
	name VARCHAR(32) NOT NULL, 
	PRIMARY KEY (id)
);

