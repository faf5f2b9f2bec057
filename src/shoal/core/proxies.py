"""Proxies: what one is, the pools that jobs take them from, and what is held against them.

Nothing here shows a user name or a password: not a text of a value, not an error.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from functools import cached_property, lru_cache
from hashlib import sha256
from typing import Annotated, Any, cast
from urllib.parse import unquote

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, ValidationInfo, field_validator, model_validator

from shoal.core.frozen import frozen
from shoal.core.redact import HIDDEN
from shoal.core.url import Url, parse
from shoal.core.values import STORED, Duration, Rate, no_boolean
from shoal.errors import BadUrl, FetchError, InputError

SCHEMES = ("http", "https", "socks5", "socks5h")
MAX_PROXIES = 100_000
VARIANTS = 8
"""Proxies that a template offers to one host or session: when one rests, another takes its place."""
SOURCES = ("list", "file", "template")
SHOWN_PROXIES = 20

_PORTS = {"http": 80, "https": 443, "socks5": 1080, "socks5h": 1080}
_SHAPE = re.compile(
    r"(?P<scheme>[A-Za-z0-9]+)://(?:(?P<login>.*)@)?(?P<host>\[[0-9A-Fa-f:.]+\]|[^\[\]:/@?#\s]+)(?::(?P<port>\d{1,5}))?/?",
    re.DOTALL,
)
_LOGIN = re.compile(r"//.*@", re.DOTALL)
_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
_PLACEHOLDERS = ("session", "host", "n")
_MAX_SOCKS_LOGIN = 255
_ENDS = {"/": "%2F", "?": "%3F", "#": "%23", "@": "%40"}
"""What must be escaped in a login."""
_WRITE = f"write http://user:password@host:port; there are {', '.join(SCHEMES)}"

PoolName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]{1,60}$")]


@dataclass(frozen=True, slots=True, repr=False)
class Proxy:
    """One proxy: where it is, and how it lets us in."""

    scheme: str
    host: str
    """A name or an address, without brackets."""
    port: int
    user: str = ""
    password: str = ""
    id: str = field(init=False, compare=False)
    """Says which one it is, and not how to use it."""

    def __post_init__(self) -> None:
        whole = "\0".join((self.scheme, self.host, str(self.port), self.user, self.password))
        object.__setattr__(self, "id", _digest(whole)[:12])

    def __repr__(self) -> str:
        return f"Proxy({self.shown!r})"

    @property
    def is_socks(self) -> bool:
        return self.scheme.startswith("socks")

    @property
    def has_login(self) -> bool:
        return bool(self.user or self.password)

    @property
    def address(self) -> str:
        """Its URL without credentials."""
        return f"{self.scheme}://{self._place}"

    @property
    def shown(self) -> str:
        """Its URL for people, who see that there are credentials, and no more."""
        return f"{self.scheme}://{HIDDEN}@{self._place}" if self.has_login else self.address

    @property
    def _place(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def read_proxy(text: str) -> Proxy:
    """A proxy from its URL. What is wrong is said without repeating the text: it may hold a password."""
    match = _SHAPE.fullmatch(text.strip())
    scheme = match["scheme"].lower() if match else ""
    if match is None or scheme not in SCHEMES:
        raise InputError(f"this is not a proxy: {_WRITE}{_escapes(text)}")
    port = int(match["port"] or _PORTS[scheme])
    if not 0 < port <= 65_535:
        raise InputError("this is not a proxy: a port is between 1 and 65535")
    user, _, password = (match["login"] or "").partition(":")
    user, password = unquote(user), unquote(password)
    _check_login(scheme, user, password)
    return Proxy(scheme, _host_of(match["host"]), port, user, password)


def _escapes(text: str) -> str:
    """A word on characters that end a user name or a password for some who read it, where there are any."""
    login = text.partition("://")[2].rpartition("@")[0]
    found = [f"{char} as {code}" for char, code in _ENDS.items() if char in login]
    return f"; in a user name or a password, percent-encode {', '.join(found)}" if found else ""


def _host_of(text: str) -> str:
    try:
        return parse(f"http://{text}/").hostname.strip("[]")
    except BadUrl:
        raise InputError(f"this is not a proxy: its host is none; {_WRITE}") from None


def _check_login(scheme: str, user: str, password: str) -> None:
    if HIDDEN in (user, password):
        raise InputError(f"{HIDDEN} stands for credentials that are not shown: write them")
    if not (user + password).isprintable():
        raise InputError("the credentials of a proxy have control characters")
    if scheme.startswith("socks"):
        if not (user + password).isascii() or max(len(user), len(password)) > _MAX_SOCKS_LOGIN:
            raise InputError(f"the credentials of a SOCKS proxy are ASCII, at most {_MAX_SOCKS_LOGIN} characters each")
        if bool(user) != bool(password):
            raise InputError("a SOCKS proxy takes a user name with a password, or neither")
    elif ":" in user:
        raise InputError("the user name of a proxy has a colon in it")


class Rotate(StrEnum):
    """When another proxy takes over."""

    REQUEST = "request"
    """Each time."""
    HOST = "host"
    """A host is asked through the same one for as long as that is well."""
    SESSION = "session"
    """Likewise a job."""


@frozen
class Choice:
    """Which proxies may carry one request."""

    proxies: Mapping[str, Proxy]
    """Under the names that the desk keeps them by."""
    names: Sequence[str]
    group: str
    """Requests with the same one choose among the same proxies."""
    sticky: str = ""
    """Requests with the same one keep to one proxy; empty: they take turns."""


class ProxyPool(BaseModel):
    """Proxies, how requests are spread over them, and how much each may be asked for."""

    model_config = ConfigDict(extra="forbid", frozen=True, str_strip_whitespace=True, hide_input_in_errors=True)

    list: tuple[str, ...] | None = Field(default=None, min_length=1, max_length=MAX_PROXIES, repr=False)
    """URLs of proxies: http://user:password@host:port; or https, socks5 (we look names up), socks5h (they do)."""
    file: str | None = Field(default=None, min_length=1)
    """A file with such URLs, one a line; # begins a comment."""
    template: str | None = Field(default=None, max_length=2_000, repr=False)
    """One URL for many: `{session}` is a name and `{n}` a number for each request, host or session; `{host}` the host
    that is asked."""
    rotate: Rotate = Rotate.REQUEST
    """Another proxy for each request; or the same for a host, or for a session (the job), as long as it is well."""
    parallel: int | None = Field(default=None, ge=1, le=100_000)
    """Requests at once through each proxy."""
    rate: Rate | None = None
    """Requests a second through each proxy: a number, or `30/m`."""
    cool_down: Duration = 30.0
    """Seconds that a proxy rests after three failures in a row; twice as long each time after, up to ten minutes."""

    @model_validator(mode="before")
    @classmethod
    def _list_alone(cls, value: object) -> object:
        return {"list": cast(Any, value)} if isinstance(value, (tuple, list)) else value

    @field_validator("parallel", "rate", "cool_down", mode="before")
    @classmethod
    def _numbers_are_no_booleans(cls, value: object) -> object:
        return no_boolean(value)

    @field_validator("list")
    @classmethod
    def _list_reads(cls, urls: tuple[str, ...] | None, info: ValidationInfo) -> tuple[str, ...] | None:
        if info.context != STORED:
            for number, url in enumerate(urls or (), 1):
                _read_at(f"number {number}", url)
        return urls

    @field_validator("template")
    @classmethod
    def _template_reads(cls, template: str | None, info: ValidationInfo) -> str | None:
        if template is None or info.context == STORED:
            return template
        names = _PLACEHOLDER.findall(template)
        shown = ", ".join(f"{{{name}}}" for name in _PLACEHOLDERS)
        if not names or not set(names) <= set(_PLACEHOLDERS):
            raise ValueError(f"a template has some of {shown} in it, and nothing else in braces")
        _read_at("the template", _fill(template, "a", "a.example", 1))
        return template

    @model_validator(mode="after")
    def _has_one_source(self) -> ProxyPool:
        if sum(getattr(self, name) is not None for name in SOURCES) != 1:
            raise ValueError(f"exactly one of {', '.join(SOURCES)} is needed")
        return self

    @cached_property
    def digest(self) -> str:
        """Pools with the same one are the same."""
        return _digest(self.model_dump_json())[:16]

    @cached_property
    def proxies(self) -> Mapping[str, Proxy]:
        """Those of a list, by their ids."""
        if self.file is not None:
            raise InputError(f"the proxies of {self.file} were not read when the job was submitted", "proxies")
        found = map(read_proxy, self.list or ())
        return {proxy.id: proxy for proxy in found}

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(self.proxies)

    @property
    def is_read(self) -> bool:
        """Are its proxies at hand? Reading ten thousand takes a while."""
        return "names" in self.__dict__

    @property
    def requests_at_once(self) -> int:
        """0 means unlimited."""
        return self.parallel or 0

    @property
    def requests_per_second(self) -> float:
        """0 means unlimited."""
        return 0.0 if self.rate in (None, "unlimited") else float(self.rate or 0)

    def choose(self, url: Url, session: str) -> Choice:
        """The proxies that may carry a request for this URL."""
        subject = {Rotate.REQUEST: "", Rotate.HOST: url.host, Rotate.SESSION: session}[self.rotate]
        sticky = _digest(f"{self.digest}\0{subject}")[:16] if subject else ""
        if self.template is None:
            return Choice(self.proxies, self.names, self.digest, sticky)
        host = url.hostname.strip("[]")
        if sticky:
            return _few_made(self.template, host, sticky)
        # A new one each time: what is known about them is known about their gate.
        return Choice({self.digest: _one_made(self.template, host)}, (self.digest,), self.digest)

    def shown(self) -> dict[str, Any]:
        """For people and programs, without credentials."""
        values = self.model_dump(mode="json", exclude_none=True, exclude={"list", "template"})
        if self.template is not None:
            values["template"] = hide_login(self.template)
        if self.list is not None:
            more = len(self.list) - SHOWN_PROXIES
            values["list"] = [hide_login(url) for url in self.list[:SHOWN_PROXIES]]
            values["list"] += [f"… and {more} more"] if more > 0 else []
        return values


