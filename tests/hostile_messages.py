"""Messages that nobody of ours has sent: each ready to be pushed into a queue of the broker, with its reason."""

# Nested literals of several kinds: the checker cannot name them.
# pyright: reportUnknownArgumentType=false
from __future__ import annotations

import base64
import gzip
import json
import pickle
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

DEEP = 100_000


class Canary:
    """Who unpickles it leaves a file behind."""

    def __init__(self, path: Path) -> None:
        self._path = str(path)

    def __reduce__(self) -> tuple[Any, ...]:
        return open, (self._path, "w")


def ring(task: str = "shoal.slice", body: object = None, **changes: object) -> dict[str, Any]:
    """A doorbell as Celery sends it, but for the changes: names of headers, or `properties`, `content_type` …"""
    after = {"callbacks": None, "errbacks": None, "chain": None, "chord": None}
    call = [["http.batch"] if task == "shoal.slice" else [], {}, after] if body is None else body
    nothing = dict.fromkeys(("shadow", "eta", "expires", "group", "parent_id"))
    names = {"lang": "py", "task": task, "id": "7c1b", "root_id": "7c1b", "argsrepr": "", "origin": "x"}
    headers = {**nothing, **names, "retries": 0, "timelimit": [None, None]}
    return envelope(call, {**headers, **changes})


def envelope(body: object, headers: object, content_type: str = "application/json") -> dict[str, Any]:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return {
        "body": base64.b64encode(data).decode(),
        "content-encoding": "utf-8",
        "content-type": content_type,
        "headers": headers,
        "properties": {
            "correlation_id": "7c1b",
            "delivery_info": {"exchange": "", "routing_key": "http.batch"},
            "priority": 0,
            "body_encoding": "base64",
            "delivery_tag": "5d2e",
        },
    }


def hostile(canary: Path) -> Iterator[tuple[str, str, bytes]]:
    """(name, reason, message) of each."""
    pickled = pickle.dumps(Canary(canary))
    yaml = f"!!python/object/apply:builtins.open [{canary}, w]".encode()
    headers = ring()["headers"]
    ten_years = (datetime.now(UTC) + timedelta(days=3650)).isoformat()
    bomb = envelope(gzip.compress(b" " * 5_000_000), {**headers, "compression": "application/x-gzip"})
    later = {"callbacks": [{"task": "shoal.slice", "args": ["http.high"]}]}

    yield "bare pickle", "not_json", pickled
    yield (
        "pickle as Celery sends it",
        "content_type",
        _sent({**envelope(pickled, headers, "application/x-python-serialize"), "content-encoding": "binary"}),
    )
    yield "pickle that says it is JSON", "not_json", _sent(envelope(pickled, headers))
    yield "yaml", "content_type", _sent(envelope(yaml, headers, "application/x-yaml"))
    yield "other content type", "content_type", _sent(envelope([], headers, "text/plain"))
    yield "gzip bomb", "content_type", _sent(bomb)
    yield "unknown task", "unknown_task", _sent(ring("os.system"))
    yield "task of Celery's own", "unknown_task", _sent(ring("celery.backend_cleanup"))
    yield "huge body", "too_large", _sent(ring(body=[["x" * 2_000_000], {}, {}]))
    yield "queue of a million characters", "too_large", _sent(ring(body=[["q" * 1_000_000], {}, {}]))
    yield "deep JSON", "too_large", b"[" * DEEP + b"]" * DEEP
    yield "deep JSON within the limit", "not_json", b"[" * 30_000 + b"]" * 30_000
    yield "deep body within the limit", "not_json", _sent(envelope(b"[" * 20_000 + b"]" * 20_000, headers))
    yield "not UTF-8", "not_json", b"\xff\xfe\x00"
    yield "empty", "not_json", b" "
    yield "number", "malformed", b"42"
    yield "bad base64", "malformed", _sent({**ring(), "body": "%%%"})
    yield "no body", "malformed", _sent({**ring(), "body": None})
    yield "no headers", "malformed", _sent({key: value for key, value in ring().items() if key != "headers"})
    yield "no properties", "malformed", _sent({key: value for key, value in ring().items() if key != "properties"})
    yield "root that is a list", "malformed", _sent(ring(root_id=["x"]))
    yield "task that is a list", "malformed", _sent(envelope([], {**headers, "task": ["x"]}))
    yield "no id", "malformed", _sent(ring(id=None))
    yield "kombu's own marks", "malformed", _sent(ring(origin={"__type__": "bytes", "__value__": 7}))
    yield "eta in ten years", "arguments", _sent(ring(eta=ten_years))
    yield "expires that is no time", "arguments", _sent(ring(expires="soon"))
    yield "deadly time limit", "arguments", _sent(ring(timelimit=[0.001, 0.001]))
    yield "what follows", "arguments", _sent(ring(body=[["http.batch"], {}, later]))
    yield "wrong type of argument", "arguments", _sent(ring(body=[[{"queue": 1}], {}, {}]))
    yield "unknown queue", "arguments", _sent(ring(body=[["http.evil"], {}, {}]))
    yield "too many arguments", "arguments", _sent(ring(body=[["http.batch", "http.high"], {}, {}]))
    yield "named argument", "arguments", _sent(ring(body=[[], {"queue": "http.batch"}, {}]))


def hostile_words(canary: Path) -> Iterator[tuple[str, str, bytes]]:
    """The same for remote control."""
    pickled = pickle.dumps(Canary(canary))
    yield "bare pickle", "not_json", pickled
    yield "pickle as Celery sends it", "content_type", _sent(envelope(pickled, {}, "application/x-python-serialize"))
    yield "list", "malformed", b"[]"
    yield "deep JSON", "not_json", b"[" * 30_000 + b"]" * 30_000
    yield "no properties", "malformed", _sent({"body": "e30="})
    yield "no method", "malformed", _sent(envelope({"arguments": {}}, {}))
    yield "arguments that are none", "malformed", _sent(envelope({"method": "ping", "arguments": [1]}, {}))
    yield "huge", "too_large", _sent(envelope({"method": "x" * 1_000_000}, {}))


def _sent(message: dict[str, Any]) -> bytes:
    return json.dumps(message).encode()
