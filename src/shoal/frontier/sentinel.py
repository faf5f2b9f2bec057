"""Redis behind sentinels: they are asked for the primary whenever a connection is made, and so after each failover.

`redis+sentinel://USER:PASSWORD@HOST:26379,HOST:26379/SERVICE/5?sentinel_password=…`. User and password are the servers'
own; `rediss+sentinel://` speaks TLS with servers and sentinels alike.
"""

# redis-py's hints leave gaps: what falls into them is unknown to the checker in this file only.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, cast
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

import redis
from redis import exceptions
from redis.connection import parse_url
from redis.sentinel import MasterNotFoundError, Sentinel

from shoal.core.frozen import frozen
from shoal.core.redact import without_login
from shoal.errors import InputError

SCHEMES = ("redis+sentinel", "rediss+sentinel")
DEFAULT_PORT = 26379
SENTINEL_PATIENCE_S = 2.0
"""For one sentinel: the next one may be quicker."""
_OWN = ("sentinel_username", "sentinel_password", "sentinel_tls")
_FILES = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile", "ssl_password")
_YES, _NO = ("1", "true", "yes"), ("0", "false", "no")
_CHOICES = {
    "sentinel_tls": (*_YES, *_NO),
    "ssl_check_hostname": (*_YES, *_NO),
    "ssl_cert_reqs": ("required", "optional", "none"),
}
_OPTIONS = (*_OWN, *_FILES, "ssl_cert_reqs", "ssl_check_hostname")


class UnknownService(MasterNotFoundError):
    """All sentinels answer, and none knows the service."""


def is_sentinel(url: str) -> bool:
    """Does this URL name sentinels?"""
    return url.partition("://")[0].lower() in SCHEMES


@frozen
class Sentinels:
    """One service, and who knows where its primary is."""

    hosts: tuple[tuple[str, int], ...]
    service: str
    database: int
    login: str = field(default="", repr=False)
    """As it stands in the URL, with its @."""
    tls: bool = False
    options: str = field(default="", repr=False)
    """Of the connection to servers, as they stand in the URL."""
    own: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """What only concerns the sentinels."""

    @classmethod
    def of(cls, url: str) -> Sentinels:
        """Raises InputError without any secret in it."""
        parts = urlsplit(url)
        login, at, places = parts.netloc.rpartition("@")
        hosts = tuple(_host(place) for place in places.split(",") if place)
        service, _, database = parts.path.strip("/").partition("/")
        if not hosts or not service:
            raise InputError("names no sentinel, or no service: write redis+sentinel://HOST:26379,HOST:26379/SERVICE")
        if not (database or "0").isdecimal():
            raise InputError(f"{database!r} is not the number of a database: write it behind the service, /SERVICE/5")
        query = _read_options(parts.query)
        own = {name: value for name, value in query.items() if name in _OWN}
        options = {name: value for name, value in query.items() if name not in _OWN}
        tls = parts.scheme == "rediss+sentinel"
        if tls or own.get("sentinel_tls", "").lower() in _YES:
            options.setdefault("ssl_cert_reqs", "required")
        elif options:
            raise InputError(
                f"{next(iter(options))} is about TLS, and nothing here speaks it: write rediss+sentinel://"
            )
        return cls(hosts, unquote(service), int(database or 0), login + at, tls, urlencode(options, safe="/"), own)

    def at_database(self, number: int) -> str:
        """The URL of another database of the same service."""
        places = ",".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in self.hosts)
        query = "&".join(filter(None, (self.options, urlencode(self.own))))
        scheme = SCHEMES[1] if self.tls else SCHEMES[0]
        path = f"{quote(self.service, safe='')}/{number}"
        return f"{scheme}://{self.login}{places}/{path}{'?' if query else ''}{query}"

    @property
    def server_options(self) -> dict[str, Any]:
        """Of a connection to the primary, as redis-py names them."""
        scheme = "rediss" if self.tls else "redis"
        read = parse_url(f"{scheme}://{self.login}host/{self.database}?{self._options_of(self.tls)}")
        return {name: value for name, value in read.items() if name not in ("host", "connection_class")}

    @property
    def sentinel_options(self) -> dict[str, Any]:
        """Of a connection to a sentinel. Certificates are those of the servers."""
        given = self.own.get("sentinel_tls", "").lower()
        tls = given in _YES if given else self.tls
        read = parse_url(f"rediss://host?{self.options}") if tls else {}
        options: dict[str, Any] = {name: value for name, value in read.items() if name.startswith("ssl_")}
        options |= {"ssl": True} if tls else {}
        for name in ("username", "password"):
            if value := self.own.get(f"sentinel_{name}"):
                options[name] = value
        return options

    def _options_of(self, tls: bool) -> str:
        return urlencode([each for each in parse_qsl(self.options) if tls or not each[0].startswith("ssl_")], safe="/")

    def client(self, *, timeout_s: float, **options: Any) -> redis.Redis:
        """A client of the primary, whichever it is when a connection is made."""
        given: dict[str, Any] = {
            **self.server_options,
            **options,
            "socket_timeout": timeout_s,
            "socket_connect_timeout": timeout_s,
        }
        return self._watch(timeout_s, options).master_for(self.service, ssl=self.tls, **given)

    def primary(self, *, timeout_s: float, **options: Any) -> str:
        """The URL of the server that is the primary now."""
        with self._watch(timeout_s, options) as sentinels:
            host, port = sentinels.discover_master(self.service)
        place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        query = self._options_of(self.tls)
        scheme = "rediss" if self.tls else "redis"
        return f"{scheme}://{self.login}{place}/{self.database}{'?' if query else ''}{query}"

    def _watch(self, timeout_s: float, options: Mapping[str, Any]) -> Watchers:
        patience = min(timeout_s, SENTINEL_PATIENCE_S)
        kept = {name: value for name, value in options.items() if name in ("retry", "health_check_interval")}
        waits = {"socket_timeout": patience, "socket_connect_timeout": patience}
        return Watchers(list(self.hosts), sentinel_kwargs={**self.sentinel_options, **kept, **waits})


