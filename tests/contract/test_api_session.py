"""Browsers: logging in with a key, changes that only our own pages can make, and files that bring no stranger in."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from datetime import timedelta
from hashlib import sha256

import pytest
import redis
from werkzeug.test import TestResponse

from shoal.api import auth, dashboard
from shoal.api.cookie import COOKIE, PROOF
from shoal.core.access import Permission
from shoal.frontier.attempts import MOST, WINDOW, Attempts
from shoal.frontier.sessions import LIFETIME
from shoal.store.keys import KeyStore, prefix_of
from tests.contract.api import Client, Desk, refused, told

SPEC = {"urls": ["http://shop.example/"], "follow": False, "rate": "unlimited"}


@pytest.fixture(autouse=True)
def forgetful(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Keys are looked up each time."""
    monkeypatch.setattr(auth, "REMEMBER_S", 0.0)
    yield


def _log_in(desk: Desk, key: str) -> tuple[Client, str]:
    """(a browser that is logged in, what it sends with changes)"""
    browser = desk.client()
    return browser, told(browser.post("session", {"key": key}))["csrf"]


def test_who_logs_in_with_a_key_may_do_what_the_key_may(desk: Desk) -> None:
    key, _ = desk.make_key(Permission.READ, tenant="acme")
    browser, proof = _log_in(desk, key)
    told(browser.get("jobs"))
    refused(browser.get("hosts"), 403)
    refused(browser.post("jobs", SPEC, headers={PROOF: proof}), 403)
    assert told(browser.get("session")) == {
        "tenant": "acme",
        "scopes": ["read"],
        "fleet": False,
        "key": prefix_of(key),
        "csrf": proof,
    }


def test_the_cookie_is_for_no_script_and_no_other_site(desk: Desk) -> None:
    key, _ = desk.make_key()
    answer = desk.client().post("session", {"key": f" {key} "})
    (cookie,) = answer.headers.getlist("Set-Cookie")
    assert cookie.startswith(f"{COOKIE}=")
    assert key not in cookie
    assert {"HttpOnly", "SameSite=Strict", "Path=/", f"Max-Age={int(LIFETIME.total_seconds())}"} <= set(
        cookie.split("; ")
    )
    assert "Secure" not in cookie
    over_tls = desk.client().post("session", {"key": key}, base_url="https://localhost")
    assert "; Secure" in over_tls.headers["Set-Cookie"]


@pytest.mark.parametrize("key", ["", "nonsense", "shoal_abcdefghi0_" + "x" * 43])
def test_nobody_logs_in_with_what_is_no_key(desk: Desk, key: str) -> None:
    desk.make_key()
    answer = desk.client().post("session", {"key": key})
    refused(answer, 401)
    assert "Set-Cookie" not in answer.headers


def test_a_change_needs_the_proof_that_only_our_pages_can_read(desk: Desk) -> None:
    browser, proof = _log_in(desk, desk.make_key()[0])
    _, other = _log_in(desk, desk.make_key()[0])
    refused(browser.post("jobs", SPEC), 403)
    for wrong in ("", "x", other, proof[:-1], "é"):
        refused(browser.post("jobs", SPEC, headers={PROOF: wrong}), 403)
    refused(browser.delete("session"), 403)
    told(browser.post("jobs", SPEC, headers={PROOF: proof}), 202)


def test_a_page_of_another_site_gets_nothing_by_a_browsers_cookie(desk: Desk) -> None:
    key, _ = desk.make_key()
    browser, proof = _log_in(desk, key)
    there = {"Origin": "http://evil.example", PROOF: proof}
    refused(browser.get("jobs", headers=there), 403)
    refused(browser.post("jobs", SPEC, headers=there), 403)
    refused(desk.client().post("session", {"key": key}, headers=there), 403)


def test_who_has_logged_out_is_out_at_once(desk: Desk) -> None:
    browser, proof = _log_in(desk, desk.make_key()[0])
    kept = browser.http.get_cookie(COOKIE)
    assert kept
    assert browser.ask("DELETE", "session", headers={PROOF: proof}).status_code == 204
    assert browser.http.get_cookie(COOKIE) is None
    refused(browser.get("jobs"), 401)
    refused(desk.client().get("jobs", headers={"Cookie": f"{COOKIE}={kept.value}"}), 401)


def test_who_logs_in_again_leaves_no_older_session_behind(desk: Desk) -> None:
    browser, proof = _log_in(desk, desk.make_key()[0])
    kept = browser.http.get_cookie(COOKIE)
    assert kept
    refused(browser.post("session", {"key": "nonsense"}), 401)
    told(browser.get("jobs"))
    again = told(browser.post("session", {"key": desk.make_key()[0]}))["csrf"]
    assert again != proof
    told(browser.get("jobs"))
    refused(desk.client().get("jobs", headers={"Cookie": f"{COOKIE}={kept.value}"}), 401)


def _wrong(desk: Desk, address: str, key: str = "nonsense", **headers: str) -> TestResponse:
    sent = {name.replace("_", "-"): text for name, text in headers.items()}
    return desk.client().post("session", {"key": key}, environ_overrides={"REMOTE_ADDR": address}, headers=sent)


def test_an_address_that_fails_to_log_in_has_to_wait(desk: Desk) -> None:
    key, _ = desk.make_key()
    for _ in range(MOST):
        refused(_wrong(desk, "192.0.2.1"), 401)
    answer = _wrong(desk, "192.0.2.1", key)
    problem = refused(answer, 429)
    wait = int(answer.headers["Retry-After"])
    assert 0 < wait <= WINDOW.total_seconds()
    assert problem["detail"].endswith(f"try again in {wait} s")
    assert "Set-Cookie" not in answer.headers
    told(_wrong(desk, "192.0.2.2", key))


