"""What nobody is shown, and what no terminal obeys."""

from __future__ import annotations

import base64
from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from shoal.core.redact import (
    encodable,
    visible,
    without_bare_login,
    without_login,
    without_parameters,
    without_secrets,
)
from shoal.core.spec import read_spec
from shoal.errors import BadSpec

NAMES = ("key", "api-key", "apiKey", "code", "session", "PHPSESSID", "jwt", "sid", "X-Auth-Token", "auth_token", "pwd")
MORE_NAMES = (
    *("pass", "pw", "passwort", "ticket", "pin", "oauth_verifier", "AWSAccessKeyId", "user_pass", "p%61ssword"),
    *("api%5Fkey", "%70ass", "p%2561ssword", "secret[]", "secret%5B%5D", "tokens[0][token]", "password[12]"),
)
PLANTED = "c4nary"
NOISE = st.text(st.characters(codec=None), max_size=40) | st.text("token=:\"'\\&{[ \n@/%3D-.Basic", max_size=40)
PLACES = st.sampled_from(
    [
        *("https://u:{}@h/", "https://h/?a=b&{name}={}&c=d", "https://h/#{name}={}", "?to=%3F{name}%3D{}"),
        *("\nAuthorization: {}", "\nX-{name}-Token: {}\r\n", "\nCookie: a=b; c={}", "shoal_abcd1234_{0}{0}{0}{0}{0}"),
        *('{{"{name}": "{}"}}', '{{"{name}":"x\\"{}"}}', "{{'{name}': '{}'}}", '{{\\"{name}\\": \\"{}\\"}}'),
    ]
)


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
        *(f"https://h/?x=1&{name}=c4nary&y=2" for name in NAMES),
        *(f"https://h/login?next=%2Fa%3F{name}%3Dc4nary" for name in NAMES),
        *(f'said {{"a": 1, "{name}": "c4nary", "b": 2}}' for name in NAMES),
        *(f"https://h/?x=1&{name}=c4nary&y=2" for name in MORE_NAMES),
        *(f"https://h/login?next=%2Fa%3F{name}%3Dc4nary" for name in MORE_NAMES if "%25" not in name),
        "https://h/login?next=%252Fa%253Fkey%253Dc4nary",
        "https://h/?u=http%3A%2F%2Fu%3Ac4nary%40x/",
        "https://h/?u=http%3a%2f%2fc4nary%40x%2Fy%40z&v=1",
        "https://h/?u=http%253A%252F%252Fu%253Ac4nary%2540x/",
        "https://h/;jsessionid=c4nary?x=1",
        "https://h/?user[password]=c4nary&user%5Bpassword%5D=c4nary",
        "X-Auth-Token: c4nary",
        "GET / HTTP/1.1\r\nPRIVATE-TOKEN: c4nary\r\nHost: h",
        "Ocp-Apim-Subscription-Key: c4nary c4nary",
        '{"accessToken":"a\\"c4nary"}',
        r'body "{\"client_secret\": \"c4nary\", \"x\": 1}"',
        "{'password': [\n'c4nary'\n]}",
        "password = 'c4nary c4nary'",
        '{pin: 1, password: "c4nary"}',
        "sent Basic YWJjOmRlZgc4nary to it",
        'token="open, "password": "c4nary"',
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
        "not valid:\n  - headers.Authorization: input should be a string\n  - headers.X-Api-Key: too long",
        "  - fields.password: 'a[' is not a selector",
        "key: what is meant by this?",
        "got HTTP status_code=404, primary_key=7, routing_key='http.high', max_tokens=5",
        "basic authentication. Bearer tokens, BASIC AUTHENTICATION",
        "",
    ],
)
def test_other_text_stays_as_it_is(text: str) -> None:
    assert without_secrets(text) == text


def test_secrets_that_are_known_are_hidden_wherever_they_stand() -> None:
    assert without_secrets("Not Found: c4nary, says c4nary", ["c4nary"]) == "Not Found: ***, says ***"


def test_who_made_a_mistake_in_a_secret_header_is_told_which() -> None:
    with pytest.raises(BadSpec) as told:
        read_spec({"urls": ["http://h/"], "headers": {"Authorization": ["c4nary"], "X-Api-Key": {"c4nary": 1}}})
    shown = without_secrets(str(told.value))
    assert "headers.Authorization: input should be a valid string" in shown
    assert "headers.X-Api-Key: input should be a valid string" in shown
    assert "c4nary" not in shown


def test_a_login_that_is_known_is_hidden_as_it_was_packed_and_unpacked() -> None:
    packed = base64.b64encode(b"user:c4nary pass").decode()
    text = f"no {packed}, no user:c4nary pass, no 'c4nary pass'"
    assert without_secrets(text, [f"Basic {packed}"]) == "no ***, no ***, no '***'"
    assert without_secrets("Basic is well known", ["Basic !!!!", "", "Basic"]) == "*** is well known"


@given(NOISE, PLACES, st.sampled_from(NAMES), NOISE)
def test_no_planted_secret_is_left_whatever_stands_around_it(before: str, place: str, name: str, after: str) -> None:
    text = f"{before} {place.format(PLANTED, name=name)} {after}"
    assert PLANTED not in without_secrets(text)
    assert PLANTED not in without_bare_login(text)


@given(st.lists(NOISE | PLACES | st.sampled_from(NAMES)).map("".join))
@example("AUTHORIZATION:KEY='\n'")
def test_what_has_no_secrets_any_more_stays_as_it_is(text: str) -> None:
    shown = without_secrets(text)
    assert without_secrets(shown) == shown
    for clean in (without_bare_login, without_login, without_parameters):
        assert clean(clean(text)) == clean(text)


@pytest.mark.parametrize(
    "unit",
    [
        *(
            "://a:b",
            "(a:",
            "cookie:",
            'token="',
            "token=\\'",
            "\\",
            " ",
            "=",
            "a.",
            "@",
            "%26",
            "token",
            "token=",
            "bearer ",
        ),
        *(
            "Basic aaaaaaaa",
            '"password": [',
            "shoal_abcd1234_",
            "[parameters: ",
            "DETAIL: ",
            "DETAIL:" + " " * 9,
            "a:@!",
        ),
    ],
)
@pytest.mark.parametrize("clean", [without_secrets, without_bare_login, without_login])
def test_long_texts_take_long_only_as_they_are_long(unit: str, clean: Callable[[str], str]) -> None:
    """Anything but linear would take minutes, if not hours."""
    assert clean("@ " + unit * (300_000 // len(unit)))


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
