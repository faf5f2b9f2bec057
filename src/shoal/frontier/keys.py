"""Every key that the frontier keeps in Redis: this is the one list.

The Lua prelude builds the same names; a test holds the two together. `{P}` is the prefix, J a job, H a host (name and,
unless it is the scheme's own, port; `@domain` and `#address` are buckets that several hosts share), Q a queue, T a
tenant, B a bucket, L a level, G a lease group, K an API key, W a worker, O an origin, X a proxy, S a
host or session that keeps to one, C a chore, E an extraction, D a digest.
"""

from __future__ import annotations

from shoal.core.frozen import frozen


@frozen
class KeyPattern:
    """One family of keys."""

    name: str
    pattern: str
    type: str
    holds: str
    lifetime: str


KEYS: tuple[KeyPattern, ...] = (
    KeyPattern("job", "{P}:job:{J}", "hash",
               "state, queue, queue of its browser half, limits, counters, layout of seen; how far it is rebuilt",
               "until forget"),
    KeyPattern("reasons", "{P}:reasons:{J}", "hash", "outcome:reason → count", "until forget"),
    KeyPattern("slow", "{P}:slow:{J}", "zset", "the 32 slowest hosts → ms to answer", "until forget"),
    KeyPattern("seen", "{P}:seen:{J}:{B}", "set", "64-bit fingerprints, as an intset", "until forget"),
    KeyPattern("queue", "{P}:queue:{J}:{H}:{L}", "list", "entries in order of arrival", "until empty or cancel"),
    KeyPattern("ready", "{P}:ready:{J}", "zset", "host with a queue → ms when it may be asked; inf = paused",
               "until empty or cancel"),
    KeyPattern("delayed", "{P}:delayed:{J}", "zset", "record → ms when it is due", "until empty or cancel"),
    KeyPattern("lag", "{P}:lag:{J}", "zset", "slow host with a queue → ms when it may be asked",
               "until empty or cancel"),
    KeyPattern("render", "{P}:render:{J}", "zset", "host with a queue for the browser → ms when it may be asked",
               "until empty or cancel"),
    KeyPattern("routes", "{P}:routes:{J}", "hash",
               "`host pattern` → pages that did without a browser, pages that needed one, ms of the last look",
               "until forget"),
    KeyPattern("alike", "{P}:alike:{J}", "hash",
               "`=hash` of a page's words → its fingerprint; `band:bits` → hashes with these",
               "until forget"),
    KeyPattern("spend", "{P}:spend:{J}", "hash",
               "pages, bytes and first lease of each host, for its budgets; next slot of a job slower than the host",
               "until forget"),
    KeyPattern("slot", "{P}:slot", "string",
               "this frontier is a slot of several: `here`, or where it has gone", "for good"),
    KeyPattern("sent", "{P}:sent", "zset",
               "job, slots and pages of this slot whose links were sent to those → ms when", "a minute or more"),
    KeyPattern("owed", "{P}:owed", "zset",
               "job, slots and pages of this slot whose links are to be sent to those, which were away → ms since when",
               "until they are back"),
    KeyPattern("brought", "{P}:brought", "zset",
               "job and slot that something was brought to of which no page tells → ms when", "a minute or more"),
    KeyPattern("whole", "{P}:whole", "string", "the run of the server of which all is made good that it may have lost",
               "for good"),
    KeyPattern("fence", "{P}:fence", "string", "the number of the last loss of a server that was noticed", "for good"),
    KeyPattern("asked", "{P}:asked", "hash",
               "run of a server that may have lost links, and slot → how far those are sent again that went from there",
               "until all are"),
    KeyPattern("mover", "{P}:mover", "string", "somebody is moving slots to other servers", "30 s"),
    KeyPattern("shards", "{P}:shards", "hash", "slot → the name of the server that it is on", "for good"),
    KeyPattern("slots", "{P}:slots:{J}", "set", "slots that the job has hosts in", "until forget"),
    KeyPattern("shares", "{P}:shares:{J}", "hash", "slot → pages of the job's budget that it may have, and a version",
               "until forget"),
    KeyPattern("due", "{P}:due:{Q}", "zset", "tenant → ms of its earliest job", "until empty"),
    KeyPattern("due_jobs", "{P}:due:{Q}:{T}", "zset",
               "running job → ms of its earliest ready host or delayed request", "until empty"),
    KeyPattern("turn", "{P}:turn:{Q}", "zset", "tenant → virtual time, for fair shares", "for good"),
    KeyPattern("turn_jobs", "{P}:turn:{Q}:{T}", "zset", "job → virtual time within its tenant", "until the job ends"),
    KeyPattern("clock", "{P}:clock:{Q}", "string", "virtual time last served", "for good"),
    KeyPattern("clock_jobs", "{P}:clock:{Q}:{T}", "string", "virtual time last served of a tenant", "for good"),
    KeyPattern("rivals", "{P}:rivals:{Q}:{H}", "zset", "tenant → virtual time on a host that several jobs want",
               "until one is left; a day unused"),
    KeyPattern("rival_jobs", "{P}:rival:{Q}:{T}:{H}", "zset", "job → virtual time on the host within its tenant",
               "until one is left; a day unused"),
    KeyPattern("host", "{P}:host:{H}", "string",
               "a packed table: next slot, in flight, limits, hold, pace, latency, breaker",
               "a day unused"),
    KeyPattern("waiters", "{P}:waiters:{H}", "zset",
               "`job host` that waits for room in the bucket, `+` behind it for the browser half → lane and time",
               "until there is; a day at most"),
    KeyPattern("notes", "{P}:notes:{H}", "list", "the last ten decisions about the host, and why", "a day unused"),
    KeyPattern("robots", "{P}:robots:{O}", "string", "a worker fetches this robots.txt", "30 s"),
    KeyPattern("leases", "{P}:leases", "zset", "lease group → deadline in ms", "until empty"),
    KeyPattern("lease", "{P}:lease:{G}", "hash", "index → record", "until settled, released or reaped"),
    KeyPattern("holder", "{P}:holder:{G}", "string", "the process that has a lease group",
               "until its end; a day at most"),
    KeyPattern("suspects", "{P}:suspects:{W}", "hash",
               "`group index` of a request that was lost before and is in a process' hands → losses", "a day unused"),
    KeyPattern("sequence", "{P}:sequence", "string", "number of the last lease group", "for good"),
    KeyPattern("epoch", "{P}:epoch", "string", "raised by each look for lost jobs; the database has it too",
               "for good"),
    KeyPattern("server", "{P}:server", "string", "the run of the server that was last looked at", "for good"),
    KeyPattern("met", "{P}:met", "string", "a run of the server that nobody has looked at, and when it was first met",
               "a day"),
    KeyPattern("doubt", "{P}:doubt", "string", "the server was started anew: what waits may be stored", "5 minutes"),
    KeyPattern("tenants", "{P}:tenants", "hash", "tenant → weight", "for good"),
    KeyPattern("jobs", "{P}:jobs", "set", "jobs that the frontier knows", "until forget"),
    KeyPattern("depth", "{P}:depth:{Q}", "hash", "how many requests are queued, delayed, leased", "for good"),
    KeyPattern("hosts", "{P}:hosts", "zset", "host → ms when it was last asked or set, give or take ten seconds",
               "a day unused"),
    KeyPattern("stats", "{P}:stats", "hash",
               "outcomes, bytes received, leases reaped, late settlements, slices, restarts, refusals, repairs, "
               "jobs rebuilt → count",
               "for good"),
    KeyPattern("base", "{P}:base", "hash", "the run of the server in which counters began, and where each did",
               "for good"),
    KeyPattern("events", "{P}:events", "stream", "changes of jobs' states", "the last 10,000"),
    KeyPattern("limit", "{P}:limit:{K}", "string", "next free slot of an API key", "until it is past"),
    KeyPattern("session", "{P}:session:{D}", "string", "the API key that a browser is logged in with", "12 hours"),
    KeyPattern("attempts", "{P}:attempts:{D}", "string",
               "wrong log-ins of an address, or with a key's prefix", "a minute"),
    KeyPattern("workers", "{P}:workers", "zset", "worker → ms until when it counts as alive", "until it is past"),
    KeyPattern("worker", "{P}:worker:{W}", "string", "a worker's last sign of life", "20 s"),
    KeyPattern("chore", "{P}:chore:{C}", "string", "somebody has done this chore of the housekeeping", "its interval"),
    KeyPattern("troubles", "{P}:troubles", "hash",
               "`redis`, `database` or `archive` and the worker that cannot use it → why, since when", "30 s untold"),
    KeyPattern("outages", "{P}:outages", "hash", "`redis`, `database`, `archive` → how often workers had to wait",
               "for good"),
    KeyPattern("extractions", "{P}:extractions", "zset", "extraction with parts to be done → ms when it was served",
               "a day after the last offer"),
    KeyPattern("parts", "{P}:parts:{E}", "zset", "part that is to be done → ms until when somebody has it",
               "until done; a day after the last offer"),
    KeyPattern("claims", "{P}:claims:{E}", "hash", "part → how often it was claimed since it last moved",
               "until done; a day unused"),
    KeyPattern("ring", "{P}:ring:{Q}", "string", "a doorbell is on its way", "15 s"),
    KeyPattern("proxy", "{P}:proxy:{X}", "hash", "next slot, when last lent, score, failures, rest", "a day unused"),
    KeyPattern("loans", "{P}:loans:{X}", "zset", "loan of the proxy → ms until when it counts", "a day unused"),
    KeyPattern("sticky", "{P}:sticky:{S}", "string", "the proxy that a host or session keeps to", "a day unused"),
)  # fmt: skip
