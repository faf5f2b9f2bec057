"""One Redis, three databases: broker, Celery's results, frontier. The broker may be elsewhere: another Redis, RabbitMQ.

`redis://host:6379` uses 0, 1 and 2; `redis://host:6379/5` uses 5, 6 and 7. Credentials and options of TLS stay with all
three. A certificate is always checked unless the URL says otherwise: left to itself, Celery would check none.
"""

from __future__ import annotations

from dataclasses import field
from urllib.parse import parse_qs, urlsplit

from shoal.core.egress import is_loopback
from shoal.core.frozen import frozen
from shoal.core.redact import without_login
from shoal.errors import InputError
from shoal.frontier.sentinel import Sentinels, is_sentinel

_SCHEMES = ("redis", "rediss", "unix")
_AMQP = ("amqp", "amqps", "pyamqp")
_HOW = "write redis://HOST:PORT, unix:///PATH or redis+sentinel://HOST:PORT,HOST:PORT/SERVICE"
_TLS_OPTIONS = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile", "ssl_cert_reqs", "ssl_check_hostname")
"""That a URL of RabbitMQ may have, named as those of Redis are."""


@frozen
class RedisUrls:
    """Where each part of Shoal finds its database."""

    broker: str = field(repr=False)
    results: str = field(repr=False)
    frontier: str = field(repr=False)

    @classmethod
    def of(cls, url: str, broker: str | None = None) -> RedisUrls:
        broker = _broker(broker) if broker else None
        if is_sentinel(url):
            places = _sentinels("SHOAL_REDIS_URL", url)
            urls = [places.at_database(places.database + n) for n in range(3)]
            return cls(broker or urls[0], urls[1], urls[2])
        scheme, rest, first, options = _read(url)
        if scheme == "unix":
            celery = [f"redis+socket://{rest}?virtual_host={first + n}" for n in range(2)]
            return cls(broker or celery[0], celery[1], f"unix://{rest}?db={first + 2}")
        urls = [f"{scheme}://{rest}/{first + n}{options}" for n in range(3)]
        return cls(broker or urls[0], urls[1], urls[2])


def redis_of(broker: str) -> str | None:
    """The URL of a Celery broker as a client of Redis writes it; None when it is no Redis."""
    parts = urlsplit(broker)
    if parts.scheme == "redis+socket":
        database = parse_qs(parts.query).get("virtual_host", ["0"])[0]
        return f"unix://{parts.netloc}{parts.path}?db={database}"
    return broker if parts.scheme in ("redis", "rediss") or is_sentinel(broker) else None


def is_amqp(broker: str) -> bool:
    """Is this broker a RabbitMQ?"""
    return broker.partition("://")[0].lower() in _AMQP


def _sentinels(setting: str, url: str) -> Sentinels:
    try:
        return Sentinels.of(url)
    except (InputError, ValueError) as exc:
        raise InputError(f"{setting}: {redacted(url)!r}: {exc}") from None


def _broker(url: str) -> str:
    """As Celery writes it; where the URL says nothing about certificates, they are checked."""
    if is_sentinel(url):
        places = _sentinels("SHOAL_BROKER_URL", url)
        return places.at_database(places.database)
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        raise InputError(f"SHOAL_BROKER_URL: {redacted(url)!r} is not a URL: percent-encode passwords") from None
    query = parse_qs(parts.query)
    if is_amqp(url):
        _check_amqp(url, query)
        return url
    if parts.scheme == "unix":
        return f"redis+socket://{parts.netloc}{parts.path}?virtual_host={query.get('db', ['0'])[0]}"
    if parts.scheme != "rediss" or "ssl_cert_reqs" in query:
        return url
    return parts._replace(query="&".join(filter(None, (parts.query, "ssl_cert_reqs=required")))).geturl()


def _check_amqp(url: str, query: dict[str, list[str]]) -> None:
    if ";" in url:
        raise InputError("SHOAL_BROKER_URL names several brokers: write one; for a cluster, that of its balancer")
    strange = sorted(query.keys() - set(_TLS_OPTIONS))
    if strange:
        raise InputError(
            f"SHOAL_BROKER_URL: {redacted(url)!r}: RabbitMQ has no option {redacted(strange[0])!r} here; "
            f"there are {', '.join(_TLS_OPTIONS)}"
        )
    if query and url.partition("://")[0].lower() != "amqps":
        raise InputError(f"SHOAL_BROKER_URL: {redacted(url)!r}: options of TLS need amqps://")


def is_here(url: str | None) -> bool:
    """Is this Redis on this machine, like the workers that a command brings along?"""
    if url is None:
        return True
    if is_sentinel(url):  # where the primary is, is not ours to say
        return False
    parts = urlsplit(url)
    return parts.scheme == "unix" or is_loopback(parts.hostname or "")


def _read(url: str) -> tuple[str, str, int, str]:
    """(scheme, address with credentials or socket path, first database, options with their question mark)"""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        raise InputError(
            f"SHOAL_REDIS_URL: {redacted(url)!r} is not a URL: write redis://HOST:PORT, percent-encode passwords"
        ) from None
    if parts.scheme not in _SCHEMES:
        raise InputError(f"SHOAL_REDIS_URL: {redacted(url)!r} is not a Redis URL; {_HOW}")
    if parts.scheme == "unix":
        if not parts.path:
            raise InputError(f"SHOAL_REDIS_URL: {redacted(url)!r} names no socket; write unix:///PATH")
        login, at, _ = parts.netloc.rpartition("@")
        return "unix", f"{login}{at}{parts.path}", _number(parse_qs(parts.query).get("db", ["0"])[0], url), ""
    if not parts.hostname:
        raise InputError(f"SHOAL_REDIS_URL: {redacted(url)!r} names no host; write redis://HOST:PORT")
    query = parse_qs(parts.query)
    if "password" in query or "username" in query:
        raise InputError(
            f"SHOAL_REDIS_URL: {redacted(url)!r}: write user and password before the host, USER:PASSWORD@HOST"
        )
    asked = [parts.query] if parts.query else []
    if parts.scheme == "rediss" and "ssl_cert_reqs" not in query:
        asked.append("ssl_cert_reqs=required")
    options = f"?{'&'.join(asked)}" if asked else ""
    return parts.scheme, parts.netloc, _number(parts.path.strip("/") or "0", url), options


def _number(text: str, url: str) -> int:
    if not (text.isascii() and text.isdigit()):
        shown = redacted(f"//{text}")[2:]  # behind a password that has a slash, it is the rest of that
        raise InputError(f"SHOAL_REDIS_URL: {shown!r} in {redacted(url)!r} is not the number of a database")
    return int(text)


def redacted(url: str) -> str:
    """The URL without its passwords: its own, and that of a certificate's key."""
    return without_login(url)
