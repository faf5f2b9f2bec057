"""The broker against those who take from it: strange messages, other applications, workers that listen elsewhere."""

# redis-py's hints leave gaps: what falls into them is unknown to the checker in this file only.
# pyright: reportUnknownMemberType=false
from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, cast

import redis
from redis import exceptions

from shoal.core.fleet import WorkerBeat
from shoal.core.model import CONTROL_QUEUE, SERVED_QUEUES
from shoal.doctor.finding import Area, Finding, Kind, Level, well
from shoal.doctor.ground import Ground, NotLooked, database_number, placed_like, redis_cli
from shoal.redis_url import redis_of
from shoal.worker.door import MAX_BYTES, Door

LOOKED_AT = 20
"""Messages of each queue: those that are taken next."""
ROUNDS, KEYS_A_ROUND = 50, 1_000
"""A broker has a few dozen keys; another one's database may have millions."""
BINDING = "_kombu.binding."
OURS = ("shoal", "celery.pidbox", "celeryev", "reply.celery.pidbox")
"""Exchanges of Shoal's, and of Celery's remote control."""
STOLEN_AFTER = "the shortest visibility_timeout of all applications on a broker holds for each of them"

UNREGISTERED = Kind(
    "unregistered_task", Area.BROKER, Level.ERROR,
    "Another application sends its tasks into Shoal's queues: workers drop them, and its own never get them. Celery "
    "calls it 'Received unregistered task'. Each needs a database of its own.",
    "export SHOAL_BROKER_URL={free}",
)  # fmt: skip
NOT_JSON = Kind(
    "strange_message", Area.BROKER, Level.ERROR,
    "Workers take JSON doorbells and drop the rest: pickle, YAML, other shapes. Somebody else writes to this broker.",
    "{cli} -n {number} client list",
)  # fmt: skip
REFUSED = Kind(
    "messages_refused", Area.BROKER, Level.WARNING,
    "Workers have dropped messages that were none of Shoal's: somebody else writes, or wrote, to this broker.",
    "{cli} -n {number} client list",
)  # fmt: skip
OTHER_APP = Kind(
    "shared_broker", Area.BROKER, Level.WARNING,
    f"Two Celery applications in one database take each other's messages, and {STOLEN_AFTER}.",
    "export SHOAL_BROKER_URL={free}",
)  # fmt: skip
ELSEWHERE = Kind(
    "other_broker", Area.BROKER, Level.WARNING,
    "These workers seem to listen to another broker than the one that is rung here: work is found late, by their own "
    "looks. It also looks so for a while when another worker of the same machine has stopped.",
    "unset SHOAL_BROKER_URL && shoal worker",
)  # fmt: skip


def messages(ground: Ground) -> Iterator[Finding]:
    """Are the next messages of each queue ours?"""
    if ground.has_rabbitmq:
        return
    with ground.broker(texts=False) as client:
        found = {queue: _next(client, queue) for queue in SERVED_QUEUES}
        lengths = {queue: client.llen(queue) for queue in SERVED_QUEUES}
    names = _names(ground)
    strange = list(_strange(found, names))
    yield from strange
    if not strange:
        waiting = sum(lengths.values())
        yield well(Area.BROKER, f"messages that wait, all of Shoal's: {waiting}" if waiting else "no message waits")


def _next(client: redis.Redis, queue: str) -> list[bytes]:
    """Those at the end that workers take from."""
    return cast("list[bytes]", client.lrange(queue, -LOOKED_AT, -1))


def _strange(found: dict[str, list[bytes]], names: dict[str, object]) -> Iterator[Finding]:
    for queue, raws in found.items():
        tasks, reasons = judge(raws)
        for task, times in tasks.items():
            yield UNREGISTERED.found(f"{queue} has {times} messages of the task {task!r}, which Shoal has not", names)
        if reasons:
            told = ", ".join(f"{times} {reason}" for reason, times in reasons.items())
            yield NOT_JSON.found(f"{queue} has messages that are none of Shoal's: {told}", names)


