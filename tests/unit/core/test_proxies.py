"""Proxies and pools of them: what is read, what is chosen, and that no secret is ever shown."""

from __future__ import annotations

import pickle
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from shoal.core.proxies import (
    SHOWN_PROXIES,
    VARIANTS,
    Proxy,
    ProxyPool,
    Verdict,
    hide_login,
    read_proxy,
    verdict_of,
)
from shoal.core.spec import STORED, JobSpec, read_spec
from shoal.core.url import parse
from shoal.errors import BadSpec, FetchError, InputError

SECRET = "pa55word"
PAGE = parse("http://shop.example:8080/a")
OTHER = parse("https://other.example/b")


@pytest.mark.parametrize(
    ("text", "proxy"),
    [
        ("http://10.0.0.7:3128", Proxy("http", "10.0.0.7", 3128)),
        ("  HTTP://Gate.Example:8000/ ", Proxy("http", "gate.example", 8000)),
        ("http://gate.example", Proxy("http", "gate.example", 80)),
        ("https://gate.example", Proxy("https", "gate.example", 443)),
        ("socks5://gate.example", Proxy("socks5", "gate.example", 1080)),
        ("socks5h://u:p@[::1]:9", Proxy("socks5h", "::1", 9, "u", "p")),
        ("http://u:p@gate.example:1", Proxy("http", "gate.example", 1, "u", "p")),
        ("http://u@gate.example:1", Proxy("http", "gate.example", 1, "u")),
        ("http://u:@gate.example:1", Proxy("http", "gate.example", 1, "u")),
        ("http://u%40x:p%3Aq%2F@gate.example:1", Proxy("http", "gate.example", 1, "u@x", "p:q/")),
        ("http://u:p@q/r:s@gate.example:1", Proxy("http", "gate.example", 1, "u", "p@q/r:s")),
    ],
)
def test_a_proxy_is_read_from_its_url(text: str, proxy: Proxy) -> None:
    assert read_proxy(text) == proxy
    assert read_proxy(text).id == proxy.id


@pytest.mark.parametrize(
    "text",
    [
        *("", SECRET, f"u:{SECRET}@gate.example:1", f"gate.example:1:u:{SECRET}", f"ftp://u:{SECRET}@gate.example"),
        *(f"http://u:{SECRET}", f"http://u:{SECRET}@", f"http://u:{SECRET}@gate.example:0"),
        *(f"http://u:{SECRET}@gate.example:99999", f"http://u:{SECRET}@ga te.example:1"),
        *(f"http://u:{SECRET}@gate.example:1/path", f"http://u:{SECRET}@gate.example:1?q", f"http://u:{SECRET}%0a@h:1"),
        *(
            f"http://u%3A:{SECRET}@h:1",
            f"socks5://u:{SECRET}ä@h:1",
            f"socks5://:{SECRET}@h:1",
            f"socks5://{SECRET}@h:1",
        ),
        *(f"socks5://u:{SECRET * 40}@h:1", f"http://u:{SECRET}@[zz]:1"),
    ],
)
def test_what_is_no_proxy_is_refused_without_repeating_it(text: str) -> None:
    with pytest.raises(InputError) as caught:
        read_proxy(text)
    assert SECRET not in f"{caught.value} {caught.value!r} {caught.value.__cause__}"
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


@settings(max_examples=200, deadline=None, database=None)
@given(st.text(st.characters(codec="utf-8"), max_size=30))
def test_any_text_is_a_proxy_or_an_error_of_ours(text: str) -> None:
    for candidate in (text, f"http://{text}", f"http://u:{text}@h:1", f"socks5://{text}@h:1"):
        try:
            assert read_proxy(candidate).port
        except InputError as exc:
            assert "Traceback" not in str(exc)


def test_nothing_that_is_shown_of_a_proxy_has_its_secrets() -> None:
    proxy = read_proxy(f"http://someone:{SECRET}@gate.example:8000")
    assert (proxy.shown, proxy.address) == ("http://***@gate.example:8000", "http://gate.example:8000")
    for text in (repr(proxy), str(proxy), f"{proxy}", repr([proxy]), proxy.shown, proxy.address, proxy.id):
        assert SECRET not in text
        assert "someone" not in text
    assert read_proxy("http://[::1]:1").shown == "http://[::1]:1"


