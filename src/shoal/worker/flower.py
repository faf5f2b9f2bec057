"""Flower on Shoal's broker: never without a password, and on this machine only unless told otherwise.

Flower is an extra with no type hints: it is loaded when it is wanted, and unknown to the checker.
"""

from __future__ import annotations

import importlib
import logging
import re
import secrets
import signal
from types import FrameType
from typing import Any

from shoal.core.frozen import frozen
from shoal.errors import InputError, ShoalError
from shoal.settings import Settings
from shoal.wiring import redis_urls
from shoal.worker.app import PARTS_TASK, SLICE_TASK, make_app

MAX_TASKS = 10_000
"""That Flower remembers."""
MAX_WORKERS = 1_000
COLUMNS = "name,result,state,received,runtime,worker"
_OPEN_TO_ALL = ("/metrics",)
"""Pages of Flower that need no password: Shoal's API has metrics of its own."""
_NAMES = {SLICE_TASK: "slice", PARTS_TASK: "parts"}
_QUEUE = re.compile(r"[a-z]+\.[a-z]+")


@frozen
class Door:
    """Where Flower listens, and who is let in."""

    host: str
    port: int
    user: str
    password: str
    generated: bool


def door_of(settings: Settings) -> Door:
    """By the settings; a password is made up when none is set."""
    if ":" in settings.flower_user or not settings.flower_user:
        raise InputError("SHOAL_FLOWER_USER: a name without a colon, not an empty one")
    for name, value in (("USER", settings.flower_user), ("PASSWORD", settings.flower_password)):
        if value and (not value.strip() or not (value.isascii() and value.isprintable())):
            raise InputError(
                f"SHOAL_FLOWER_{name}: ASCII letters, digits and signs, not blanks alone; Flower knows no others"
            )
    password = settings.flower_password or secrets.token_urlsafe(18)
    return Door(
        settings.flower_host, settings.flower_port, settings.flower_user, password, not settings.flower_password
    )


class Flower:
    """One Flower, from its sockets to its end."""

    def __init__(self, settings: Settings, door: Door, *, control: bool) -> None:
        """The settings name a Redis already (`with_redis`)."""
        flower, urls = _load("flower.app"), _load("flower.urls")
        logging.getLogger("flower.inspector").setLevel(logging.ERROR)  # that no worker answers is no trouble of its own
        options = _load("tornado.options").options
        chosen: dict[str, Any] = {
            "basic_auth": [f"{door.user}:{door.password}"],
            "address": door.host,
            "port": door.port,
            "read_only": not control,
            "max_tasks": MAX_TASKS,
            "max_workers": MAX_WORKERS,
            "tasks_columns": COLUMNS,
            "format_task": named,
        }
        for name, value in chosen.items():
            setattr(options, name, value)
        urls.handlers[:] = [each for each in urls.handlers if _path(each) not in _OPEN_TO_ALL]
        celery = make_app(redis_urls(settings))
        self._app: Any = flower.Flower(capp=celery, options=options, **urls.settings)
        self._host = door.host
        self.port = self._listen(door)

    @property
    def url(self) -> str:
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self.port}"

    def run(self) -> None:
        """Serve until told to stop."""
        signal.signal(signal.SIGTERM, _stop)
        try:
            self._app.start()
        except (KeyboardInterrupt, SystemExit):
            return
        finally:
            self._app.stop()

    def _listen(self, door: Door) -> int:
        try:
            return self._app.start_http_server()
        except OSError as exc:
            told = exc.strerror or exc
            raise ShoalError(
                f"Flower cannot listen on {door.host} port {door.port}: {told}; see --host and --port"
            ) from exc


def named(task: Any) -> Any:
    """A task as people read it: `slice http.batch`, with what it did as its result."""
    kind, queue = _NAMES.get(task.name), _QUEUE.search(task.args or "")
    if kind:
        task.name = f"{kind} {queue[0]}" if queue else kind
    task.result = (task.result or "").strip("'")
    return task


def _load(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as exc:
        raise InputError("Flower is not installed: pip install 'shoal[flower]'") from exc


def _path(handler: Any) -> str:
    """Of a rule, which Flower writes as a pair or as an object."""
    rule = getattr(handler, "regex", None)
    return str(rule.pattern if rule else handler[0]).rstrip("$")


def _stop(_number: int, _frame: FrameType | None) -> None:
    raise SystemExit(0)
