"""Python imports this at its start where this folder is on the path: every connection is written down with its stack.

An audit hook cannot be taken away again, and holds for all threads and for children that are forked. It sees what goes
through Python's sockets; with AUDITED_LOOP=asyncio, Python's own event loop stands in for the one written in C, and
everything does.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import sys
from types import FrameType, ModuleType

EVENTS = frozenset({"socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto", "socket.sendmsg"})
FOLDER = os.environ.get("AUDITED_TO", "")


def _frames(frame: FrameType | None) -> list[str]:
    """`file:function`, and of methods the class of what they were called on; the innermost first."""
    found: list[str] = []
    while frame is not None:
        code = frame.f_code
        is_method = code.co_varnames[:1] == ("self",) and "self" in frame.f_locals
        owner = f" {_kind(frame.f_locals['self'])}" if is_method else ""
        found.append(f"{code.co_filename}:{code.co_name}{owner}")
        frame = frame.f_back
    return found


def _kind(it: object) -> str:
    kind = type(it)
    return f"{kind.__module__}.{kind.__qualname__}"


def _write_down(event: str, arguments: tuple[object, ...]) -> None:
    if event not in EVENTS:
        return
    place = arguments[0] if event in ("socket.getaddrinfo", "socket.gethostbyname") else arguments[-1]
    record = {"event": event, "place": place, "program": sys.orig_argv, "stack": _frames(inspect.currentframe())}
    file = os.open(f"{FOLDER}/{os.getpid()}.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(file, json.dumps(record, default=repr).encode() + b"\n")
    finally:
        os.close(file)


if FOLDER:
    if os.environ.get("AUDITED_LOOP") == "asyncio":
        stand_in = ModuleType("uvloop")
        vars(stand_in)["new_event_loop"] = asyncio.new_event_loop
        sys.modules["uvloop"] = stand_in
    sys.addaudithook(_write_down)
