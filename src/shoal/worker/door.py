"""The door: every message of the broker is judged before Celery sees it.

Whoever can write to the broker can write anything. A doorbell is small and always looks the same, so whatever looks
different is dropped here: not decoded, not run, not put back. What was refused is counted by reason, and its text is
neither kept nor logged.
"""

from __future__ import annotations

import base64
import json
import threading
from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from typing import Any, cast

from shoal.core.model import ALL_QUEUES
from shoal.worker.app import PARTS_TASK, SLICE_TASK, TICK_TASK

MAX_BYTES = 65_536
"""Of a message; a doorbell has about one kilobyte, a word of remote control a few."""
MAX_NAME = 200
"""Characters of an id."""
JSON = "application/json"
_QUEUES = tuple([queue] for queue in ALL_QUEUES)
ARGUMENTS: Mapping[str, tuple[list[str], ...]] = {SLICE_TASK: _QUEUES, PARTS_TASK: _QUEUES, TICK_TASK: ([],)}
"""Task → what it can be called with."""
_TEXTS = ("root_id", "parent_id", "argsrepr", "kwargsrepr", "origin", "lang")
_UNUSED = ("eta", "shadow", "group", "stamped_headers")
"""Powers of a Celery message that no doorbell has."""


class Refused(Exception):
    """A message is not one of ours; the text is the reason."""


class Door:
    """Judges messages for one process, and remembers how many it has refused, for who counts them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._refused: Counter[str] = Counter()

    def admits_ring(self, raw: object) -> bool:
        """Is this a doorbell of ours?"""
        return self._admits(raw, _check_ring)

    def admits_control(self, raw: object) -> bool:
        """Is this a word of Celery's remote control?"""
        return self._admits(raw, _check_control)

    def admits_delivery(self, message: dict[str, Any], *, control: bool) -> bool:
        """The same for a message that comes in parts, as RabbitMQ's do; they stand where Redis has them."""
        return self._admits(message, _check_control if control else _check_ring)

    def refuse(self, reason: str) -> None:
        with self._lock:
            self._refused[reason] += 1

    def take(self) -> dict[str, int]:
        """What was refused since the last time, by reason."""
        with self._lock:
            taken, self._refused = self._refused, Counter()
        return dict(taken)

    def _admits(self, raw: object, check: Any) -> bool:
        try:
            check(_open(raw))
        except Refused as why:
            self.refuse(str(why))
            return False
        return True


def _open(raw: object) -> dict[str, Any]:
    """The envelope: what the transport and Celery rely on is there, and of the right kind."""
    message = cast("dict[str, Any]", raw) if isinstance(raw, dict) else _mapping(_parse(raw))
    properties, headers = _mapping(message.get("properties")), _mapping(message.get("headers"))
    if message.get("content-type") != JSON or message.get("content-encoding") != "utf-8" or "compression" in headers:
        raise Refused("content_type")
    way = _mapping(properties.get("delivery_info"))
    names = (properties.get("delivery_tag"), way.get("exchange"), way.get("routing_key"), message.get("body"))
    if properties.get("body_encoding") != "base64" or not all(isinstance(name, str) for name in names):
        raise Refused("malformed")
    texts = (properties.get("correlation_id"), properties.get("reply_to"), *(headers.get(name) for name in _TEXTS))
    if not all(isinstance(text, (str, type(None))) for text in texts):
        raise Refused("malformed")
    if not isinstance(properties.get("priority", 0), int):
        raise Refused("malformed")
    return message


def _check_ring(message: dict[str, Any]) -> None:
    headers = _mapping(message["headers"])
    task = headers.get("task")
    if not isinstance(task, str) or not _is_name(headers.get("id")) or not _is_name(headers.get("request_id", "")):
        raise Refused("malformed")
    if task not in ARGUMENTS:
        raise Refused("unknown_task")
    limits, expires = headers.get("timelimit"), headers.get("expires")
    if any(headers.get(name) for name in _UNUSED) or headers.get("retries") or limits not in (None, [None, None]):
        raise Refused("arguments")
    if expires is not None and not _is_time(expires):
        raise Refused("arguments")
    _check_call(_body(message), ARGUMENTS[task])


def _check_call(body: object, allowed: tuple[list[str], ...]) -> None:
    """[args, kwargs, what follows]: nothing may follow."""
    if not isinstance(body, list) or len(cast("list[object]", body)) != 3:
        raise Refused("malformed")
    args, kwargs, after = cast("list[object]", body)
    if args not in allowed or kwargs != {} or any(_mapping(after).values()):
        raise Refused("arguments")


def _check_control(message: dict[str, Any]) -> None:
    """Which words are known is Celery's to say: it has an answer for the others."""
    word = _mapping(_body(message))
    if not isinstance(word.get("method"), str) or not isinstance(word.get("arguments"), (dict, type(None))):
        raise Refused("malformed")


def _body(message: dict[str, Any]) -> object:
    try:
        text = base64.b64decode(message["body"], validate=True)
    except ValueError as exc:
        raise Refused("malformed") from exc
    return _parse(text)


def _parse(raw: object) -> object:
    """By the parser that the transport uses, so that what is too deep for it is found out here."""
    if not isinstance(raw, (bytes, str)):
        raise Refused("malformed")
    if len(raw) > MAX_BYTES:
        raise Refused("too_large")
    try:
        return json.loads(raw, object_hook=_plain)
    except (ValueError, RecursionError) as exc:
        raise Refused("not_json") from exc


def _plain(value: dict[str, Any]) -> dict[str, Any]:
    """A JSON object without the mark by which kombu makes other things of it."""
    if "__type__" in value:
        raise Refused("malformed")
    return value


def _mapping(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Refused("malformed")
    return cast("dict[str, Any]", value)


def _is_name(value: object) -> bool:
    return isinstance(value, str) and len(value) <= MAX_NAME


def _is_time(value: object) -> bool:
    try:
        return datetime.fromisoformat(cast("str", value)).year > 0
    except (TypeError, ValueError):
        return False
