"""The gate through a job's proxy: of every kind, with a login or without, and what its faults are called."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from shoal.core.egress import Egress
from shoal.core.proxies import read_proxy
from shoal.fetch.guard import Guard
from shoal.render.gate import Gate, Terms
from tests.canary import canary
from tests.proxies import Identity, TestProxy, http_proxy, socks_proxy
from tests.unit.render.hosts import Browser, ask, gate, host, reason_in

OUT = "93.184.215.14"
"""An address on the internet: nobody in these tests connects to it."""
KINDS = {"http": http_proxy, "socks5": socks_proxy, "socks5h": socks_proxy}


def _terms(url: str) -> Terms:
    return Terms(proxy=read_proxy(url))


async def _both(made: Gate, name: str) -> list[bytes]:
    """A plain request, and one through a tunnel."""
    plain = await ask(made, f"GET http://{name}/plain HTTP/1.1")
    browser = await Browser.connect(made)
    browser.say(f"CONNECT {name}:443 HTTP/1.1")
    opened = await browser.hear()
    if reason_in(opened):
        browser.close()
        return [plain, opened]
    browser.say("GET /tunnel HTTP/1.1", "Host: x")
    try:
        return [plain, await browser.hear()]
    finally:
        browser.close()


@pytest.mark.parametrize("scheme", KINDS)
@pytest.mark.parametrize("login", ["", "ann:s3cret"])
def test_requests_and_tunnels_go_through_the_proxy(scheme: str, login: str) -> None:
    async def main() -> TestProxy:
        user, _, password = login.partition(":")
        async with host() as found:
            known = {"shop.example": found.port, OUT: found.port}
            with KINDS[scheme](hosts=known, login=(user, password) if login else None) as proxy:
                async with gate(_terms(proxy.url(scheme, login)), lookup=lambda _: [OUT]) as made:
                    plain, tunnel = await _both(made, "shop.example")
                    assert plain.endswith(b"GET /plain HTTP/1.1")
                    assert tunnel.endswith(b"GET /tunnel HTTP/1.1")
                    assert made.end().refused == 0
                assert not any("Authorization" in head for head in found.heads)
                return proxy

    proxy = asyncio.run(main())
    openly, by_name = scheme == "http", "shop.example" if scheme != "socks5" else OUT
    first = "GET http://shop.example/plain" if openly else f"CONNECT {by_name}:80"
    assert proxy.passed == [first, f"CONNECT {by_name}:443"]


def test_a_proxy_that_speaks_tls_must_be_trusted(tmp_path: Path) -> None:
    identity = Identity.make(tmp_path)

    async def main(guard: Guard) -> list[str]:
        async with host() as found:
            with http_proxy(hosts={"shop.example": found.port}, tls=identity.server) as proxy:
                made = await Gate.open(guard)
                made.begin(_terms(proxy.url("https")))
                answers = await _both(made, "shop.example")
                await made.close()
                guard.close()
                return [reason_in(answer) for answer in answers]

    egress = Egress.read("")
    assert asyncio.run(main(Guard(egress, lambda _: [OUT], identity.client))) == ["", ""]
    assert asyncio.run(main(Guard(egress, lambda _: [OUT]))) == ["proxy_failed", "proxy_failed"]


@pytest.mark.parametrize("scheme", KINDS)
@pytest.mark.parametrize("name", ["127.0.0.1", "[::1]", "inside.example", "10.0.0.1"])
def test_a_proxy_is_not_asked_for_what_the_guard_refuses(scheme: str, name: str) -> None:
    async def main() -> list[str]:
        with canary("127.0.0.1") as bird, KINDS[scheme]() as proxy:
            async with gate(Terms(frozenset({f"{name}:{bird.port}", name}), read_proxy(proxy.url(scheme)))) as made:
                answers = await _both(made, name)
            assert (proxy.passed, bird.asked) == ([], [])
            return [reason_in(answer) for answer in answers]

    assert asyncio.run(main()) == ["blocked_address"] * 2


@pytest.mark.parametrize(
    ("scheme", "traits", "reasons"),
    [
        ("http", {"login": ("ann", "other")}, ["proxy_refused", "proxy_refused"]),
        ("socks5h", {"login": ("ann", "other")}, ["proxy_refused", "proxy_refused"]),
        ("http", {"resets": True}, ["proxy_failed", "proxy_failed"]),
        ("socks5h", {"resets": True}, ["proxy_failed", "proxy_failed"]),
        ("http", {"mumbles": True}, ["proxy_failed", "proxy_failed"]),
        ("socks5h", {"mumbles": True}, ["proxy_failed", "proxy_failed"]),
        ("http", {"status": 503}, ["", "proxy_gateway"]),
        ("socks5h", {"status": 5}, ["connect_refused", "connect_refused"]),
        ("socks5h", {"status": 4}, ["connect_failed", "connect_failed"]),
        ("socks5h", {"status": 1}, ["proxy_gateway", "proxy_gateway"]),
    ],
)
def test_the_faults_of_a_proxy_are_called_what_fetches_call_them(
    scheme: str, traits: dict[str, Any], reasons: list[str]
) -> None:
    async def main() -> list[str]:
        with KINDS[scheme](**traits) as proxy:
            async with gate(_terms(proxy.url(scheme, "ann:s3cret")), lookup=lambda _: [OUT]) as made:
                answers = await _both(made, "shop.example")
                assert not any(b"s3cret" in answer for answer in answers)
                for port, reason in zip((80, 443), reasons, strict=True):
                    refusal = made.refusal_of("shop.example", port)
                    assert (refusal.reason if refusal else "") == reason
                return [reason_in(answer) for answer in answers]

    assert asyncio.run(main()) == reasons


def test_a_proxy_that_cannot_be_reached_has_failed() -> None:
    async def main() -> list[str]:
        with http_proxy() as proxy:
            url = proxy.url()
        async with gate(_terms(url), lookup=lambda _: [OUT]) as made:
            return [reason_in(answer) for answer in await _both(made, "shop.example")]

    assert asyncio.run(main()) == ["proxy_failed", "proxy_failed"]
