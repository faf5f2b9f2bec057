"""The Lua operations, loaded from their files. Nobody else calls EVALSHA.

redis-py resends a command whose answer timed out. A script must not run twice behind the caller's back, so the client
given here has its retries switched off (`connect`), and the caller decides.
"""

# redis-py's hints leave gaps: what falls into them is unknown to the checker in this file only.
# pyright: reportUnknownMemberType=false
from __future__ import annotations

import re
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from hashlib import sha1
from pathlib import Path
from typing import Any, ClassVar, cast

import redis
from redis import exceptions
from redis.backoff import NoBackoff
from redis.connection import AbstractConnection
from redis.driver_info import DriverInfo
from redis.retry import Retry

from shoal.errors import RedisUnavailable
from shoal.frontier.sentinel import Sentinels, is_sentinel

_LUA = Path(__file__).with_name("lua")
SHARED = ("prelude", "hosts", "moves", "returns")
"""These stand before every operation."""
LEFT_OUT = {"lease": ("returns",)}
"""But for these, of an operation that has no use for them and no room."""
PARTS = {
    "lease": ("lease/places", "lease/suspects", "lease/limits", "lease/budgets", "lease/shares"),
    "settle": ("settle/learning",),
    **dict.fromkeys(("create", "open_slot", "admit", "restore", "remember", "recall", "look_up"), ("some/seen",)),
    **dict.fromkeys(("borrow", "return_proxies"), ("some/scores",)),
    **dict.fromkeys(("configure_job", "cut_share"), ("some/drop",)),
    **dict.fromkeys(("begin_end", "end_job"), ("some/ends",)),
}
"""Long operations are cut into parts, and some operations share one; these stand before them."""
_KEY_NAME = re.compile(r"^local function (\w+_key)\(.*\) return P .* end\n", re.MULTILINE)
"""Those that an operation does not use are left out of it: Lua takes 200 locals."""

_FILES = {path.relative_to(_LUA).with_suffix("").as_posix(): path.read_text() for path in _LUA.rglob("*.lua")}
"""Name → text. All are read at once, when a process begins: an upgrade may replace them under one that goes on."""
OPERATIONS = tuple(sorted(name for name in _FILES if "/" not in name and name not in SHARED))

Arg = str | int | float

_PASSING = ("MISCONF", "READONLY", "BUSY", "LOADING", "NOREPLICAS", "CLUSTERDOWN", "MASTERDOWN", "TRYAGAIN")
"""Refusals that are about the server's state (a full disk, a failover), not about what was asked."""
_ELSEWHERE = "ELSEWHERE "
_PLACE = re.compile(r",? *script: [0-9a-f]{40}.*", re.DOTALL)


def connect(url: str, *, timeout_s: float = 10.0, texts: bool = True) -> redis.Redis:
    """A client for short commands: no hidden retries, every wait with a deadline.

    And no hidden PING, which a Redis refuses whose disk is full: it could not even be asked what is wrong. Without
    `texts` answers are bytes, for what strangers may have written.
    """
    options: dict[str, Any] = {
        "decode_responses": texts,
        "retry": Retry(NoBackoff(), 0),
        "health_check_interval": 0,
        "driver_info": _driver(),
    }
    if is_sentinel(url):
        return Sentinels.of(url).client(timeout_s=timeout_s, **options)
    return redis.Redis.from_url(url, socket_timeout=timeout_s, socket_connect_timeout=timeout_s, **options)


@cache
def _driver() -> DriverInfo:
    """What a server shows of its clients. For each connection the library would look up its own version, in a file."""
    return DriverInfo()


def server_url(url: str, *, timeout_s: float) -> str:
    """Of the very server that is spoken to: behind sentinels, the one that is the primary now."""
    if not is_sentinel(url):
        return url
    return Sentinels.of(url).primary(timeout_s=timeout_s, retry=Retry(NoBackoff(), 0), health_check_interval=0)


def server_version(client: redis.Redis) -> str:
    """The Redis version that the server speaks, 7.2.4 for every Valkey. One that still loads its data has no answer."""
    told = client.info("server", "persistence")
    if told.get("loading"):
        raise exceptions.BusyLoadingError("Redis is loading the dataset in memory")
    return str(told.get("redis_version", "0"))


def answers(url: str) -> bool:
    """Is there a server, and has it loaded its data?"""
    client = connect(url, timeout_s=2)
    try:
        server_version(client)
    except (exceptions.RedisError, OSError):
        return False
    finally:
        client.close()
    return True


