"""The head of a request that the browser hands to the gate: read strictly, written anew.

What two readers could take for two different things is refused: bare line ends, folded lines, two lengths, a length
beside a transfer encoding, a target whose host can be doubted. What is sent on is made from what was read, so that the
host reads what was judged.
"""

from __future__ import annotations

import re
from functools import lru_cache

from shoal.core.frozen import frozen
from shoal.core.url import parse
from shoal.errors import BadUrl, FetchError

MAX_HEAD = 65_536
"""Bytes."""
MAX_FIELDS = 100
END = b"\r\n\r\n"

_LINE = re.compile(r"(?P<method>[A-Za-z][A-Za-z-]{0,19}) (?P<target>[!-~]+) HTTP/1\.1")
_OPEN = re.compile(r"http://(?P<place>[^/\\?#@]+)(?P<rest>(?:[/?].*)?)", re.IGNORECASE)
_PLACE = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[^\[\]:/\\?#@%]+)(?::(?P<port>[0-9]{1,5}))?")
_FIELD = re.compile(r"(?P<name>[!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*(?P<value>[^\x00-\x08\x0a-\x1f\x7f]*)")
_LENGTH = re.compile("[0-9]{1,15}")
_BARE = re.compile(rb"(?<!\r)\n|\r(?!\n)|\x00")
_HOP = frozenset({"connection", "keep-alive", "te", "trailer", "upgrade", "host", "http2-settings"})
"""Between the browser and the gate only; the host's name is written from the target."""
_FRAME = frozenset({"content-length", "transfer-encoding", "host"})
_NO_ONE_ASKS = frozenset({"TRACE", "TRACK"})
_PLAIN_PORT = 80


@frozen
class RequestHead:
    """What is asked, and of whom."""

    method: str
    hostname: str
    """As in URLs: an IPv6 address in brackets."""
    port: int
    target: str = ""
    """Path and query, as the browser wrote them; empty for a tunnel."""
    fields: tuple[tuple[str, str], ...] = ()
    """Without those that are not for the host."""
    length: int = 0
    """Bytes of the body."""

    @property
    def is_tunnel(self) -> bool:
        return not self.target

    @property
    def goal(self) -> tuple[str, int]:
        return self.hostname, self.port

    @property
    def place(self) -> str:
        """Host and port, always both."""
        return f"{self.hostname}:{self.port}"

    @property
    def hosts(self) -> frozenset[str]:
        """How the URLs' hosts are written that lead here: http and https share a name without a port."""
        return frozenset({self.place, self.hostname}) if self.port in (80, 443) else frozenset({self.place})

    def written(self, *, openly: bool = False, login: str = "") -> bytes:
        """For the host, or openly for a proxy that is to hand it on."""
        host = self.hostname if self.port == _PLAIN_PORT else self.place
        target = f"http://{host}{self.target}" if openly else self.target
        lines = [f"{self.method} {target} HTTP/1.1", f"Host: {host}"]
        lines += [f"{name}: {value}" for name, value in self.fields]
        lines += [f"Proxy-Authorization: {login}"] if openly and login else []
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def read_head(raw: bytes) -> RequestHead:
    """From the bytes before the empty line; raises FetchError: `bad_http` or `bad_url`."""
    if len(raw) > MAX_HEAD:
        raise FetchError("bad_http", f"a head of more than {MAX_HEAD} bytes")
    if _BARE.search(raw):
        raise FetchError("bad_http", "line ends or zeros in the middle of a line")
    line, *rest = raw.decode("latin-1").split("\r\n")
    if len(rest) > MAX_FIELDS:
        raise FetchError("bad_http", f"more than {MAX_FIELDS} headers")
    asked = _LINE.fullmatch(line)
    if asked is None or asked["method"].upper() in _NO_ONE_ASKS:
        raise FetchError("bad_http", "not a request that is taken here")
    fields = [_read_field(text) for text in rest]
    length = _length(fields)
    if asked["method"] == "CONNECT":
        return _tunnel(asked["target"], length)
    hostname, port, target = _read_target(asked["target"])
    return RequestHead(asked["method"], hostname, port, target, _for_host(fields), length)


def _tunnel(target: str, length: int) -> RequestHead:
    hostname, port = _read_place(target)
    if port is None or length:
        raise FetchError("bad_http", "a tunnel needs a port, and has no body")
    return RequestHead("CONNECT", hostname, port)


def _read_target(text: str) -> tuple[str, int, str]:
    found = _OPEN.fullmatch(text)
    if found is None:
        raise FetchError("bad_url", "only whole http URLs are taken, and tunnels")
    hostname, port = _read_place(found["place"])
    target, hash_, _ = found["rest"].partition("#")
    if hash_ or "\\" in target.partition("?")[0]:
        raise FetchError("bad_url", "a fragment, or a backslash")
    return hostname, _PLAIN_PORT if port is None else port, target if target[:1] == "/" else f"/{target}"


@lru_cache(maxsize=1_000)
def _read_place(text: str) -> tuple[str, int | None]:
    """Host and port, under the rules for URLs that somebody submits."""
    found = _PLACE.fullmatch(text)
    port = int(found["port"]) if found and found["port"] else None
    if found is None or (port is not None and not 0 < port < 65_536):
        raise FetchError("bad_url", "not a host with a port")
    try:
        return parse(f"http://{found['host']}/").hostname, port
    except BadUrl as exc:
        raise FetchError("bad_url", str(exc)) from exc


def _read_field(text: str) -> tuple[str, str]:
    found = _FIELD.fullmatch(text)
    if found is None:
        raise FetchError("bad_http", "a header that is none")
    return found["name"], found["value"].rstrip(" \t")


def _length(fields: list[tuple[str, str]]) -> int:
    """Of the body; browsers always say it."""
    given = [value for name, value in fields if name.lower() == "content-length"]
    if any(name.lower() == "transfer-encoding" for name, _ in fields):
        raise FetchError("bad_http", "a transfer encoding, where only lengths are taken")
    if len(given) > 1 or not all(map(_LENGTH.fullmatch, given)):
        raise FetchError("bad_http", "not one length")
    return int(given[0]) if given else 0


def _for_host(fields: list[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Without what is between the browser and the gate."""
    listed = ",".join(value for name, value in fields if name.lower() == "connection").lower()
    named = {part.strip() for part in listed.split(",")}
    if named & _FRAME:
        raise FetchError("bad_http", "a header that frames the request cannot be for one hop only")
    drop = _HOP | named
    return tuple(
        (name, value) for name, value in fields if (low := name.lower()) not in drop and not low.startswith("proxy-")
    )
