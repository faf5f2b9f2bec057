"""Celery's transport for RabbitMQ with a door in front, and with a deadline for every answer that it waits for.

Messages come in the same three ways as from Redis: a worker consumes its queues and its mailbox, and housekeeping
beside slices gets from its queue. A message that the door refuses is rejected, and RabbitMQ drops it.
"""

# kombu and py-amqp have no type hints: what they give is unknown to the checker in this file only.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false, reportUntypedBaseClass=false
# pyright: reportMissingTypeStubs=false, reportIncompatibleVariableOverride=false, reportPrivateUsage=false
from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any, cast

from amqp.serialization import PROPERTY_CLASSES, decode_properties_basic, loads
from amqp.spec import Basic
from kombu.transport import TRANSPORT_ALIASES, _transport_cache, pyamqp

from shoal.worker.door import MAX_BYTES, Door

ANSWERS_WITHIN_S = 10.0
"""RabbitMQ answers at once; one that does not is frozen, or cut off."""
MAILBOX = ".celery.pidbox"
ADDRESSED: dict[Any, str] = {Basic.Deliver: "sLbss", Basic.GetOk: "Lbssl"}
"""How py-amqp spells what comes with a message: short texts, numbers, a bit."""
HEAD = 4
"""Bytes before it."""
WIDTHS = {"L": 8, "l": 4, "b": 1}
UNREADABLE = "unreadable"
"""The content type of a message whose properties nobody can read."""


def install() -> None:
    """From now on this process speaks to every RabbitMQ in this way."""
    for scheme in ("amqp", "amqps", "pyamqp", "librabbitmq"):
        TRANSPORT_ALIASES[scheme] = f"{__name__}:Transport"
        _transport_cache.pop(scheme, None)  # it may have spoken to one before
    cast(Any, PROPERTY_CLASSES)[Basic.CLASS_ID] = _properties


def _properties(buffer: bytes, offset: int) -> tuple[dict[str, Any], int]:
    """Of a message. One that cannot be read, or is nested too deeply, would else end the worker that has it."""
    try:
        return decode_properties_basic(buffer, offset)
    except Exception:  # noqa: BLE001 - whatever a stranger's bytes lead to; a lost connection is noticed elsewhere
        return {"content_type": UNREADABLE}, len(buffer)


class Channel(pyamqp.Channel):
    """Judges what comes before it is read."""

    def __init__(self, *args, **kwargs) -> None:
        super().__init__(*args, **kwargs)
        self.auto_decode = False  # by what the sender names, before anybody has judged it: some of that takes hours

    def dispatch_method(self, method_sig, payload, content) -> Any:
        return super().dispatch_method(method_sig, _readable(method_sig, payload), content)

    @property
    def door(self) -> Door | None:
        return cast("Door | None", getattr(self.connection, "door", None))

    def wait(self, method, callback=None, timeout=None, returns_tuple=False) -> Any:
        return _in_time(self.connection, super().wait, method, callback, timeout, returns_tuple)

    def basic_consume(self, queue="", *args, callback=None, no_ack=False, **kwargs) -> Any:
        door, given = self.door, callback

        def judged(message: Any) -> Any:
            if door is None or _admits(door, message, control=queue.endswith(MAILBOX)):
                return given(message) if given else None
            if not no_ack:
                self.basic_reject(message.delivery_tag, requeue=False)
            return None

        return super().basic_consume(queue, *args, callback=judged, no_ack=no_ack, **kwargs)

    def basic_get(self, queue="", no_ack=False, argsig="Bsb") -> Any:
        message: Any = super().basic_get(queue, no_ack, argsig)
        if message is None or self.door is None or _admits(self.door, message, control=False):
            return message
        if not no_ack:
            self.basic_reject(message.delivery_tag, requeue=False)
        return None


class Connection(pyamqp.Connection):
    """To one RabbitMQ."""

    Channel = Channel

    def __init__(self, *args, door: Door | None = None, **kwargs) -> None:
        self.door = door
        super().__init__(*args, **kwargs)

    def wait(self, method, callback=None, timeout=None, returns_tuple=False) -> Any:
        return _in_time(self, super().wait, method, callback, timeout, returns_tuple)


class Transport(pyamqp.Transport):
    """RabbitMQ, with a door."""

    Connection = Connection


def _readable(method: Any, payload: bytes) -> bytes:
    """What comes with a message, in which an address that is no text would end the worker: it is made one."""
    spelled = ADDRESSED.get(method)
    if spelled is None:
        return payload
    try:
        loads(spelled, payload, HEAD)
    except UnicodeDecodeError:
        return _cleaned(spelled, payload)
    return payload


def _cleaned(spelled: str, payload: bytes) -> bytes:
    """With a question mark for every byte that is not ASCII in its texts."""
    cleaned, at = bytearray(payload), HEAD
    for kind in spelled:
        if kind == "s":
            end = at + 1 + payload[at]
            cleaned[at + 1 : end] = bytes(byte if byte < 128 else ord("?") for byte in payload[at + 1 : end])
            at = end
        else:
            at += WIDTHS[kind]
    return bytes(cleaned)


def _in_time(connection: Any, wait: Callable[..., Any], method: Any, callback: Any, timeout: Any, pair: Any) -> Any:
    """An answer, or the end of the connection: what comes too late must not pass for the answer to another question."""
    try:
        return wait(method, callback, timeout or ANSWERS_WITHIN_S, pair)
    except TimeoutError as exc:
        if connection is not None:
            connection.collect()
        raise OSError(f"RabbitMQ has not answered for {timeout or ANSWERS_WITHIN_S:g} s") from exc


def _admits(door: Door, message: Any, *, control: bool) -> bool:
    body = message.body.encode("utf-8", "replace") if isinstance(message.body, str) else message.body
    if len(body) > MAX_BYTES:
        door.refuse("too_large")
        return False
    return door.admits_delivery(_envelope(message, body), control=control)


def _envelope(message: Any, body: bytes) -> dict[str, Any]:
    """The message as the Redis transport would write it."""
    properties, way = message.properties, message.delivery_info
    return {
        "content-type": properties.get("content_type"),
        "content-encoding": properties.get("content_encoding"),
        "headers": properties.get("application_headers") or {},
        "properties": {
            "correlation_id": properties.get("correlation_id"),
            "reply_to": properties.get("reply_to"),
            "priority": properties.get("priority") or 0,
            "delivery_info": {"exchange": way.get("exchange"), "routing_key": way.get("routing_key")},
            "delivery_tag": str(message.delivery_tag),
            "body_encoding": "base64",
        },
        "body": base64.b64encode(body).decode(),
    }
