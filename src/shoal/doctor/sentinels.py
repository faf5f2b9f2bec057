"""Redis behind sentinels: do they name a primary, could they agree on another, and is there one to take its place?"""

# redis-py's hints leave gaps: what falls into them is unknown to the checker in this file only.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import redis
from redis import exceptions
from redis.backoff import NoBackoff
from redis.retry import Retry

from shoal.core.trouble import gist
from shoal.doctor.finding import Area, Finding, Kind, Level, Words, well
from shoal.doctor.ground import ASK_S, Ground
from shoal.errors import InputError
from shoal.frontier.scripts import server_url
from shoal.frontier.sentinel import Sentinels, is_sentinel
from shoal.redis_url import RedisUrls, redacted

NO_PRIMARY = Kind(
    "no_primary", Area.REDIS, Level.ERROR,
    "No sentinel says where Redis is: nothing can be submitted, fetched or looked at.",
    "{cli} sentinel masters",
)  # fmt: skip
AWAY = Kind(
    "sentinel_away", Area.REDIS, Level.WARNING,
    "The others are asked in its place. When too many are away, nobody decides on another primary.",
    "{cli} ping",
)  # fmt: skip
NO_QUORUM = Kind(
    "no_quorum", Area.REDIS, Level.WARNING,
    "When the primary dies, the sentinels that are left cannot agree on another: Redis stays away.",
    "{cli} sentinel sentinels {service}",
)  # fmt: skip
NO_REPLICA = Kind(
    "no_replica", Area.REDIS, Level.WARNING,
    "When the primary dies, no server can take its place: Redis stays away until it is back.",
    "{cli} sentinel replicas {service}",
)  # fmt: skip


def sentinels(ground: Ground) -> Iterator[Finding]:
    """Each service that the settings name."""
    given = {"Redis": ground.settings.redis_url, "the broker": ground.settings.broker_url}
    for who, url in given.items():
        if url and is_sentinel(url):
            try:
                RedisUrls.of(url)
            except InputError:
                continue  # which the settings tell
            yield from _service(who, url)


def _service(who: str, url: str) -> Iterator[Finding]:
    places = Sentinels.of(url)
    asked = [_Sentinel(places, number) for number in range(len(places.hosts))]
    names: dict[str, object] = {"cli": asked[0].cli, "service": places.service}
    try:
        primary = server_url(url, timeout_s=ASK_S)
    except (exceptions.RedisError, OSError) as exc:
        yield NO_PRIMARY.found(f"{who} at {redacted(url)}: {gist(exc)}", names)
        return
    yield well(Area.REDIS, f"the primary of {places.service!r} is {redacted(primary).partition('?')[0]}")
    present = [each for each in asked if each.answers()]
    for each in asked:
        if each not in present:
            yield AWAY.found(f"the sentinel at {each.place} does not answer: {each.trouble}", cli=each.cli)
    if present:
        yield from _strength(present[0], places.service, names)


def _strength(sentinel: _Sentinel, service: str, names: dict[str, object]) -> Iterator[Finding]:
    """As one of them sees it."""
    if trouble := sentinel.lacks_quorum(service):
        yield NO_QUORUM.found(f"{sentinel.place}: {trouble}", names)
    if not sentinel.replicas(service):
        yield NO_REPLICA.found(f"the primary of {service!r} has no replica that is up and follows it", names)


class _Sentinel:
    """One of them, asked by itself."""

    def __init__(self, places: Sentinels, number: int) -> None:
        host, port = places.hosts[number]
        self.place = f"{host}:{port}"
        words = ["redis-cli", "-h", host, "-p", str(port)]
        options = places.sentinel_options
        self.cli = Words(" ".join([*words, *(["--tls"] if "ssl" in options else []), *self._login(options)]))
        self._client = redis.Redis(
            host,
            port,
            socket_timeout=ASK_S,
            socket_connect_timeout=ASK_S,
            decode_responses=True,
            retry=Retry(NoBackoff(), 0),
            **options,
        )
        self.trouble = ""

    @staticmethod
    def _login(options: dict[str, Any]) -> list[str]:
        return ["--askpass"] if "password" in options else []

    def answers(self) -> bool:
        try:
            self._client.ping()
        except (exceptions.RedisError, OSError) as exc:
            self.trouble = gist(exc)
            return False
        return True

    def lacks_quorum(self, service: str) -> str:
        """Why they could not agree; empty when they could, or when we may not ask."""
        try:
            self._client.sentinel_ckquorum(service)
        except exceptions.NoPermissionError:
            return ""
        except exceptions.ResponseError as exc:
            return gist(exc)
        return ""

    def replicas(self, service: str) -> int:
        """Those that are up and follow their primary; one, when we may not ask."""
        try:
            told = self._client.sentinel_slaves(service)
        except exceptions.NoPermissionError:
            return 1
        return sum(not each["is_sdown"] and each.get("master-link-status") == "ok" for each in told)


CHECKS = (sentinels,)
