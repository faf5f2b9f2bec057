"""Celery's Redis transport and consumer with a door in front, and nothing else changed.

The transport takes messages in three ways: a worker pops its queues and listens to remote control, and housekeeping
beside slices gets from its queue. A message that the door refuses is gone, as if nothing had come.
"""

# Celery and kombu have no type hints: what they give is unknown to the checker in this file only.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false, reportUntypedBaseClass=false
# pyright: reportMissingTypeStubs=false, reportUnknownLambdaType=false, reportIncompatibleVariableOverride=false
# pyright: reportPrivateUsage=false
from __future__ import annotations

from contextlib import suppress
from typing import Any, cast

from celery.worker.consumer import Consumer as CeleryConsumer
from kombu.transport import TRANSPORT_ALIASES, _transport_cache
from kombu.transport import redis as kombu_redis

from shoal.worker.app import DOOR
from shoal.worker.door import Door


def install() -> None:
    """From now on this process speaks to every Redis broker in this way."""
    for scheme in ("redis", "rediss"):
        TRANSPORT_ALIASES[scheme] = f"{__name__}:Transport"
        _transport_cache.pop(scheme, None)  # it may have spoken to one before
    TRANSPORT_ALIASES["sentinel"] = f"{__name__}:SentinelTransport"
    _transport_cache.pop("sentinel", None)


class QoS(kombu_redis.QoS):
    """Messages that nobody has acknowledged go back to their queues, unless they cannot be read."""

    def restore_by_tag(self, tag, client=None, leftmost=False) -> None:
        try:
            super().restore_by_tag(tag, client, leftmost)
        except (ValueError, TypeError, RecursionError):
            if door := self.channel.door:
                door.refuse("malformed")
            with self.channel.conn_or_acquire(client) as connection, connection.pipeline() as pipe:
                self._remove_from_indices(tag, pipe).execute()


class Channel(kombu_redis.Channel):
    """Judges what comes before it is read."""

    QoS = QoS

    @property
    def door(self) -> Door | None:
        """Remembered: a channel that was closed has no connection, and still has messages to acknowledge."""
        if client := getattr(self.connection, "client", None):
            self._door: Door | None = client.transport_options.get(DOOR)
        return getattr(self, "_door", None)

    def _create_client(self, asynchronous=False):
        client = super()._create_client(asynchronous)
        if door := self.door:
            client.set_response_callback("BRPOP", lambda reply, **_: _judged(reply, door))
            client.set_response_callback("RPOP", lambda item, **_: item if item and door.admits_ring(item) else None)
        return client

    def _handle_message(self, client, r):
        told = super()._handle_message(client, r)
        if (door := self.door) and _is_message(told) and told["data"] and not door.admits_control(told["data"]):
            told["data"] = None
        return told


def _judged(reply: Any, door: Door) -> Any:
    """(queue, message), or nothing at all."""
    return reply if reply and door.admits_ring(reply[1]) else None


def _is_message(told: dict[str, Any]) -> bool:
    kind = told["type"]
    return (kind.decode() if isinstance(kind, bytes) else str(kind)).endswith("message")


class Transport(kombu_redis.Transport):
    """Redis, with a door."""

    Channel = Channel


class SentinelChannel(Channel, kombu_redis.SentinelChannel):
    """The same on a primary that sentinels name."""


class SentinelTransport(kombu_redis.SentinelTransport):
    """Redis behind sentinels, with a door."""

    Channel = SentinelChannel


class Consumer(CeleryConsumer):
    """Counts what Celery itself refuses, and keeps its text out of the logs. What the door refuses is gone."""

    def on_decode_error(self, message, exc) -> None:
        self._refuse(message, "not_json")

    def on_unknown_message(self, body, message) -> None:
        self._refuse(message, "malformed")

    def on_unknown_task(self, body, message, exc) -> None:
        self._refuse(message, "unknown_task")

    def on_invalid_task(self, body, message, exc) -> None:
        self._refuse(message, "arguments")

    def create_task_handler(self, *args, **kwargs) -> Any:
        receive = super().create_task_handler(*args, **kwargs)

        def on_task_received(message: Any) -> Any:
            try:
                return receive(message)
            except (TypeError, ValueError, KeyError, AttributeError, RecursionError):  # of no shape that Celery expects
                self._refuse(message, "malformed")

        return on_task_received

    def _refuse(self, message: Any, reason: str) -> None:
        door: Door | None = cast(Any, self.app).conf.broker_transport_options.get(DOOR)
        if door:
            door.refuse(reason)
        with suppress(message.MessageStateError):
            message.reject()
