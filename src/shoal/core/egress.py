"""Where fetches may go: the internet, and what an operator has allowed besides.

An allow-list opens networks and names; what is denied stays closed, and so do cloud metadata services, multicast and
the addresses that are none. Loopback opens for the hosts that somebody at the command line has named in so many words.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from shoal.core.address import LOOPBACK, NEVER, PUBLIC, Address, Network, kind_of, read_address, read_network, readings
from shoal.core.frozen import frozen

DENIED = "denied"
_ANY_BELOW = "*."
_URL = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_PLACE = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._*-]+):\d+")


@frozen
class Egress:
    """What may be asked."""

    networks: tuple[Network, ...] = ()
    """Allowed, though they are not on the internet."""
    names: frozenset[str] = frozenset()
    """Hosts that are allowed wherever they are; `*.` stands for all names below."""
    denied: tuple[Network, ...] = ()
    """Never asked, whatever is allowed."""

    @classmethod
    def read(cls, allow: str = "", deny: str = "") -> Egress:
        """From comma-separated lists of networks, addresses and (to allow) names; raises ValueError."""
        networks, names = _split(allow)
        denied, wrong = _split(deny)
        if wrong:
            raise ValueError(f"{', '.join(sorted(wrong))}: only networks and addresses can be denied")
        return cls(tuple(networks), frozenset(names), tuple(denied))

    def refuses(self, address: Address, name: str = "", *, local: bool = False) -> str:
        """Why this address, to which this name leads, may not be asked; empty when it may.

        `local`: the person at this machine's command line has named this host.
        """
        kind = kind_of(address)
        if _within(self.denied, (address, *readings(address))):
            return DENIED
        if not kind or kind in NEVER:
            return kind
        if (local and kind == LOOPBACK) or self._knows(name):
            return ""
        return "" if all(_within(self.networks, (reading,)) for reading in readings(address)) else kind

    def refuses_host(self, host: str, *, local: bool = False) -> str:
        """The same for what can be said without asking a name server: addresses, and names of this machine."""
        if address := read_address(host):
            return self.refuses(address, local=local)
        if is_loopback(host) and not (local or self._knows(host) or _within(self.networks, _THIS_MACHINE)):
            return LOOPBACK
        return ""

    def _knows(self, name: str) -> bool:
        if name in self.names:
            return True
        parts = name.split(".")
        return any(_ANY_BELOW + ".".join(parts[i:]) in self.names for i in range(1, len(parts)))


def explain(what: str, why: str) -> str:
    """A refusal for people, with who can change it."""
    if why == DENIED:
        return f"{what} is closed by SHOAL_EGRESS_DENY"
    hint = "nothing opens such addresses" if why in NEVER else "the operator can allow it with SHOAL_EGRESS_ALLOW"
    return f"{what} is not on the internet ({why}); {hint}"


def is_loopback(host: str) -> bool:
    """Does this host name or address say in so many words that it is this machine?"""
    if address := read_address(host):
        return kind_of(address) == LOOPBACK
    return host == "localhost" or host.endswith(".localhost")


def is_inside(host: str) -> bool:
    """Does this host say in so many words that it is this machine, or in a network of somebody's own?"""
    address = read_address(host)
    return kind_of(address) != PUBLIC if address else is_loopback(host)


def _split(text: str) -> tuple[list[Network], set[str]]:
    networks, names = list[Network](), set[str]()
    for part in filter(None, (part.strip() for part in text.split(","))):
        if network := read_network(part):
            networks.append(network)
        elif _is_name(part.lower().removeprefix(_ANY_BELOW)):
            names.add(part.lower())
        else:
            raise ValueError(_flaw_of(part))
    return networks, names


def _flaw_of(part: str) -> str:
    """Why this is nothing that can be allowed or denied; it is not repeated where it may hold a password."""
    if _URL.match(part):
        return "a URL is neither a network nor a name: write its host alone, such as intranet.example"
    if place := _PLACE.fullmatch(part):
        return f"{part!r} has a port in it, and what is listed here is meant with all its ports: write {place[1]}"
    return f"{part!r} is neither a network such as 10.0.0.0/8 nor a name such as intranet.example"


def _is_name(text: str) -> bool:
    labels = text.split(".")
    return not labels[-1].isdigit() and all(label.replace("-", "").replace("_", "").isalnum() for label in labels)


def _within(networks: Iterable[Network], addresses: Iterable[Address]) -> bool:
    known = tuple(networks)
    return any(address in network for address in addresses for network in known if network.version == address.version)


_THIS_MACHINE = tuple(address for text in ("127.0.0.1", "::1") if (address := read_address(text)))