def test_a_key_that_is_tried_from_everywhere_has_to_wait(desk: Desk) -> None:
    key, client = desk.make_key()
    other, _ = desk.make_key()
    wrong = key[:-43] + "x" * 43
    for number in range(MOST):
        refused(_wrong(desk, f"192.0.2.{number}", wrong), 401)
    refused(_wrong(desk, "192.0.2.200", wrong), 429)
    told(_wrong(desk, "192.0.2.200", other))
    told(client.get("jobs"))  # who has the key can go on without a browser


def test_who_logs_in_as_often_as_they_like_with_a_right_key_waits_for_nothing(desk: Desk) -> None:
    key, _ = desk.make_key()
    for _ in range(MOST + 5):
        told(_wrong(desk, "192.0.2.1", key))


def test_a_house_is_one_address_and_a_proxy_on_this_machine_is_none(desk: Desk) -> None:
    for number in range(MOST):
        refused(_wrong(desk, f"2001:db8::{number:x}"), 401)
    refused(_wrong(desk, "2001:db8::ffff"), 429)
    refused(_wrong(desk, "2001:db8:0:1::1"), 401)
    for _ in range(MOST):
        refused(_wrong(desk, "127.0.0.1", X_Forwarded_For="198.51.100.7, 203.0.113.5"), 401)
    refused(_wrong(desk, "127.0.0.1", X_Forwarded_For="203.0.113.5"), 429)
    refused(_wrong(desk, "127.0.0.1", X_Forwarded_For="203.0.113.6"), 401)
    for number in range(MOST):  # a stranger's word about who they are does not count
        refused(_wrong(desk, "192.0.2.9", X_Forwarded_For=f"10.0.0.{number}"), 401)
    refused(_wrong(desk, "192.0.2.9", X_Forwarded_For="10.9.9.9"), 429)


def test_failed_log_ins_are_forgotten_after_a_while(client: redis.Redis, prefix: str) -> None:
    attempts = Attempts(client, prefix)
    for _ in range(MOST):
        assert not attempts.begin("somebody")
    assert timedelta() < attempts.begin("somebody", "another") <= WINDOW
    assert client.delete(f"{prefix}:attempts:{sha256(b'somebody').hexdigest()}") == 1
    assert not attempts.begin("somebody")


def test_a_session_ends_with_its_key(each: Desk) -> None:
    key, _ = each.make_key()
    browser, _ = _log_in(each, key)
    told(browser.get("jobs"))
    KeyStore(each.platform.engine).revoke(str(prefix_of(key)), 2)
    refused(browser.get("jobs"), 401)


def test_a_made_up_cookie_opens_nothing(desk: Desk) -> None:
    key, _ = desk.make_key()
    for token in ("x", "é", str(prefix_of(key)), key, "x" * 4_000):
        refused(desk.client().get("jobs", headers={"Cookie": f"{COOKIE}={token}"}), 401)


def test_the_public_part_of_a_key_is_no_key_even_while_somebody_is_logged_in(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(auth, "REMEMBER_S", 60.0)
    key, _ = desk.make_key()
    browser, _ = _log_in(desk, key)
    told(browser.get("jobs"))
    refused(desk.get("jobs", headers={"X-API-Key": str(prefix_of(key))}), 401)


def test_an_open_api_needs_no_log_in(desk: Desk) -> None:
    assert told(desk.get("session")) == {
        "tenant": "default",
        "scopes": ["submit", "read", "admin"],
        "fleet": True,
        "key": None,
        "csrf": None,
    }


def test_the_dashboard_is_served_to_everybody_and_holds_nothing_but_itself(desk: Desk) -> None:
    desk.make_key()
    with desk.get("/") as page:
        assert page.status_code == 200
        assert page.mimetype == "text/html"
        links = page.headers["Link"]
    assert sum(len(part.body) for part in dashboard.parts().values()) < 100_000
    for name in dashboard.parts():
        assert (f"</ui/{name}>; rel=modulepreload" in links) == name.endswith(".js")
        with desk.get(f"/ui/{name}") as part:
            assert part.status_code == 200, name
            assert part.get_data() == dashboard.parts()[name].body
            policy = part.headers["Content-Security-Policy"]
        assert "script-src 'self';" in policy
        assert "unsafe" not in policy
        assert "http" not in policy
    refused(desk.get("/ui/nothing.js"), 404)
    refused(desk.get("/ui/..%2fapp.py"), 401)


def test_files_are_packed_for_who_can_unpack_them(desk: Desk) -> None:
    with desk.get("/ui/main.js") as plain, desk.get("/ui/main.js", headers={"Accept-Encoding": "gzip"}) as packed:
        assert plain.get_data() == gzip.decompress(packed.get_data())
        assert (plain.headers.get("Content-Encoding"), packed.headers["Content-Encoding"]) == (None, "gzip")
        assert plain.headers["ETag"] != packed.headers["ETag"]
        assert packed.headers["Vary"] == "Accept-Encoding"


def test_a_browser_that_has_a_file_is_not_sent_it_again(desk: Desk) -> None:
    with desk.get("/ui/main.js") as first:
        etag = first.headers["ETag"]
    with desk.get("/ui/main.js", headers={"If-None-Match": etag}) as second:
        assert (second.status_code, second.get_data()) == (304, b"")


def test_the_dashboard_never_makes_markup_of_text_and_asks_nobody_else() -> None:
    for name, part in dashboard.parts().items():
        text = part.body.decode()
        for forbidden in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "Function("):
            assert forbidden not in text, (name, forbidden)
        assert "//cdn" not in text
        assert " style=" not in text, name
