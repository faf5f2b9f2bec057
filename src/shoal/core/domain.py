"""The registrable domain of a host: what somebody owns as a whole."""

from __future__ import annotations

from functools import cache, lru_cache
from ipaddress import ip_address

from publicsuffixlist import PublicSuffixList


@cache
def _suffixes() -> PublicSuffixList:
    return PublicSuffixList()


@lru_cache(maxsize=50_000)
def registrable_domain(host: str) -> str:
    """`shop.example.co.uk:8080` → `example.co.uk`; an address, or a name that nobody can register, is its own."""
    name = host if host.endswith("]") else host.rpartition(":")[0] or host
    try:
        ip_address(name.strip("[]"))
    except ValueError:
        return str(_suffixes().privatesuffix(name) or name)
    return name
