from __future__ import annotations

from itertools import islice

import pytest

from shoal.core.template import MAX_EXPANDED, count, count_all, expand
from shoal.errors import BadUrl

X = "https://x.example/"


@pytest.mark.parametrize(
    ("text", "urls"),
    [
        (X, [X]),
        (X + "p{1..3}", [X + "p1", X + "p2", X + "p3"]),
        (X + "{3..1}", [X + "3", X + "2", X + "1"]),
        (X + "{008..010}.html", [X + "008.html", X + "009.html", X + "010.html"]),
        (X + "?at={0..25..10}", [X + "?at=0", X + "?at=10", X + "?at=20"]),
        (X + "{-1..1}", [X + "-1", X + "0", X + "1"]),
        (X + "{de,fr}/", [X + "de/", X + "fr/"]),
        (X + "a{,-b}", [X + "a", X + "a-b"]),
        ("https://{a,b}.example/{1..2}", [f"https://{h}.example/{n}" for h in "ab" for n in (1, 2)]),
        (X + "{id}?q={}", [X + "{id}?q={}"]),
        (X + '?q={"a":1,"b":2}', [X + '?q={"a":1,"b":2}']),
        (X + "%7B1..3%7D", [X + "%7B1..3%7D"]),
        (X + "{{1..2}}", [X + "{1}", X + "{2}"]),
    ],
)
def test_a_template_stands_for_its_urls(text: str, urls: list[str]) -> None:
    assert list(expand(text)) == urls
    assert count(text) == len(urls)


@pytest.mark.parametrize(
    ("inner", "said"), [("{1..}", "no range"), ("{1..x}", "no range"), ("{a..e}", "no range"), ("{1..9..0}", "steps")]
)
def test_a_range_that_is_none_is_refused_with_the_forms_there_are(inner: str, said: str) -> None:
    with pytest.raises(BadUrl, match=said) as caught:
        expand(X + inner)
    assert "{1..50}" in str(caught.value)


def test_too_many_urls_are_refused_before_one_is_made() -> None:
    with pytest.raises(BadUrl, match=f"stands for 2000000 URLs; at most {MAX_EXPANDED}"):
        expand(X + "{1..2}/{1..1000000}")
    with pytest.raises(BadUrl, match="stands for"):
        count(X + "{1..999999999999}")


def test_a_long_range_is_not_written_out() -> None:
    assert list(islice(expand(X + "{1..1000000}"), 2)) == [X + "1", X + "2"]


def test_texts_are_counted_together() -> None:
    assert count_all([X, X + "{1..10}", X + "{1..}"]) == 12
