"""The network: are names found, where may fetches go, and who may come to us?"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

from shoal.core.address import read_address
from shoal.core.egress import Egress, explain, is_loopback
from shoal.doctor.database import opened
from shoal.doctor.finding import Area, Finding, Kind, Level, note, well
from shoal.doctor.ground import Ground, NotLooked
from shoal.fetch.guard import ask_system
from shoal.fetch.outcomes import dns_reason

SOMEWHERE = "example.com"
"""A name of the internet that is always there; looked up where nobody has named another."""
INSIDE = (
    "10.0.0.1",
    "172.16.0.1",
    "192.168.0.1",
    "127.0.0.1",
    "100.64.0.1",
    "169.254.0.1",
    "::1",
    "fd00::1",
    "fe80::1",
)
"""An address of each network that is not the internet's."""
RESOLVER = Path("/etc/resolv.conf")

NO_DNS = Kind(
    "dns_fails", Area.NETWORK, Level.ERROR,
    "No host can be found by its name: fetches fail with dns_failed.",
    "getent hosts {name}; cat {resolver}",
)  # fmt: skip
NO_NAME = Kind(
    "dns_not_found", Area.NETWORK, Level.ERROR,
    "Name servers answer, and know no such host: fetches fail with dns_not_found.",
    "getent hosts {name}",
)  # fmt: skip
CLOSED = Kind(
    "egress_closed", Area.NETWORK, Level.ERROR,
    "The host is not on the internet, or it is denied: its pages fail with egress_blocked.",
    'export SHOAL_EGRESS_ALLOW="${{SHOAL_EGRESS_ALLOW:+$SHOAL_EGRESS_ALLOW,}}"{name}',
)  # fmt: skip
WIDE = Kind(
    "egress_open", Area.NETWORK, Level.WARNING,
    "Pages and redirects of strangers can lead fetches into these networks, to machines that trust them.",
    "unset SHOAL_EGRESS_ALLOW",
)  # fmt: skip
EXPOSED = Kind(
    "api_exposed", Area.NETWORK, Level.ERROR,
    "The API is to listen beyond this machine, and there is no key: it refuses to start.",
    "shoal keys create --scope submit,read,admin --label NAME",
)  # fmt: skip


def names(ground: Ground) -> Iterator[Finding]:
    """Is a host found, and may it be asked?"""
    host = ground.host or SOMEWHERE
    if read_address(host):
        yield from judge(host, [host.strip("[]")], ground.settings.egress)
        return
    try:
        found = ask_system(host)
    except (OSError, UnicodeError) as exc:
        yield _not_found(ground, host, exc)
        return
    yield from judge(host, found, ground.settings.egress)


def _not_found(ground: Ground, host: str, error: Exception) -> Finding:
    told = f"{host}: {getattr(error, 'strerror', None) or error}"
    if not (isinstance(error, socket.gaierror) and dns_reason(error) == "dns_not_found"):
        return NO_DNS.found(told, name=host, resolver=RESOLVER)
    if ground.host:
        return NO_NAME.found(told, name=host)
    return NO_NAME.found(f"{told}; is there a way to the internet?", level=Level.WARNING, name=host)


def judge(host: str, found: list[str], egress: Egress) -> Iterator[Finding]:
    """May the addresses of this host be asked?"""
    closed: list[str] = []
    for text in found:
        address = read_address(text)
        if address and (why := egress.refuses(address, host)):
            closed.append(explain(f"{host} ({text})", why))
    if closed and len(closed) == len(found):
        yield CLOSED.found(closed[0], name=host)
    else:
        yield well(Area.NETWORK, f"{host} is found: {', '.join(found[:3])}")


def egress(ground: Ground) -> Iterator[Finding]:
    """Which networks besides the internet may be asked?"""
    chosen = ground.settings.egress
    inside = sorted({str(network) for network in chosen.networks if _leads_inside(network)})
    if inside:
        yield WIDE.found(f"SHOAL_EGRESS_ALLOW opens {', '.join(inside)}")
    else:
        yield well(Area.NETWORK, "fetches go to the internet only" + (", and to named hosts" if chosen.names else ""))


def _leads_inside(network: object) -> bool:
    opened_network = Egress.read(allow=str(network))
    addresses = (read_address(text) for text in INSIDE)
    first = read_address(str(network).partition("/")[0])
    return any(
        not opened_network.refuses(address) and Egress().refuses(address) for address in (*addresses, first) if address
    )


def exposure(ground: Ground) -> Iterator[Finding]:
    """Where would the API listen, and who is let in?"""
    host = ground.settings.api_host
    if is_loopback(host):
        return
    try:
        with opened(ground) as database:
            if database.has_keys():
                yield well(Area.NETWORK, f"the API listens on {host}, for those who have a key")
                return
    except NotLooked as why:
        yield note(Area.NETWORK, f"whether there are API keys is not known: {why}")
        return
    yield EXPOSED.found(f"SHOAL_API_HOST is {host}, and there is no API key")


CHECKS = (names, egress, exposure)
