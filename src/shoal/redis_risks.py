"""What is dangerous about a Redis that works: anybody may come in, or it may throw away what it was given.

Asked once, when a long-lived command starts, of the Redis and of a broker of its own. A user without the right to read
the configuration is not told less than can be known: without a password, over the network, everybody comes in as we
did. And a password of ours says nothing about others: it is tried whether they need one.
"""

# redis-py's hints leave gaps: what falls into them is unknown to the checker in this file only.
# pyright: reportUnknownMemberType=false
from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, cast
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit

import structlog
from redis.exceptions import RedisError

from shoal.core.egress import is_loopback
from shoal.core.frozen import frozen
from shoal.frontier.scripts import connect, server_url
from shoal.redis_url import RedisUrls, redacted, redis_of
from shoal.settings import Settings

log = structlog.get_logger()

ASK_S = 3.0
CONFIGURATION = ("bind", "protected-mode", "requirepass")
_SECRETS = ("ssl_certfile", "ssl_keyfile", "ssl_password")


@frozen
class Risk:
    """One danger: its name, and what to do."""

    name: str
    hint: str


OPEN = Risk("open", "anybody who reaches it can read and change everything: give it a password, or bind it to loopback")
UNCHECKED = Risk("unchecked", "its certificate is not checked: leave ssl_cert_reqs=none out of the URL")
EVICTS = Risk("evicts", "it may throw away URLs when its memory is full: set maxmemory-policy noeviction")


def warn_of_risks(settings: Settings) -> None:
    """A line in the log for each danger of the Redis that the settings name; never a reason to fail."""
    urls = RedisUrls.of(settings.redis_url or "", settings.broker_url)
    broker = redis_of(urls.broker) if settings.broker_url else None
    for given in filter(None, (settings.redis_url, broker, *settings.shard_urls.values())):
        url = given
        with suppress(RedisError, OSError):
            url = server_url(given, timeout_s=ASK_S)
        for risk in find_risks(url):
            log.warning("redis_unsafe", risk=risk.name, redis=redacted(url), hint=risk.hint)


def find_risks(url: str) -> list[Risk]:
    """What the URL tells, and what the server tells about itself, as far as it does."""
    memory: dict[str, Any] = {}
    configuration: dict[str, str] = {}
    client = connect(url, timeout_s=ASK_S)
    try:
        with suppress(RedisError, OSError):
            memory = client.info("memory")
        with suppress(RedisError, OSError):
            configuration = cast("dict[str, str]", client.config_get(*CONFIGURATION))
    finally:
        client.close()
    return [*_of_access(url, configuration), *_of_memory(memory)]


def _of_access(url: str, configuration: Mapping[str, str]) -> list[Risk]:
    parts = urlsplit(url)
    options = parse_qs(parts.query)
    risks: list[Risk] = []
    hidden = bool(parts.password) or "ssl_certfile" in options
    if _is_reached(parts.hostname, configuration) and (not hidden or _lets_anybody_in(url)):
        risks.append(OPEN)
    if parts.scheme == "rediss" and options.get("ssl_cert_reqs", [""])[0].lower() in ("none", "cert_none"):
        risks.append(UNCHECKED)
    return risks


def _lets_anybody_in(url: str) -> bool:
    """Without a password, and without a certificate of ours: is there a default user who may read?"""
    parts = urlsplit(url)
    query = urlencode([(name, value) for name, value in parse_qsl(parts.query) if name not in _SECRETS])
    place = parts.netloc.rpartition("@")[2] + parts.path
    client = connect(f"{parts.scheme}://{place}?{query}", timeout_s=ASK_S)
    try:
        client.exists("shoal")
    except (RedisError, OSError):
        return False
    finally:
        client.close()
    return True


def _is_reached(host: str | None, configuration: Mapping[str, str]) -> bool:
    """Over the network: we do so ourselves, or the server listens there and turns nobody away."""
    if host and not is_loopback(host):
        return True
    bound = configuration.get("bind", "127.0.0.1").replace("*", "0.0.0.0").split()
    beyond = not all(is_loopback(address.lstrip("-").replace("::0.0.0.0", "::")) for address in bound)
    unguarded = configuration.get("protected-mode") == "no" and not configuration.get("requirepass")
    return (beyond or not bound) and unguarded


def _of_memory(memory: Mapping[str, Any]) -> list[Risk]:
    policy = str(memory.get("maxmemory_policy", "noeviction"))
    return [EVICTS] if int(memory.get("maxmemory", 0)) and policy != "noeviction" else []