def test_an_id_tells_proxies_apart_by_all_that_they_have() -> None:
    parts = (
        "http://a:b@h:1",
        "https://a:b@h:1",
        "http://a:b@i:1",
        "http://a:b@h:2",
        "http://c:b@h:1",
        "http://a:c@h:1",
    )
    ids = {read_proxy(text).id for text in parts}
    assert len(ids) == len(parts)
    assert all(re.fullmatch("[0-9a-f]{12}", name) for name in ids)
    assert pickle.loads(pickle.dumps(read_proxy(parts[0]))) == read_proxy(parts[0])


# --- pools ----------------------------------------------------------------------------------------------------------


def pool(**values: Any) -> ProxyPool:
    return ProxyPool.model_validate(values)


A, B = f"http://u:{SECRET}@a.example:1", f"socks5://u:{SECRET}@b.example:2"
TEMPLATE = f"http://user-{{session}}-{{n}}:{SECRET}@gate.example:8000"


def test_a_pool_is_a_list_by_itself_too() -> None:
    spec = read_spec({"proxies": [A, B]})
    assert spec.proxies == pool(list=[A, B])
    assert read_spec({"proxies": "residential"}).proxies == "residential"
    assert read_spec({}).proxies is None


def test_a_spec_with_a_pool_survives_the_way_through_the_database() -> None:
    spec = read_spec({"proxies": {"template": TEMPLATE, "rotate": "host", "rate": "30/m", "cool_down": "2m"}})
    again = JobSpec.model_validate_json(spec.model_dump_json(), context=STORED)
    assert again == spec
    assert isinstance(again.proxies, ProxyPool)
    assert (again.proxies.requests_per_second, again.proxies.cool_down, again.proxies.requests_at_once) == (0.5, 120, 0)
    assert isinstance(spec.proxies, ProxyPool)
    assert again.proxies.digest == spec.proxies.digest


@pytest.mark.parametrize(
    ("proxies", "problem"),
    [
        ({}, "proxies: exactly one of list, file, template is needed"),
        ({"list": [A], "file": "x"}, "proxies: exactly one of list, file, template is needed"),
        ({"list": []}, "proxies.list: "),
        ({"list": [A, SECRET]}, "proxies.list: number 2: this is not a proxy: write http://user:password@host:port"),
        ({"template": A}, "proxies.template: a template has some of {session}, {host}, {n} in it"),
        ({"template": f"http://{{user}}:{SECRET}@h:1"}, "proxies.template: a template has some of"),
        ({"template": f"ftp://{{n}}:{SECRET}@h:1"}, "proxies.template: the template: this is not a proxy"),
        ({"list": [A], "rotate": SECRET}, "proxies.rotate: "),
        ({"list": [A], "parallel": 0}, "proxies.parallel: "),
        ({"list": [A], "parallel": True}, "proxies.parallel: input should be a number"),
        ({"list": [A], "rate": SECRET}, "proxies.rate: "),
        ({"list": [A], "cool_down": 0}, "proxies.cool_down: "),
        ({"list": [A], SECRET[:3]: 1}, "proxies.pa5: there is no such setting"),
        ({"list": [{"url": SECRET}]}, "proxies.list.0: input should be a valid string"),
        (A, "proxies: string should match pattern"),
        (5, "proxies: a JSON object is needed"),
    ],
)
def test_a_pool_that_cannot_be_is_refused_with_its_place_and_no_secret(proxies: object, problem: str) -> None:
    with pytest.raises(BadSpec) as caught:
        read_spec({"proxies": proxies})
    assert f"- {problem}" in str(caught.value)
    assert SECRET not in f"{caught.value} {caught.value.__cause__}"


def test_nothing_that_is_shown_of_a_pool_has_its_secrets() -> None:
    for each in (pool(list=[A, B]), pool(template=TEMPLATE)):
        spec = read_spec({"proxies": each})
        assert SECRET not in f"{each!r} {each} {each.shown()} {spec!r} {spec}"
    assert pool(list=[A, B]).shown()["list"] == ["http://***@a.example:1", "socks5://***@b.example:2"]
    assert pool(template=TEMPLATE).shown()["template"] == "http://***@gate.example:8000"
    assert pool(list=[A], parallel=3).shown() == {
        "list": ["http://***@a.example:1"],
        "rotate": "request",
        "parallel": 3,
        "cool_down": 30.0,
    }
    assert hide_login("http://a:b@c@h:1") == "http://***@h:1"


def test_a_long_list_is_shown_in_part() -> None:
    shown = pool(list=[f"http://u:{SECRET}@h{number}:1" for number in range(100)]).shown()["list"]
    assert len(shown) == SHOWN_PROXIES + 1
    assert shown[-1] == f"… and {100 - SHOWN_PROXIES} more"