PROXY_KINDS = _NAME, _POOL = "a name", "a pool"
"""Of what a job says about proxies."""


def _kind_of_proxies(value: object) -> str:
    return _NAME if isinstance(value, str) else _POOL


Proxies = Annotated[Annotated[PoolName, Tag(_NAME)] | Annotated[ProxyPool, Tag(_POOL)], Discriminator(_kind_of_proxies)]


def _read_at(place: str, text: str) -> None:
    try:
        read_proxy(text)
    except InputError as exc:
        raise ValueError(f"{place}: {exc}") from None


def _one_made(template: str, host: str) -> Proxy:
    return read_proxy(_fill(template, f"{random.getrandbits(40):010x}", host, random.randrange(10**9)))


@lru_cache(maxsize=10_000)
def _few_made(template: str, host: str, sticky: str) -> Choice:
    """Of one name always the same few."""
    seeds = [_digest(f"{sticky}{variant}") for variant in range(VARIANTS)]
    made = [read_proxy(_fill(template, seed[:10], host, int(seed[10:18], 16) % 10**9)) for seed in seeds]
    proxies = {proxy.id: proxy for proxy in made}
    return Choice(proxies, tuple(proxies), sticky, sticky)


def _fill(template: str, session: str, host: str, number: int) -> str:
    values = {"session": session, "host": host, "n": str(number)}
    fill: Callable[[re.Match[str]], str] = lambda match: values[match[1]]  # noqa: E731
    return _PLACEHOLDER.sub(fill, template)