class Elsewhere(RedisUnavailable):
    """This slot is not on this server (any more), or not to be worked with."""

    _WHY: ClassVar[Mapping[str, str]] = {
        "lost": "hosts that were on a server are not there any more, and are rebuilt",
        "unseen": "a server was started anew, and is looked at before it is worked with",
    }

    def __init__(self, where: str) -> None:
        super().__init__(self._WHY.get(where, f"hosts are being moved to another server ({where})"))
        self.where = where
        """The slot's mark; `lost` when it has none, `unseen` on a server that nobody has looked at."""
        self.has_moved = where.startswith("moved ")
        """Its name follows."""
        self.is_moving = not self.has_moved and where not in self._WHY


@contextmanager
def translated_errors(operation: str) -> Generator[None]:
    """Redis' trouble as our own error, with the operation's name."""
    try:
        yield
    except (exceptions.ConnectionError, exceptions.TimeoutError, OSError) as exc:
        raise RedisUnavailable(f"Redis did not answer ({operation}): {exc}") from exc
    except exceptions.NoPermissionError as exc:
        raise RedisUnavailable(f"Redis does not give this user the rights that it needs ({operation}): {exc}") from exc
    except exceptions.OutOfMemoryError as exc:
        raise RedisUnavailable(f"Redis is out of memory ({operation}): {exc}") from exc
    except exceptions.ResponseError as exc:
        if str(exc).startswith(_ELSEWHERE):
            raise Elsewhere(str(exc).removeprefix(_ELSEWHERE)) from exc
        if not any(word in str(exc) for word in _PASSING):
            raise
        raise RedisUnavailable(_refusal(operation, str(exc))) from exc


def _refusal(operation: str, text: str) -> str:
    """Why Redis refuses, in words: which line of which script it was is of no help."""
    if "MISCONF" not in text:
        return f"Redis refuses to work ({operation}): {_PLACE.sub('', text)}"
    return f"Redis cannot write to its disk: {'no space left' if 'No space left' in text else 'its log says why'}"


def source(name: str) -> str:
    """The whole text of an operation: what is shared, its parts, and itself."""
    shared = (part for part in SHARED if part not in LEFT_OUT.get(name, ()))
    text = "\n".join(_FILES[part] for part in (*shared, *PARTS.get(name, ()), name))
    return _KEY_NAME.sub(lambda line: line[0] if text.count(f"{line[1]}(") > 1 else "", text)


@cache
def _sha(name: str) -> str:
    """By which the server knows an operation. A process uses a few of them, and their texts only where it does not."""
    return sha1(source(name).encode(), usedforsecurity=False).hexdigest()


class Scripts:
    """Calls operations by name on one Redis."""

    def __init__(self, client: redis.Redis, prefix: str, part: str = "", *, any_mark: bool = False) -> None:
        """`part` tells what this is of a frontier that is spread over servers; see the prelude.

        `any_mark`: whether or not the slot may be worked with.
        """
        self._client = client
        self._prefix = prefix
        self._parts = (part, *((prefix,) if any_mark else ())) if part else ()

    def call(self, name: str, args: Sequence[Arg]) -> Any:
        """Run one operation; loads its text when the server does not know it (yet, or any more)."""
        with translated_errors(name):
            try:
                return self._evaluate(name, args)
            except exceptions.NoScriptError:
                self._client.script_load(source(name))
                return self._evaluate(name, args)

    def call_each(self, name: str, calls: Iterable[Sequence[Arg]]) -> Iterator[Any]:
        """Run one operation several times; while the server works on one call, the next is made.

        It is not sent before that, though: a server takes all that one client has sent before it turns to others.
        """
        waiting = iter(calls)
        args, pool = next(waiting, None), self._client.connection_pool
        if args is None:
            return
        with translated_errors(name):
            connection = pool.get_connection()
            try:
                while args is not None:
                    connection.send_command("EVALSHA", *self._words(name, args))
                    following = next(waiting, None)
                    yield self._answer(connection, name, args)
                    args = following
            except BaseException:
                connection.disconnect()  # or an answer that nobody has read is taken for that to the next question
                raise
            finally:
                pool.release(connection)

    def _answer(self, connection: AbstractConnection, name: str, args: Sequence[Arg]) -> Any:
        try:
            return cast(Any, self._client).parse_response(connection, "EVALSHA")
        except exceptions.NoScriptError:
            return self.call(name, args)

    def _evaluate(self, name: str, args: Sequence[Arg]) -> Any:
        return self._client.evalsha(*self._words(name, args))

    def _words(self, name: str, args: Sequence[Arg]) -> tuple[Any, ...]:
        keys = (self._prefix, *self._parts)
        return _sha(name), len(keys), *keys, *args