def judge(raws: Iterable[bytes]) -> tuple[Counter[str], Counter[str]]:
    """Strange tasks, and other messages that a worker would refuse by reason; as the worker's own door judges them."""
    tasks, reasons, door = Counter[str](), Counter[str](), Door()
    for raw in raws:
        if not door.admits_ring(raw):
            (reason,) = door.take()
            if reason == "unknown_task":
                tasks[_task(raw)] += 1
            else:
                reasons[reason] += 1
    return tasks, reasons


def _task(raw: bytes) -> str:
    """The door has read it already."""
    headers: dict[str, Any] = json.loads(raw[:MAX_BYTES])["headers"]
    return str(headers["task"])[:100]


def refusals(ground: Ground) -> Iterator[Finding]:
    """What workers have dropped."""
    with ground.watch() as watch:
        refused = {name.partition(":")[2]: n for name, n in watch.stats().items() if name.startswith("refused:")}
    if refused:
        told = ", ".join(f"{times} {reason}" for reason, times in sorted(refused.items()))
        what = f"workers have refused messages: {told}"
        if ground.has_rabbitmq:
            yield REFUSED.found(what, mend="rabbitmqctl list_connections user peer_host peer_port")
        else:
            yield REFUSED.found(what, _names(ground))


def applications(ground: Ground) -> Iterator[Finding]:
    """Who else uses the broker's database?"""
    if ground.has_rabbitmq:
        return
    with ground.broker() as client:
        exchanges = {key.removeprefix(BINDING) for key in _bindings(client)} - set(OURS)
        strays = sorted(exchanges)
        waiting = {name: _length(client, name) for name in strays}
    for name in strays:
        much = f", with {waiting[name]} messages that no worker of Shoal's takes" if waiting.get(name) else ""
        yield OTHER_APP.found(f"another Celery application is there: its exchange {name!r}{much}", _names(ground))


def _length(client: redis.Redis, name: str) -> int:
    """Of a queue; 0 when it is none, or not ours to look at."""
    try:
        return client.llen(name) if client.type(name) == "list" else 0
    except exceptions.NoPermissionError:
        return 0


def _bindings(client: redis.Redis) -> set[str]:
    found, cursor = set[str](), 0
    for _ in range(ROUNDS):
        cursor, keys = cast("tuple[int, list[str]]", client.scan(cursor, match=f"{BINDING}*", count=KEYS_A_ROUND))
        found.update(keys)
        if not cursor:
            break
    return found


def listeners(ground: Ground) -> Iterator[Finding]:
    """Do the workers that live listen to this broker?"""
    if ground.has_rabbitmq:
        return
    with ground.watch() as watch:
        workers = watch.workers()
    if not workers:
        return
    with ground.broker() as client:
        bound = cast("set[str]", client.smembers(f"{BINDING}celery.pidbox"))
    deaf = unheard(workers, bound)
    for worker in deaf:
        mend = "shoal worker" if ground.settings.broker_url else ""
        yield ELSEWHERE.found(f"worker {worker.name} has no mailbox at this broker", mend=mend)
    if not deaf:
        yield well(Area.BROKER, f"all workers ({len(workers)}) listen to it")


def unheard(workers: Iterable[WorkerBeat], bound: Iterable[str]) -> list[WorkerBeat]:
    """Workers that have declared no mailbox for remote control there; each does when it connects."""
    names = {binding.rpartition("\x06\x16")[2].removesuffix(".celery.pidbox") for binding in bound}
    return [worker for worker in workers if node_of(worker) not in names]


def node_of(worker: WorkerBeat) -> str:
    """What Celery calls it: by what it does, and where."""
    does = CONTROL_QUEUE if set(worker.queues) == {CONTROL_QUEUE} else "worker"
    return f"{does}@{worker.name.rpartition(':')[0]}"


def _names(ground: Ground) -> dict[str, object]:
    url = redis_of(ground.urls.broker) if ground.urls else None
    if url is None:
        raise NotLooked("the broker is no Redis")
    return {"cli": redis_cli(url), "number": database_number(url), "free": _free(url)}


def _free(url: str) -> str:
    """A database that is none of our three."""
    number, place = (database_number(url) + 9) % 16, url.partition("://")[2].rpartition("@")[2]
    if url.startswith("unix:"):
        return placed_like(url, f"{place.partition('?')[0]}?db={number}")
    return placed_like(url, f"{place.partition('/')[0]}/{number}")


CHECKS = (messages, refusals, applications, listeners)
