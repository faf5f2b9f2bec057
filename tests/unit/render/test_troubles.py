"""What a browser says went wrong, and our words for it."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from playwright import async_api as playwright

from shoal.core.url import parse
from shoal.errors import FetchError
from shoal.render.troubles import MAX_DETAIL, reason_of, trouble_of

URL = parse("https://shop.example/")


@dataclass(frozen=True, slots=True)
class Gate:
    refusal: FetchError | None = None
    received: int = 0

    def refusal_of(self, host: str, port: int) -> FetchError | None:
        return self.refusal if (host, port) == ("shop.example", 443) else None

    def tally(self) -> Gate:
        return self


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ("Page.goto: net::ERR_CONNECTION_REFUSED at https://shop.example/\nCall log:\n", "connect_refused"),
        ("Page.goto: net::ERR_CERT_DATE_INVALID at https://shop.example/", "tls_expired"),
        ("Page.goto: net::ERR_CERT_AUTHORITY_INVALID at https://shop.example/", "tls_untrusted"),
        ("Page.goto: net::ERR_CERT_COMMON_NAME_INVALID at https://shop.example/", "tls_wrong_host"),
        ("Page.goto: net::ERR_TUNNEL_CONNECTION_FAILED at https://shop.example/", "connect_failed"),
        ("Page.goto: net::ERR_INVALID_HTTP_RESPONSE at https://shop.example/", "bad_http"),
        ("Page.goto: Download is starting", "not_a_page"),
        ("Page.goto: Page crashed", "page_crashed"),
        ("Page.goto: Target page, context or browser has been closed", "browser_crashed"),
        ("Page.goto: something new", "internal_error"),
    ],
)
def test_each_message_has_its_reason(message: str, reason: str) -> None:
    assert trouble_of(playwright.Error(message), URL, Gate()).reason == reason


def test_running_out_of_time_is_told_apart() -> None:
    assert trouble_of(playwright.TimeoutError("Timeout 5ms exceeded."), URL, Gate()).reason == "render_timeout"


def test_the_gate_knows_better_why_there_was_no_connection() -> None:
    gate = Gate(FetchError("blocked_address", "private"))
    failed = playwright.Error("net::ERR_TUNNEL_CONNECTION_FAILED")
    assert trouble_of(failed, URL, gate).reason == "blocked_address"
    assert trouble_of(failed, parse("https://other.example/"), gate).reason == "connect_failed"


def test_families_of_codes_have_a_reason_each() -> None:
    assert reason_of("ERR_CERT_REVOKED") == "tls_certificate"
    assert reason_of("ERR_SSL_PROTOCOL_ERROR") == "tls_failed"


def test_details_are_one_short_line() -> None:
    trouble = trouble_of(playwright.Error("x" * 10_000 + "\nCall log:"), URL, Gate())
    assert trouble.detail == "x" * MAX_DETAIL
