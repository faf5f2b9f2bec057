"""Is Redis there, does it let us in, and may we do there what we have to? Found out when a command starts.

A worker that may not listen to its broker would else be started again and again, and a command wait for it. A broker
that is merely away is no trouble here: workers wait for it, and look for work by themselves meanwhile.
"""

# redis-py's hints leave gaps: what falls into them is unknown to the checker in this file only.
# pyright: reportUnknownMemberType=false
from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import cast

import redis
from redis import exceptions

from shoal.core.model import ALL_QUEUES, CONTROL_QUEUE
from shoal.errors import RedisUnavailable
from shoal.frontier.away import is_away
from shoal.frontier.scripts import connect, server_version
from shoal.rabbitmq import check_rabbitmq
from shoal.redis_url import RedisUrls, is_amqp, redacted, redis_of

OLDEST_REDIS = (7, 0)
ASK_S = 3
NOBODY = "shoal: nobody's"
"""No message is like this: what takes it away takes nothing."""
RIGHTS = "give the user the rights that docs/guides/redis.md lists"


def check_redis(url: str) -> None:
    """Raise RedisUnavailable when the frontier cannot be there; it says what to do."""
    _check(url, RedisUrls.of(url).frontier, "SHOAL_REDIS_URL")


def check_shards(shards: Mapping[str, str]) -> None:
    """The same for the servers that hosts are spread over. One that is merely away is no trouble: its hosts wait."""
    for url in shards.values():
        try:
            _check(url, url, "SHOAL_SHARDS")
        except RedisUnavailable as exc:
            if not is_away(exc):
                raise


def _check(url: str, asked: str, setting: str) -> None:
    shown = redacted(url)
    client = connect(asked, timeout_s=ASK_S)
    try:
        version = server_version(client)
    except (exceptions.RedisError, OSError) as exc:
        raise RedisUnavailable(_refusal(f"Redis at {shown}", setting, exc) or _absence(shown, exc)) from exc
    finally:
        client.close()
    if tuple(int(part) for part in version.split(".")[:2]) < OLDEST_REDIS:
        raise RedisUnavailable(f"Redis {version} at {shown} is too old: Shoal needs 7.0 or newer, or Valkey")


def check_broker(broker: str) -> None:
    """Raise Unavailable when a broker answers and does not let us be its worker. Brokers of strange kinds pass."""
    if is_amqp(broker):
        check_rabbitmq(broker)
    url = redis_of(broker)
    if url is None:
        return
    client = connect(url, timeout_s=ASK_S)
    try:
        _use_queues(client)
        _listen(client)
    except (exceptions.RedisError, OSError) as exc:
        told = _refusal(f"the broker at {redacted(broker)}", "SHOAL_BROKER_URL, or SHOAL_REDIS_URL without it", exc)
        if told:
            raise RedisUnavailable(told) from exc
    finally:
        client.close()


def _use_queues(client: redis.Redis) -> None:
    """What Celery does to its keys, in a way that changes nothing."""
    pipeline = client.pipeline(transaction=True)
    for queue in (*ALL_QUEUES, CONTROL_QUEUE):
        pipeline.lrem(queue, 1, NOBODY)
    pipeline.hdel("unacked", NOBODY)
    pipeline.zrem("unacked_index", NOBODY)
    pipeline.srem("_kombu.binding.shoal", NOBODY)
    pipeline.execute()


def _listen(client: redis.Redis) -> None:
    """To remote control: a worker ends when it may not. Rights to channels are per number of the database."""
    database = cast("int", client.get_connection_kwargs().get("db") or 0)
    listening = client.pubsub()
    try:
        listening.psubscribe(f"/{database}.celery.pidbox")
        listening.parse_response(timeout=ASK_S)
    finally:
        with suppress(exceptions.RedisError, OSError):
            listening.close()


def _refusal(who: str, settings: str, error: BaseException) -> str:
    """Why a Redis that answers does not let us do our work, and what helps; empty when it did not answer."""
    if isinstance(error, exceptions.AuthenticationError):
        return f"{who} does not let us in: {error}\nCorrect user and password in {settings}, percent-encoded."
    if isinstance(error, exceptions.NoPermissionError):
        return f"{who} lets us in, but not do what Shoal needs: {error}\nAs its administrator, {RIGHTS}."
    if "CERTIFICATE_VERIFY_FAILED" in str(error):
        return f"{who} has a certificate that is not trusted: {error}\nName its authority: ?ssl_ca_certs=FILE."
    return ""


def _absence(shown: str, error: BaseException) -> str:
    return (
        f"cannot reach Redis at {shown}: {error}\n"
        "Start it, correct SHOAL_REDIS_URL, or unset it to use the embedded one."
    )
