"""The servers that a frontier's hosts are spread over, as an operator names them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import parse_qs, urlsplit

MOST_SHARDS = 16
_SERVER = re.compile(r"(?P<name>[a-z0-9][a-z0-9-]{0,30})=(?P<url>(rediss?(\+sentinel)?|unix)://\S+)")


def read_shards(text: str) -> Mapping[str, str]:
    """`a=redis://one:6379/0 b=redis://two:6379/0` → name → URL. What is wrong is said without repeating a password."""
    servers: dict[str, str] = {}
    for number, part in enumerate(text.split(), 1):
        server = _SERVER.fullmatch(part)
        if server is None:
            raise ValueError(f"number {number} is not NAME=redis://HOST:PORT/DATABASE, such as a=redis://one:6379/0")
        if server["name"] in servers:
            raise ValueError(f"there are two shards {server['name']!r}")
        if server["url"] in servers.values():
            raise ValueError(f"the shard {server['name']!r} is the same server and database as another")
        if not _names_a_database(server["url"]):
            raise ValueError(
                f"the shard {server['name']!r} has no URL such as redis://one:6379/0 or unix:///PATH?db=0: "
                "the database is a number, special characters of a password are percent-encoded, "
                "and between shards is a space"
            )
        servers[server["name"]] = server["url"]
    if len(servers) > MOST_SHARDS:
        raise ValueError(f"{len(servers)} shards; there can be {MOST_SHARDS}")
    return servers


def _names_a_database(url: str) -> bool:
    """A client would take database 0 for what it cannot read. Those behind sentinels are read when these are asked."""
    try:
        parts = urlsplit(url)
        if parts.scheme.endswith("+sentinel"):
            return True
        _ = parts.port
    except ValueError:
        return False
    if parts.scheme == "unix":
        return bool(parts.path) and parse_qs(parts.query).get("db", ["0"])[-1].isdecimal()
    return bool(parts.hostname) and (parts.path.strip("/") or "0").isdecimal()