def hide_login(url: str) -> str:
    """The URL of a proxy, or a template, without its credentials."""
    return _LOGIN.sub(f"//{HIDDEN}@", url)


def _digest(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


# --- how they do ----------------------------------------------------------------------------------------------------


class Verdict(StrEnum):
    """What one request tells about the proxy that carried it."""

    OK = "ok"
    DOUBTFUL = "doubtful"
    """There was no way through, and nobody can say whose fault that is."""
    FAILED = "failed"
    """It did not do its part."""
    REFUSED = "refused"
    """It does not let us in."""
    NONE = ""
    """Nothing: it was not used, or the fetch was given up."""


_VERDICTS = {
    "proxy_failed": Verdict.FAILED,
    "proxy_refused": Verdict.REFUSED,
    "proxy_gateway": Verdict.DOUBTFUL,
}
_GATEWAY_STATUS = ("http_502", "http_503", "http_504")
"""Of the host, or of a proxy in its place."""


def verdict_of(error: FetchError | None) -> Verdict:
    """What a fetch through a proxy tells about it; None is an answer."""
    if error is None:
        return Verdict.OK
    if error.reason in _VERDICTS:
        return _VERDICTS[error.reason]
    answered = error.reason.startswith("http_") and error.reason not in _GATEWAY_STATUS
    return Verdict.OK if answered else Verdict.NONE


@frozen
class ProxyState:
    """How a proxy does, over all workers."""

    name: str
    score: float = 1.0
    """0 to 1: how many of the last requests it has carried; recovers with time."""
    in_flight: int = 0
    failures: int = 0
    """In a row."""
    rest: timedelta = timedelta()
    """It is not asked for so long."""
