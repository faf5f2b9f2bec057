"""How Celery reaches its broker and its results: a URL as it writes them, options, certificates.

What a connection needs differs from broker to broker; that nobody waits without end is the same for all.
"""

from __future__ import annotations

from dataclasses import field
from typing import Any
from urllib.parse import urlsplit

from shoal.core.frozen import frozen
from shoal.frontier.sentinel import SENTINEL_PATIENCE_S, Sentinels, is_sentinel
from shoal.rabbitmq import tls_options
from shoal.redis_url import is_amqp

VISIBILITY_TIMEOUT_S = 3600
"""Far above the length of a slice: an unacknowledged ring is delivered again after this."""
CONNECT_TIMEOUT_S = 3
SOCKET_TIMEOUT_S = 5
"""Far above the second for which the transport waits in Redis; a connection that is silent for longer is dead."""
BRIEF_WAIT_S = 0.1
"""For which the transport waits in Redis where somebody waits for it."""
HEARTBEAT_S = 20
"""Of a worker's connection to RabbitMQ: one that is silent for twice as long is dead."""


@frozen
class Link:
    """One place, as Celery is told of it."""

    url: str = field(repr=False)
    options: dict[str, Any] = field(default_factory=dict[str, Any], repr=False)
    tls: dict[str, Any] | None = None


def broker_link(url: str, *, brief: bool = False) -> Link:
    """To the broker. `brief`: whoever stops lets his last wait in Redis end first, and somebody waits for that."""
    if is_amqp(url):
        return _rabbitmq(url)
    waits: dict[str, Any] = {
        "visibility_timeout": VISIBILITY_TIMEOUT_S,
        "socket_connect_timeout": CONNECT_TIMEOUT_S,
        "socket_timeout": SOCKET_TIMEOUT_S,
        "socket_keepalive": True,
        **({"polling_interval": BRIEF_WAIT_S} if brief else {}),
    }
    link = _sentinel(url) if is_sentinel(url) else Link(url)
    return Link(link.url, {**waits, **link.options}, link.tls)


def results_link(url: str) -> Link:
    """To the database of Celery's results, which is in Redis whatever the broker is."""
    return _sentinel(url) if is_sentinel(url) else Link(url)


def _sentinel(url: str) -> Link:
    places = Sentinels.of(url)
    named = [f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in places.hosts]
    urls = ";".join(f"sentinel://{places.login}{place}/{places.database}" for place in named)
    waits = {"socket_timeout": SENTINEL_PATIENCE_S, "socket_connect_timeout": SENTINEL_PATIENCE_S}
    tls = {name: value for name, value in places.server_options.items() if name.startswith("ssl_")}
    return Link(
        urls,
        {"master_name": places.service, "sentinel_kwargs": {**places.sentinel_options, **waits}},
        tls if places.tls else None,
    )


def _rabbitmq(url: str) -> Link:
    parts = urlsplit(url)
    return Link(parts._replace(query="").geturl(), {}, tls_options(url))
