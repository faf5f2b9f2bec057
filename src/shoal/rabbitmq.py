"""RabbitMQ as the broker: does it let us in, may we do there what we have to, and what lies in its queues?

Only doorbells pass through it. What is declared here is what Celery declares: whoever asks first makes the queues.
"""

# py-amqp has no type hints: what it gives is unknown to the checker in this file only.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportMissingTypeStubs=false
from __future__ import annotations

import ssl
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, cast
from urllib.parse import parse_qs, unquote, urlsplit
from uuid import uuid4

import amqp
from amqp import exceptions
from amqp.exceptions import AMQPError

from shoal.core.fleet import WorkerBeat
from shoal.core.model import ALL_QUEUES, CONTROL_QUEUE
from shoal.errors import BrokerUnavailable
from shoal.redis_url import redacted

ASK_S = 3.0
EXCHANGE = "shoal"
MAILBOXES = "celery.pidbox"
NOBODY = "shoal.nobody"
"""No queue is called so: what is sent there is dropped."""
_CHECKS = {"none": ssl.CERT_NONE, "optional": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
_RIGHTS = "give the user the permissions that docs/guides/brokers.md lists"


def check_rabbitmq(url: str) -> None:
    """Raise BrokerUnavailable when it answers and does not let us be its worker; one that is away is waited for."""
    try:
        with connected(url) as connection:
            _use_queues(connection)
            _listen(connection)
    except (AMQPError, OSError) as exc:
        if told := refusal(url, exc):
            raise BrokerUnavailable(told) from exc


def tls_options(url: str) -> dict[str, Any] | None:
    """What the URL says about certificates, as py-amqp names it; None without TLS."""
    parts = urlsplit(url)
    if parts.scheme.lower() != "amqps":
        return None
    given = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    check = _CHECKS.get(given.get("ssl_cert_reqs", "required").lower().removeprefix("cert_"), ssl.CERT_REQUIRED)
    named = check is not ssl.CERT_NONE and given.get("ssl_check_hostname", "true").lower() in ("1", "true", "yes")
    files = {"ca_certs": "ssl_ca_certs", "certfile": "ssl_certfile", "keyfile": "ssl_keyfile"}
    tls: dict[str, Any] = {name: given[option] for name, option in files.items() if option in given}
    return {**tls, "cert_reqs": check, "server_hostname": parts.hostname if named else None}


@contextmanager
def connected(url: str) -> Generator[Any]:
    """A connection for a few questions, each answered in time."""
    parts, tls = urlsplit(url), tls_options(url)
    connection: Any = amqp.Connection(
        host=f"{parts.hostname or '127.0.0.1'}:{parts.port or (5671 if tls else 5672)}",
        userid=unquote(parts.username or "guest"),
        password=unquote(parts.password or "guest"),
        virtual_host=unquote(parts.path[1:]) or "/",
        login_method="PLAIN",
        ssl=cast("Any", tls or False),
        connect_timeout=ASK_S,
    )
    try:
        connection.connect()
        connection.transport.sock.settimeout(ASK_S)
        yield connection
    finally:
        _close(connection)


def _close(connection: Any) -> None:
    """Without a word where RabbitMQ does not listen any more."""
    if connection.connected:
        with suppress(AMQPError, OSError):
            connection.close()
    connection.collect()


def _use_queues(connection: Any) -> None:
    """As Celery does when it rings, and when it takes a ring."""
    channel = connection.channel()
    channel.exchange_declare(EXCHANGE, "direct", durable=True, auto_delete=False)
    for queue in (*ALL_QUEUES, CONTROL_QUEUE):
        channel.queue_declare(queue, durable=True, auto_delete=False)
        channel.queue_bind(queue, EXCHANGE, queue)
    channel.basic_publish(amqp.Message(""), exchange="", routing_key=NOBODY)  # which no answer follows
    channel.queue_declare(CONTROL_QUEUE, passive=True)
    channel.close()


def _listen(connection: Any) -> None:
    """To remote control, and to answer it."""
    channel = connection.channel()
    mailbox = f"check-{uuid4().hex}.{MAILBOXES}"
    channel.exchange_declare(MAILBOXES, "fanout", durable=False, auto_delete=False)
    channel.exchange_declare(f"reply.{MAILBOXES}", "direct", durable=False, auto_delete=False)
    channel.queue_declare(mailbox, exclusive=True, auto_delete=True)
    channel.queue_bind(mailbox, MAILBOXES, "")
    channel.queue_delete(mailbox)
    channel.close()


def lengths(connection: Any, queues: Sequence[str]) -> dict[str, tuple[int, int] | None]:
    """(rings that wait, consumers) of each queue; None where there is no such queue."""
    found: dict[str, tuple[int, int] | None] = {}
    for queue in queues:
        channel = connection.channel()  # a question about a queue that is not there costs the channel
        try:
            told = cast("tuple[str, int, int]", tuple(channel.queue_declare(queue, passive=True)))
            found[queue] = told[1], told[2]
            channel.close()
        except exceptions.NotFound:
            found[queue] = None
    return found


def node_of(worker: WorkerBeat) -> str:
    """What Celery calls a worker of RabbitMQ's: by what it does, which one it is, and where."""
    does = CONTROL_QUEUE if set(worker.queues) == {CONTROL_QUEUE} else "worker"
    host, _, command = worker.name.rpartition(":")
    return f"{does}.{command}@{host}"


def mailbox_of(worker: WorkerBeat) -> str:
    """The queue of its remote control."""
    return f"{node_of(worker)}.{MAILBOXES}"


def has_mailbox(connection: Any, name: str) -> bool:
    """Is there a worker of this name? Its mailbox is locked for everybody else, which is how it is seen."""
    channel = connection.channel()
    try:
        channel.queue_declare(name, passive=True)
    except exceptions.NotFound:
        return False
    except exceptions.ResourceLocked:
        return True
    channel.close()
    return True


def is_login(error: BaseException) -> bool:
    """Is it user or password that was refused? Then it is about no question of ours."""
    return isinstance(error, exceptions.AccessRefused) and not any(error.method_sig or ())


def refusal(url: str, error: BaseException) -> str:
    """Why a RabbitMQ that answers does not let us do our work, and what helps; empty when it did not answer."""
    who, setting = f"RabbitMQ at {redacted(url)}", "SHOAL_BROKER_URL"
    said = getattr(error, "reply_text", "") or str(error)
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"{who} has a certificate that is not trusted: {error}\nName its authority: ?ssl_ca_certs=FILE."
    if is_login(error):
        return f"{who} does not let us in: {said}\nCorrect user and password in {setting}, percent-encoded."
    if isinstance(error, exceptions.AccessRefused):
        return f"{who} lets us in, but not do what Shoal needs: {said}\nAs its administrator, {_RIGHTS}."
    if isinstance(error, exceptions.NotAllowed):
        return (
            f"{who} does not let us into the virtual host: {said}\n"
            f"Make it (rabbitmqctl add_vhost), permit the user there, or correct the path in {setting}."
        )
    if isinstance(error, exceptions.PreconditionFailed):
        return (
            f"{who} has a queue of Shoal's name that is not like Shoal's: {said}\n"
            "Delete it (rabbitmqctl delete_queue NAME), or give Shoal a virtual host of its own."
        )
    return ""
