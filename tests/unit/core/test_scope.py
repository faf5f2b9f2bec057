"""Which links belong to a job, and which rule keeps the others out."""

from __future__ import annotations

import pytest

from shoal.core.scope import Scope
from shoal.core.url import parse


@pytest.mark.parametrize(
    ("hosts", "url", "reason"),
    [
        (["a.example"], "http://a.example/", None),
        (["a.example"], "https://a.example/", None),
        (["a.example"], "https://a.example:443/", None),
        (["a.example"], "http://www.a.example/", None),
        (["www.a.example"], "http://a.example/", None),
        (["www.a.example"], "https://www.a.example/", None),
        (["a.example"], "http://b.example/", "other_host"),
        (["a.example"], "http://sub.a.example/", "other_host"),
        (["a.example"], "http://www.www.a.example/", "other_host"),
        (["a.example"], "http://nota.example/", "other_host"),
        (["a.example"], "http://a.example.evil.example/", "other_host"),
        (["a.example"], "http://a.example:8080/", "other_host"),
        (["a.example:8080"], "http://a.example/", "other_host"),
        (["a.example:8080"], "http://www.a.example:8080/", None),
        (["a.example", "b.example"], "http://b.example/", None),
        (["[::1]:8080"], "http://[0::1]:8080/", None),
        ([], "http://anything.example/", None),
    ],
)
def test_a_host_is_inside_with_or_without_www(hosts: list[str], url: str, reason: str | None) -> None:
    assert Scope.of(hosts).refuses(parse(url)) == reason


@pytest.mark.parametrize("host", ["A.Example", "WWW.A.EXAMPLE"])
def test_hosts_of_a_job_may_be_written_in_upper_case(host: str) -> None:
    assert Scope.of([host]).refuses(parse("http://a.example/")) is None


@pytest.mark.parametrize(
    ("allow", "deny", "target", "reason"),
    [
        ([], [], "/anything", None),
        (["/books/"], [], "/books/1", None),
        (["/books/"], [], "/toys/1", "not_allowed"),
        (["/books/", "/toys/"], [], "/toys/1", None),
        ([], ["/private"], "/private/1", "denied"),
        ([], ["/private", "secret"], "/open?secret=1", "denied"),
        ([], ["/private"], "/open", None),
        (["/books/"], ["/books/old"], "/books/old/1", "denied"),
        (["/books/"], ["/books/old"], "/books/new/1", None),
        (["^https?://a\\.example/$"], [], "/", None),
        (["^/books"], [], "/books", "not_allowed"),
        (["\\?page=\\d+$"], [], "/list?page=2", None),
        (["\\?page=\\d+$"], [], "/list?page=2&x", "not_allowed"),
        (["(?i)BOOKS"], [], "/books", None),
        (["BOOKS"], [], "/books", "not_allowed"),
        (["%C3%A9"], [], "/é", None),
        (["^http://a"], ["."], "/", "denied"),
    ],
)
def test_deny_goes_before_allow_and_patterns_see_the_whole_canonical_url(
    allow: list[str], deny: list[str], target: str, reason: str | None
) -> None:
    assert Scope.of(["a.example"], allow, deny).refuses(parse("http://a.example" + target)) == reason


def test_another_host_is_named_before_any_pattern() -> None:
    scope = Scope.of(["a.example"], allow=["nothing"], deny=["."])
    assert scope.refuses(parse("http://b.example/")) == "other_host"
