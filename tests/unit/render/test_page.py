"""What a context is made with, and what is left out of a page: values, without a browser."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.core.browsing import Browsing
from shoal.core.url import parse
from shoal.errors import FetchError
from shoal.render.page import context_options
from shoal.render.port import Order
from shoal.render.traffic import LeftOut, own_headers

DEVICES = {"Pad": {"viewport": {"width": 1, "height": 2}, "user_agent": "Pad/1", "default_browser_type": "webkit"}}


def options(**browsing: Any) -> dict[str, Any]:
    order = Order(parse("http://shop.example/"), Browsing.model_validate(browsing), {"user-agent": "Shoal/1"})
    return context_options(order, "http://127.0.0.1:9", DEVICES)


def test_a_context_lets_pages_do_as_little_as_can_be() -> None:
    made = options()
    assert made["service_workers"] == "block"
    assert made["accept_downloads"] is made["bypass_csp"] is made["ignore_https_errors"] is False
    assert made["proxy"] == {"server": "http://127.0.0.1:9", "bypass": "<-loopback>"}
    assert made["viewport"] == {"width": 1280, "height": 800}
    assert "extra_http_headers" not in made


def test_a_device_changes_all_but_who_is_asking() -> None:
    made = options(device="Pad")
    assert (made["viewport"], made["user_agent"]) == ({"width": 1, "height": 2}, "Shoal/1")
    assert "default_browser_type" not in made
    with pytest.raises(FetchError, match="unknown_device"):
        options(device="Pod")


def test_locale_and_time_zone_are_passed_on() -> None:
    assert (
        options(locale="fr-FR", timezone="Asia/Tokyo").items()
        >= {"locale": "fr-FR", "timezone_id": "Asia/Tokyo"}.items()
    )


def test_headers_that_the_browser_sets_itself_are_left_to_it() -> None:
    given = {"Accept": "x", "User-Agent": "y", "Cookie": "z", "X-Token": "1", "Accept-Language": "de"}
    assert own_headers(given) == {"x-token": "1", "accept-language": "de"}


@pytest.mark.parametrize(
    ("kind", "url", "left_out"),
    [
        ("Image", "http://shop.example/a.png", True),
        ("TextTrack", "http://shop.example/a.vtt", True),
        ("Fetch", "http://shop.example/api", False),
        ("Document", "http://shop.example/frame", False),
        ("Script", "http://ads.example/x.js", True),
        ("Script", "http://deep.ads.example:8080/x.js", True),
        ("Script", "http://bads.example/x.js", False),
    ],
)
def test_what_a_job_leaves_out(kind: str, url: str, left_out: bool) -> None:
    assert LeftOut(Browsing(block_hosts=("ads.example",))).leaves_out(kind, url) is left_out


def test_pings_manifests_and_the_like_are_other_things() -> None:
    assert LeftOut(Browsing(block=("other",))).leaves_out("Ping", "http://shop.example/")
    assert not LeftOut(Browsing(block=("other",))).leaves_out("Document", "http://shop.example/")
