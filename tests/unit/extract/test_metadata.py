"""What pages say about themselves."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from shoal.core.url import Base
from shoal.extract.content import Content
from shoal.extract.metadata import NAMES, date_of
from shoal.extract.page import Html


def metadata(markup: str) -> dict[str, Any]:
    return Content({"metadata": "page"}).take(Html.parse(markup.encode(), "utf-8", Base("https://h.example/a")))[
        "metadata"
    ]


def test_a_page_that_says_nothing_has_all_names_without_a_value() -> None:
    found = metadata("<p>x")
    assert tuple(found) == NAMES
    assert {name: value for name, value in found.items() if value} == {}


def test_json_ld_is_more_exact_than_opengraph_and_that_than_plain_elements() -> None:
    found = metadata(
        """<html lang=en><title>T | Site</title><meta property="og:title" content="OG title">
        <meta property="og:description" content="OG words"><meta property="og:image" content="/i.png">
        <meta name=description content="Plain words"><meta name=keywords content="a, b,, a">
        <link rel=canonical href="/canonical"><meta property="og:site_name" content="The Site">
        <script type="application/ld+json">{"@graph": [{"@type": "WebSite", "name": "No"}, {"@type": ["BlogPosting"],
        "headline": "LD title", "author": [{"name": "A"}, {"name": "B"}], "datePublished": "2026-01-02T03:04:05Z"}]}
        </script>"""
    )
    assert found == {
        "title": "LD title", "description": "OG words", "author": "A, B", "published": "2026-01-02T03:04:05Z",
        "modified": None, "language": "en", "site_name": "The Site", "image": "https://h.example/i.png",
        "canonical": "https://h.example/canonical", "keywords": ["a", "b"], "type": "BlogPosting",
    }  # fmt: skip


@pytest.mark.parametrize(
    "script",
    [
        "{",
        "[]",
        "7",
        '"x"',
        "null",
        '{"@type": 7, "author": {"name": {"name": {"name": {"name": "x"}}}}}',
        '{"@type": []}',
    ],
)
def test_broken_json_ld_does_no_harm(script: str) -> None:
    found = metadata(f"<title>T</title><script type='application/ld+json'>{script}</script>")
    assert found["title"] == "T"


def test_half_characters_can_be_stored() -> None:
    found = metadata("""<script type='application/ld+json'>{"@type":"Article","headline":"a\\ud800b"}</script>""")
    assert orjson.dumps(found)
    assert found["title"] == "a\N{REPLACEMENT CHARACTER}b"


@pytest.mark.parametrize(
    ("text", "date"),
    [
        ("2026-03-05", "2026-03-05"),
        ("2026-03-05T10:00:00+01:00", "2026-03-05T10:00:00+01:00"),
        ("5 March 2026", "2026-03-05"),
        ("Thu, 05 Mar 2026 10:00:00 GMT", "2026-03-05T10:00:00+00:00"),
        ("March 5, 2026 10:30 PST", "2026-03-05T10:30:00"),
        ("March 2026", None),
        ("yesterday", None),
        ("", None),
        (None, None),
        ("9" * 50, None),
    ],
)
def test_times_are_iso_8601_or_nothing(text: str | None, date: str | None) -> None:
    assert date_of(text) == date