class Watchers(Sentinel):
    """Sentinels that say why they cannot tell: one that refuses us is not one that is away."""

    _first = 0
    """The one that knew, which is asked first: by several threads at once, so the list stays as it is."""

    def _in_turn(self) -> list[tuple[int, redis.Redis]]:
        named = list(enumerate(self.sentinels))
        return named[self._first :] + named[: self._first]

    def discover_master(self, service_name: str) -> tuple[str, int]:
        trouble: list[str] = []
        refusal: Exception | None = None
        strangers = 0
        for number, sentinel in self._in_turn():
            try:
                state = cast("dict[str, dict[str, Any]]", sentinel.sentinel_masters()).get(service_name)
            except (exceptions.RedisError, OSError) as exc:
                if _refuses(exc):
                    refusal = exc
                trouble.append(f"{_name(sentinel)} ({exc})")
                continue
            if state and self.check_master_state(state, service_name):
                self._first = number
                return state["ip"], state["port"]
            strangers += state is None
            trouble.append(f"{_name(sentinel)} ({'does not know it' if state is None else 'takes it for down'})")
        if refusal:
            raise type(refusal)(f"a sentinel refuses us, or is not to be trusted: {refusal}") from refusal
        kind = UnknownService if strangers == len(self.sentinels) else MasterNotFoundError
        raise kind(f"no sentinel names a primary of {service_name!r}: {', '.join(trouble)}")


def _read_options(query: str) -> dict[str, str]:
    """Each once, by its name, with a value that it can have; of values nothing is repeated, which may be secrets."""
    found: dict[str, str] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name not in _OPTIONS:
            raise InputError(f"there is no option {without_login(name)!r} here; there are {', '.join(_OPTIONS)}")
        if name in found:
            raise InputError(f"{name} is there twice")
        if not value:
            raise InputError(f"{name} has no value")
        if name in _CHOICES and value.lower() not in _CHOICES[name]:
            raise InputError(f"{name} is {_told(_CHOICES[name])}")
        found[name] = value
    return found


def _told(choices: tuple[str, ...]) -> str:
    return "yes or no" if "yes" in choices else f"{', '.join(choices[:-1])} or {choices[-1]}"


def _refuses(error: Exception) -> bool:
    """For good, by a word or by a certificate that nobody trusts."""
    kinds = (exceptions.AuthenticationError, exceptions.NoPermissionError)
    return isinstance(error, kinds) or "CERTIFICATE_VERIFY_FAILED" in str(error)


def _name(sentinel: redis.Redis) -> str:
    options = sentinel.get_connection_kwargs()
    return f"{options.get('host')}:{options.get('port')}"


def _host(place: str) -> tuple[str, int]:
    try:
        parts = urlsplit(f"//{place}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if not host:
        raise InputError("a sentinel's place cannot be read: write HOST:26379, percent-encode passwords")
    return host, port or DEFAULT_PORT
