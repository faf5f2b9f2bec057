"""What kind of place an IP address is: out on the internet, or somewhere that a page has no business to lead us to.

Decided by a table of our own, not by what this version of Python calls global: the same for everybody. An address that
carries another one inside it (mapped, compatible and translated IPv4, NAT64, 6to4, Teredo, ISATAP) is the place that
this other one is.
"""

from __future__ import annotations

from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

PUBLIC = ""
LOOPBACK = "loopback"
METADATA = "metadata"
MULTICAST = "multicast"
UNSPECIFIED = "unspecified"
BROADCAST = "broadcast"
NEVER = frozenset({METADATA, MULTICAST, UNSPECIFIED, BROADCAST})
"""Kinds that no allow-list opens: nobody crawls them, and some give away the keys of a machine."""

_SPECIAL_4: tuple[tuple[str, str], ...] = (
    ("169.254.169.254/32", METADATA),
    ("169.254.170.2/32", METADATA),
    ("169.254.170.23/32", METADATA),
    ("100.100.100.200/32", METADATA),
    ("168.63.129.16/32", METADATA),
    ("192.0.0.192/32", METADATA),
    ("255.255.255.255/32", BROADCAST),
    ("0.0.0.0/8", UNSPECIFIED),
    ("10.0.0.0/8", "private"),
    ("100.64.0.0/10", "carrier-grade NAT"),
    ("127.0.0.0/8", LOOPBACK),
    ("169.254.0.0/16", "link-local"),
    ("172.16.0.0/12", "private"),
    ("192.0.0.0/24", "reserved"),
    ("192.0.2.0/24", "documentation"),
    ("192.88.99.0/24", "reserved"),
    ("192.168.0.0/16", "private"),
    ("198.18.0.0/15", "benchmarking"),
    ("198.51.100.0/24", "documentation"),
    ("203.0.113.0/24", "documentation"),
    ("224.0.0.0/4", MULTICAST),
    ("240.0.0.0/4", "reserved"),
)
_SPECIAL_6: tuple[tuple[str, str], ...] = (
    ("fd00:ec2::254/128", METADATA),
    ("fd00:ec2::23/128", METADATA),
    ("fd20:ce::254/128", METADATA),
    ("::/128", UNSPECIFIED),
    ("::1/128", LOOPBACK),
    ("64:ff9b:1::/48", "private"),
    ("fc00::/7", "private"),
    ("fe80::/10", "link-local"),
    ("fec0::/10", "private"),
    ("ff00::/8", MULTICAST),
    ("2001:db8::/32", "documentation"),
    ("3fff::/20", "documentation"),
    ("2001::/23", "reserved"),
)
_GLOBAL_6 = IPv6Network("2000::/3")
"""All other unicast addresses are reserved."""
KINDS_4 = tuple((IPv4Network(network), kind) for network, kind in _SPECIAL_4)
KINDS_6 = tuple((IPv6Network(network), kind) for network, kind in _SPECIAL_6)

_TEREDO = IPv6Network("2001::/32")
_6TO4 = IPv6Network("2002::/16")
_LOW_32_BITS = tuple(map(IPv6Network, ("::ffff:0:0/96", "::ffff:0:0:0/96", "64:ff9b::/96", "::/96")))
"""Mapped, translated, NAT64, compatible: the last 32 bits are an IPv4 address."""
_ISATAP = frozenset({0x0000_5EFE, 0x0200_5EFE})
_FIRST_HOST = 2
"""`::` and `::1` are addresses of their own."""


def read_address(text: str) -> Address | None:
    """An address as it stands in a URL, brackets or not; None for a name."""
    try:
        return ip_address(text.removeprefix("[").removesuffix("]"))
    except ValueError:
        return None


def read_network(text: str) -> Network | None:
    """`10.0.0.0/8`, or one address; None for anything else."""
    try:
        return ip_network(text.strip("[]"), strict=False)
    except ValueError:
        return None


@lru_cache(maxsize=10_000)
def readings(address: Address) -> tuple[Address, ...]:
    """The addresses that this one leads to: those inside it, or else itself."""
    if isinstance(address, IPv4Address):
        return (address,)
    inside = tuple(_inside(address))
    return inside or (address,)


def kind_of(address: Address) -> str:
    """What is special about a place; PUBLIC when nothing is."""
    return next((kind for reading in readings(address) if (kind := _kind(reading))), PUBLIC)


def _kind(address: Address) -> str:
    if isinstance(address, IPv4Address):
        return next((kind for network, kind in KINDS_4 if address in network), PUBLIC)
    kind = next((kind for network, kind in KINDS_6 if address in network), PUBLIC)
    return kind or (PUBLIC if address in _GLOBAL_6 else "reserved")


def _inside(address: IPv6Address) -> list[Address]:
    number = int(address)
    last = IPv4Address(number & 0xFFFF_FFFF)
    if number < _FIRST_HOST:
        return []
    if any(address in network for network in _LOW_32_BITS):
        return [last]
    if address in _6TO4:
        return [IPv4Address(number >> 80 & 0xFFFF_FFFF)]
    if address in _TEREDO:
        return [IPv4Address(number >> 64 & 0xFFFF_FFFF), IPv4Address(int(last) ^ 0xFFFF_FFFF)]
    if number >> 32 & 0xFFFF_FFFF in _ISATAP:
        return [last, *([address] if _kind(address) else [])]
    return []
