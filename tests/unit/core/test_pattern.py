"""Patterns that could take for ever are refused, or spared the URLs on which they would; ordinary ones pass."""

from __future__ import annotations

import pytest

from shoal.core.pattern import MAX_PATTERN_CHARS, EndlessPattern, compile_pattern
from shoal.core.scope import Scope
from shoal.core.spec import read_spec
from shoal.core.url import MAX_URL_CHARS, parse
from shoal.errors import BadSpec

EVIL = [
    *(r"(a+)+$", r"(a|a)*b", r"(.*)*x", r"(\w+\s?)*$", r"([a-z]+)*!", r"(a|aa)+$", r"(a*)*", r"(?:a+){20}b"),
    *(r"^(([a-z])+.)+[A-Z]([a-z])+$", r"(x+x+)+y", r"(?:(?:ab)+c?)*d", r"(?=(a+)+$)b", r"(.|a)*$"),
]
ORDINARY = [
    *(r"/products/[0-9]+", r"\.pdf$", r"^https://h\.example/", r"[?&]page=\d{1,3}\b", r"/(en|de|fr)/", r"(foo|bar)+"),
    *(r"(?i)\.(jpe?g|png)$", r"/a/.*/b/.*\.html", r".*", r"/\d{4}/\d{2}/", r"(?<!x)y", r"(?:[a-z]{2}-){1,3}", ""),
]


@pytest.mark.parametrize("pattern", EVIL)
def test_a_pattern_that_could_take_for_ever_is_refused(pattern: str) -> None:
    with pytest.raises(EndlessPattern):
        compile_pattern(pattern)


@pytest.mark.parametrize("pattern", ORDINARY)
def test_an_ordinary_pattern_passes_and_bears_ordinary_urls(pattern: str) -> None:
    url = "https://shop.h.example/a/catalogue/2024/07/b/some-product-with-a-long-name_1234/index.html?page=2&sort=price"
    assert compile_pattern(pattern).bears(url)
    assert compile_pattern(pattern).bears(url * 2)


def test_the_message_names_the_pattern_and_the_rule() -> None:
    with pytest.raises(BadSpec, match=r"'\(a\+\)\+\$' could take for ever on some URL: a repeat within a repeat"):
        read_spec({"urls": ["http://h.example/"], "deny": ["(a+)+$"]})


def test_a_pattern_that_is_too_long_is_refused() -> None:
    assert compile_pattern("a" * MAX_PATTERN_CHARS).finds("a" * MAX_PATTERN_CHARS)
    with pytest.raises(EndlessPattern, match="longer than"):
        compile_pattern("a" * (MAX_PATTERN_CHARS + 1))


@pytest.mark.parametrize("pattern", [".*a.*b", "a.*a.*b", "a.*a.*a.*a.*b", r"[a-z]*[a-z]*[a-z]*!", "(?i)A.*A.*B"])
def test_a_url_on_which_a_pattern_would_take_too_long_is_left_out(pattern: str) -> None:
    longest = parse("http://h.example/" + "a" * (MAX_URL_CHARS - 17))
    assert Scope.of(["h.example"], deny=[pattern]).refuses(longest) == "denied"
    assert Scope.of(["h.example"], allow=[pattern]).refuses(longest) == "not_allowed"
    assert Scope.of(["h.example"], allow=[pattern, "^http:"]).refuses(longest) is None


def test_one_repeat_bears_every_url() -> None:
    longest = parse("http://h.example/" + "a" * (MAX_URL_CHARS - 17))
    assert Scope.of(["h.example"], deny=["a+b"]).refuses(longest) is None
