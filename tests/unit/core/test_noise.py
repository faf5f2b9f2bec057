"""What counts as a change, and what does not."""

from __future__ import annotations

import pytest

from shoal.core.noise import Noise, digest_of_bytes, digest_of_lines, is_current, unpack_noise
from shoal.core.spec import read_spec
from shoal.errors import BadSpec

URLS = {"urls": ["https://books.example/"]}


def test_where_lines_end_does_not_count() -> None:
    assert digest_of_lines(["a b", "c"]) == digest_of_lines(["a", "b c"]) != digest_of_lines(["a", "bc"])
    assert is_current(digest_of_bytes(b"x"))
    assert not is_current(None)
    assert not is_current(digest_of_bytes(b"x") ^ 1)


def test_invisible_characters_and_ways_of_writing_do_not_count() -> None:
    assert Noise().clean(["cafe\u0301  sto\u00adne", "", "\ufeff"]) == Noise().clean(["café stone"])


def test_rules_are_the_same_after_a_way_through_text() -> None:
    rules = Noise((".ad", "#x"), dates=False, main=True)
    assert unpack_noise(rules.pack()) == rules
    assert rules.selector == ".ad, #x"


def test_a_job_says_what_is_noise() -> None:
    assert read_spec(URLS).noise == ""
    assert read_spec({**URLS, "changes": False}).noise == ""
    assert unpack_noise(read_spec({**URLS, "changes": True}).noise) == Noise()
    given = {"ignore": ".ad", "ignore_dates": False, "content": "main"}
    assert unpack_noise(read_spec({**URLS, "changes": given}).noise) == Noise((".ad",), dates=False, main=True)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"ignore": ["p["]}, "not a CSS selector that can be parsed; for example .advert"),
        ({"content": "all"}, "changes.content"),
        ({"key": "sku"}, "the job has no field 'sku': it takes price, title"),
        ({"ignore_fields": ["views"]}, "the job has no field 'views'"),
        ({"key": "title", "ignore_fields": ["title"]}, "cannot be left out"),
        ({"ignored": []}, "did you mean 'ignore'?"),
        ("on", "write true, or settings"),
    ],
)
def test_rules_that_cannot_be_used_are_refused_with_the_reason(given: object, said: str) -> None:
    with pytest.raises(BadSpec) as refusal:
        read_spec({**URLS, "fields": {"title": "h1", "price": ".p"}, "changes": given})
    assert said in str(refusal.value)


def test_a_key_needs_items() -> None:
    with pytest.raises(BadSpec, match="it takes no items"):
        read_spec({**URLS, "changes": {"key": "sku"}})
