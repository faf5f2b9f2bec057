"""RabbitMQ as the broker: does it let us be its worker, do workers listen to it, and does anybody take the rings?

It tells how many messages a queue has and how many consumers, not what is in them: whoever takes a look takes it out.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from amqp.exceptions import AccessRefused, AMQPError, NotAllowed, PreconditionFailed

from shoal.core.egress import is_loopback
from shoal.core.model import SERVED_QUEUES
from shoal.core.trouble import gist
from shoal.doctor import broker
from shoal.doctor.finding import Area, Finding, Kind, Level, well
from shoal.doctor.ground import Ground, NotLooked
from shoal.errors import BrokerUnavailable
from shoal.rabbitmq import check_rabbitmq, connected, has_mailbox, is_login, lengths, mailbox_of, refusal, tls_options
from shoal.redis_url import is_amqp, redacted

MANY_RINGS = 10
"""Nobody rings for more where somebody answers."""
CONSUMER_TIMEOUT_S = 1800
"""After which RabbitMQ takes back, by default, a message that nobody has acknowledged."""

AWAY = Kind(
    "rabbitmq_unreachable", Area.BROKER, Level.ERROR,
    "Rings are lost, and remote control with them. Workers that run find work by themselves, within a second.",
    "rabbitmq-diagnostics -q ping",
)  # fmt: skip
LOGIN = Kind(
    "rabbitmq_login", Area.BROKER, Level.ERROR,
    "User or password are wrong, or missing. The user `guest` is let in from its own machine only.",
    "rabbitmqctl authenticate_user {user} PASSWORD",
)  # fmt: skip
HOST = Kind(
    "rabbitmq_vhost", Area.BROKER, Level.ERROR,
    "The virtual host, which is the URL's path, is not there, or the user has no permissions in it.",
    "rabbitmqctl add_vhost {vhost} && rabbitmqctl set_permissions -p {vhost} {user} '.*' '.*' '.*'",
)  # fmt: skip
RIGHTS = Kind(
    "rabbitmq_rights", Area.BROKER, Level.ERROR,
    "The user is let in, and may not do what Shoal does; docs/guides/brokers.md lists the least permissions.",
    "rabbitmqctl list_user_permissions {user}",
)  # fmt: skip
OTHER_QUEUE = Kind(
    "rabbitmq_queue", Area.BROKER, Level.ERROR,
    "Somebody has made a queue or an exchange of this name with other properties: Celery cannot use it.",
    "rabbitmqctl list_queues -p {vhost} name type durable arguments",
)  # fmt: skip
CERTIFICATE = Kind(
    "rabbitmq_certificate", Area.BROKER, Level.ERROR,
    "Nobody whom this machine trusts has signed the server's certificate.",
    'export SHOAL_BROKER_URL="$SHOAL_BROKER_URL?ssl_ca_certs=FILE"',
)  # fmt: skip
PLAIN = Kind(
    "rabbitmq_plain", Area.BROKER, Level.WARNING,
    "Its certificate is not checked, or password and messages go over the network without TLS: somebody in between can "
    "stop workers.",
    "export SHOAL_BROKER_URL=amqps://user:password@HOST:5671/VHOST?ssl_ca_certs=FILE",
)  # fmt: skip
UNHEARD = Kind(
    "unheard_rings", Area.BROKER, Level.WARNING,
    "Nobody listens to this queue of the broker: what it rings for waits until a worker looks by itself, or for ever.",
    "shoal worker --queues {queue}",
)  # fmt: skip
TOO_LONG = Kind(
    "slice_too_long", Area.BROKER, Level.WARNING,
    "RabbitMQ takes a message for lost that is not acknowledged for 30 minutes (consumer_timeout), and closes the "
    "worker's channel: slices end there, and begin anew.",
    "unset SHOAL_SLICE_SECONDS",
)  # fmt: skip


@contextmanager
def _asking(ground: Ground) -> Generator[Any]:
    """A connection for a few questions; a broker that does not answer is told of by `server`."""
    try:
        with connected(_url(ground)) as connection:
            yield connection
    except (AMQPError, OSError) as exc:
        raise NotLooked(f"RabbitMQ did not answer: {gist(exc)}") from exc


def _url(ground: Ground) -> str:
    return ground.settings.broker_url or ""


def server(ground: Ground) -> Iterator[Finding]:
    """Does it let us be its worker?"""
    url = _url(ground)
    if not is_amqp(url):
        return
    names = {"user": urlsplit(url).username or "guest", "vhost": urlsplit(url).path[1:] or "/"}
    try:
        with connected(url) as connection:
            version = str(connection.server_properties.get("version", ""))
        check_rabbitmq(url)
    except BrokerUnavailable as exc:
        yield _refused(url, exc.__cause__ or exc, names)
        return
    except (AMQPError, OSError) as exc:
        yield _refused(url, exc, names) if refusal(url, exc) else AWAY.found(f"{redacted(url)}: {gist(exc)}")
        return
    yield well(Area.BROKER, f"RabbitMQ {version} at {redacted(url)} lets us be its worker")
    if ground.settings.slice_seconds + ground.settings.grace_seconds > CONSUMER_TIMEOUT_S:
        yield TOO_LONG.found(f"SHOAL_SLICE_SECONDS is {ground.settings.slice_seconds:g}")
    yield from _privacy(url)


def _refused(url: str, error: BaseException, names: dict[str, str]) -> Finding:
    kind = LOGIN
    if isinstance(error, PreconditionFailed):
        kind = OTHER_QUEUE
    elif isinstance(error, NotAllowed):
        kind = HOST
    elif isinstance(error, AccessRefused) and not is_login(error):
        kind = RIGHTS
    elif isinstance(error, OSError):
        kind = CERTIFICATE
    return kind.found(refusal(url, error).partition("\n")[0], names)


def _privacy(url: str) -> Iterator[Finding]:
    host, tls = urlsplit(url).hostname or "", tls_options(url)
    if tls and not tls["cert_reqs"]:
        yield PLAIN.found(f"{redacted(url)} has ssl_cert_reqs=none")
    elif tls is None and not is_loopback(host):
        yield PLAIN.found(f"{redacted(url)} is spoken to over the network without TLS")


def queues(ground: Ground) -> Iterator[Finding]:
    """Is every queue that is rung for listened to? Housekeeping beside slices gets its rings without listening."""
    if not is_amqp(_url(ground)):
        return
    with _asking(ground) as connection:
        found = lengths(connection, SERVED_QUEUES)
    known = {queue: told for queue, told in found.items() if told}
    deaf = {queue: told[0] for queue, told in known.items() if told[0] >= MANY_RINGS and not told[1]}
    for queue, waiting in deaf.items():
        yield UNHEARD.found(f"{queue} has {waiting} rings that nobody takes", queue=queue)
    if not deaf:
        waiting = sum(told[0] for told in known.values())
        yield well(Area.BROKER, f"rings that wait: {waiting}" if waiting else "no ring waits")


def listeners(ground: Ground) -> Iterator[Finding]:
    """Do the workers that live have their mailboxes at this broker?"""
    if not is_amqp(_url(ground)):
        return
    with ground.watch() as watch:
        workers = watch.workers()
    if not workers:
        return
    with _asking(ground) as connection:
        deaf = [worker for worker in workers if not has_mailbox(connection, mailbox_of(worker))]
    for worker in deaf:
        yield broker.ELSEWHERE.found(f"worker {worker.name} has no mailbox at this broker", mend="shoal worker")
    if not deaf:
        yield well(Area.BROKER, f"all workers ({len(workers)}) listen to it")


CHECKS = (server, queues, listeners)
