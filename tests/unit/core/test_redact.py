"""What nobody is shown, and what no terminal obeys."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.core.redact import encodable, visible, without_bare_login, without_login, without_secrets


@pytest.mark.parametrize(
    "text",
    [
        "cannot reach redis://:c4nary@h:6379/0: refused",
        "http://u:c4nary@h/",
        "http://c4nary@h/",
        "http://u:c4n@ry:c4nary@h/",
        "http://u:pa/c4nary@h/",
        "http://u:1234c4nary/x@h/",
        "socks5://u:pa?c4nary#x@h:1",
        "https://h/?access_token=c4nary&x=1",
        "https://h/?x=1&API_KEY=c4nary",
        "postgresql://u@h/db?password=c4nary",
        "Authorization: Bearer c4nary",
        "{'Authorization': 'c4nary'}",
        "cookie=c4nary; other=c4nary",
        "Set-Cookie: a=c4nary",
        "sent Basic dXNlcjpjNG5hcnk= to it".replace("dXNlcjpjNG5hcnk=", "c4nary0="),
        "key shoal_abcdefghi0_c4naryc4naryc4naryc4nary",
        'null value\nDETAIL:  Failing row contains (1, {"headers": "c4nary"}).',
        "[SQL: INSERT INTO jobs]\n[parameters: ('c4nary',)]",
    ],
)
def test_what_looks_like_a_secret_is_hidden(text: str) -> None:
    shown = without_secrets(text)
    assert "c4nary" not in shown
    assert "***" in shown


@pytest.mark.parametrize(
    "text",
    [
        "https://h/@user/page",
        "https://h:8080/a@b",
        "https://[::1]:8080/a@b",
        "mail me@h.example",
        "basic knowledge of HTTP",
        "write http://user:password@host:port",
        "https://h/?page=2&sort=price",
        "cookies are fine",
        "",
    ],
)
def test_other_text_stays_as_it_is(text: str) -> None:
    assert without_secrets(text) == text


def test_secrets_that_are_known_are_hidden_wherever_they_stand() -> None:
    assert without_secrets("Not Found: c4nary, says c4nary", ["c4nary"]) == "Not Found: ***, says ***"


@pytest.mark.parametrize("url", ["redis://:p/c4nary@h", "c4nary://u:x@h?y@c4nary@h", "//c4nary@h?password=c4nary"])
def test_the_url_of_a_server_is_shown_without_whatever_may_be_its_login(url: str) -> None:
    assert without_login(url).count("c4nary") == url.startswith("c4nary")


def test_a_login_needs_no_scheme() -> None:
    assert without_bare_login("['user:c4nary@shop.example']") == "['***@shop.example']"


@given(st.text(st.characters(codec=None)))
def test_whatever_is_shown_is_one_line_of_characters_that_can_be_seen(text: str) -> None:
    shown = visible(text)
    assert len(shown.splitlines()) <= 1
    assert not any(char < " " or "\x7f" <= char <= "\x9f" for char in shown)
    assert visible(shown) == shown
    shown.encode()


def test_controls_are_spelled_out_and_lines_stay_where_they_may() -> None:
    assert visible("a\r\nb\x1b[31m\u202e\u2028\ud800é\t") == r"a\r\nb\x1b[31m\u202e\u2028\ud800é\t"
    assert visible("a\r\nb\tc\x1b", lines=True) == "a\\r\nb\tc\\x1b"


@given(st.text(st.characters(codec=None)))
def test_any_text_can_be_made_encodable(text: str) -> None:
    assert len(encodable(text).encode().decode()) == len(text)