def test_a_list_that_was_checked_when_it_came_is_not_checked_again() -> None:
    with pytest.raises(ValidationError):
        ProxyPool.model_validate({"list": ["nonsense"]})
    assert ProxyPool.model_validate({"list": ["nonsense"]}, context=STORED).list == ("nonsense",)


def test_the_file_of_a_pool_must_have_been_read() -> None:
    with pytest.raises(InputError, match=r"proxies\.txt were not read"):
        pool(file="proxies.txt").choose(PAGE, "job")


# --- choosing -------------------------------------------------------------------------------------------------------


def test_of_a_list_every_proxy_may_carry_a_request() -> None:
    choice = pool(list=[A, B, A]).choose(PAGE, "job")
    assert [choice.proxies[name].shown for name in choice.names] == [
        *("http://***@a.example:1", "socks5://***@b.example:2"),
    ]
    assert choice.sticky == ""


def test_what_keeps_to_one_proxy_is_the_host_or_the_job() -> None:
    by_host, by_job = pool(list=[A, B], rotate="host"), pool(list=[A, B], rotate="session")
    assert by_host.choose(PAGE, "j1").sticky == by_host.choose(PAGE, "j2").sticky
    assert by_host.choose(PAGE, "j1").sticky != by_host.choose(OTHER, "j1").sticky
    assert by_job.choose(PAGE, "j1").sticky == by_job.choose(OTHER, "j1").sticky
    assert by_job.choose(PAGE, "j1").sticky != by_job.choose(PAGE, "j2").sticky
    assert by_host.choose(PAGE, "j1").sticky != pool(list=[A], rotate="host").choose(PAGE, "j1").sticky


def test_a_template_makes_a_new_proxy_for_each_request_of_one_gate() -> None:
    made = pool(template=TEMPLATE)
    choices = [made.choose(PAGE, "job") for _ in range(50)]
    assert len({choice.names for choice in choices}) == 1
    proxies = [choice.proxies[choice.names[0]] for choice in choices]
    assert len({proxy.user for proxy in proxies}) == 50
    assert {(proxy.host, proxy.port, proxy.password) for proxy in proxies} == {("gate.example", 8000, SECRET)}
    assert all(re.fullmatch(r"user-[0-9a-f]{10}-\d+", proxy.user) for proxy in proxies)


def test_a_template_makes_the_same_few_for_a_host() -> None:
    made = pool(template=TEMPLATE, rotate="host")
    choice = made.choose(PAGE, "j1")
    assert len(choice.names) == VARIANTS
    assert {name: choice.proxies[name] for name in choice.names} == dict(made.choose(PAGE, "j2").proxies)
    assert not set(choice.names) & set(made.choose(OTHER, "j1").names)


def test_a_template_can_name_the_host() -> None:
    made = pool(template=f"http://{{host}}:{SECRET}@gate.example:1", rotate="host").choose(PAGE, "job")
    assert [proxy.user for proxy in made.proxies.values()] == ["shop.example"]


# --- verdicts -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reason", "verdict"),
    [
        (None, Verdict.OK),
        ("proxy_failed", Verdict.FAILED),
        ("proxy_refused", Verdict.REFUSED),
        ("proxy_gateway", Verdict.DOUBTFUL),
        ("http_404", Verdict.OK),
        ("http_500", Verdict.OK),
        ("http_503", Verdict.NONE),
        ("timeout_first_byte", Verdict.NONE),
        ("connection_lost", Verdict.NONE),
        ("internal_error", Verdict.NONE),
    ],
)
def test_what_a_fetch_tells_about_its_proxy(reason: str | None, verdict: Verdict) -> None:
    assert verdict_of(FetchError(reason) if reason else None) is verdict


@pytest.mark.parametrize("login", ["u:a/b", "u:a%2Fb"])
def test_a_slash_in_a_password_is_part_of_it(login: str) -> None:
    proxy = read_proxy(f"http://{login}@h.example:1")
    assert (proxy.user, proxy.password, proxy.host, proxy.port) == ("u", "a/b", "h.example", 1)


@pytest.mark.parametrize("text", [f"http://u:{SECRET}/x@h:1/path", f"http://u:{SECRET}/x@", f"u://u:{SECRET}/x@h:1"])
def test_what_may_end_a_password_too_early_is_named_without_it(text: str) -> None:
    with pytest.raises(InputError, match=r"percent-encode / as %2F$") as caught:
        read_proxy(text)
    assert SECRET not in str(caught.value)
