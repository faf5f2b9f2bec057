"""What kind of place an address is, in every disguise."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.core.address import PUBLIC, kind_of, read_address, read_network

PLACES = {
    "8.8.8.8": PUBLIC,
    "1.1.1.1": PUBLIC,
    "172.15.255.255": PUBLIC,
    "172.32.0.0": PUBLIC,
    "100.128.0.0": PUBLIC,
    "169.253.255.255": PUBLIC,
    "192.0.1.0": PUBLIC,
    "223.255.255.255": PUBLIC,
    "2606:4700::1111": PUBLIC,
    "2001:4860:4860::8888": PUBLIC,
    "0.0.0.0": "unspecified",
    "0.1.2.3": "unspecified",
    "10.0.0.0": "private",
    "10.255.255.255": "private",
    "172.16.0.1": "private",
    "172.31.255.255": "private",
    "192.168.1.1": "private",
    "127.0.0.1": "loopback",
    "127.255.255.255": "loopback",
    "169.254.1.1": "link-local",
    "169.254.169.254": "metadata",
    "169.254.170.2": "metadata",
    "100.100.100.200": "metadata",
    "168.63.129.16": "metadata",
    "192.0.0.192": "metadata",
    "100.64.0.1": "carrier-grade NAT",
    "192.0.0.1": "reserved",
    "192.0.2.1": "documentation",
    "198.18.0.1": "benchmarking",
    "198.51.100.1": "documentation",
    "203.0.113.1": "documentation",
    "224.0.0.1": "multicast",
    "240.0.0.1": "reserved",
    "255.255.255.255": "broadcast",
    "::": "unspecified",
    "::1": "loopback",
    "fc00::1": "private",
    "fd12:3456::1": "private",
    "fd00:ec2::254": "metadata",
    "fe80::1": "link-local",
    "fec0::1": "private",
    "ff02::1": "multicast",
    "2001:db8::1": "documentation",
    "2001:2::1": "reserved",
    "100::1": "reserved",
    "5f00::1": "reserved",
    "4000::1": "reserved",
    "64:ff9b:1::7f00:1": "private",
}


@pytest.mark.parametrize(("text", "kind"), PLACES.items())
def test_a_place_is_known_by_its_address(text: str, kind: str) -> None:
    address = read_address(text)
    assert address is not None
    assert kind_of(address) == kind


def _wrapped(address: IPv4Address) -> dict[str, IPv6Address]:
    number = int(address)
    return {
        "mapped": IPv6Address((0xFFFF << 32) | number),
        "translated": IPv6Address((0xFFFF << 48) | number),
        "NAT64": IPv6Address((0x64FF9B << 96) | number),
        "6to4": IPv6Address((0x2002 << 112) | (number << 80) | 0x1234),
        "Teredo client": IPv6Address((0x20010000 << 96) | (0x08080808 << 64) | (number ^ 0xFFFFFFFF)),
        "Teredo server": IPv6Address((0x20010000 << 96) | (number << 64) | (0x08080808 ^ 0xFFFFFFFF)),
        "ISATAP": IPv6Address((0x2600 << 112) | (0x5EFE << 32) | number),
        "ISATAP, global": IPv6Address((0x2600 << 112) | (0x02005EFE << 32) | number),
    }


@given(st.ip_addresses(v=4))
def test_an_address_inside_another_is_the_place_that_it_is(address: IPv4Address) -> None:
    for how, wrapped in _wrapped(address).items():
        assert kind_of(wrapped) == kind_of(address), (how, wrapped)


@given(st.ip_addresses(v=4).filter(lambda address: int(address) > 1))
def test_an_old_compatible_address_too(address: IPv4Address) -> None:
    assert kind_of(IPv6Address(int(address))) == kind_of(address)


@given(st.ip_addresses())
def test_what_python_knows_to_be_no_global_place_is_none_for_us(address: IPv4Address | IPv6Address) -> None:
    if address.is_private or address.is_loopback or address.is_link_local or address.is_multicast:
        assert kind_of(address) != PUBLIC


def test_a_name_is_no_address_and_a_network_no_name() -> None:
    assert read_address("localhost") is None
    assert read_address("2130706433") is None
    assert read_address("[::1]") == IPv6Address("::1")
    assert read_network("intranet.example") is None
    assert str(read_network("10.1.2.3/8")) == "10.0.0.0/8"
