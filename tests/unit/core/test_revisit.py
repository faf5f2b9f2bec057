"""How often pages are visited again, as people write it."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.core.manner import manner_of, reading_of
from shoal.core.revisit import LONGEST_S, SHORTEST_S, Revisiting
from shoal.core.spec import JobSpec, read_spec
from shoal.errors import BadSpec


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (True, Revisiting()),
        ("true", Revisiting()),
        (False, None),
        (None, None),
        ("1h..30d", Revisiting(min=3600, max=30 * 86400)),
        ("1.5h..2d", Revisiting(min=5400, max=2 * 86400)),
        (" 90s .. 2h ", Revisiting(min=90, max=7200)),
        ({"max": "7d"}, Revisiting(min=SHORTEST_S, max=7 * 86400)),
        ({}, Revisiting(min=SHORTEST_S, max=LONGEST_S)),
    ],
)
def test_a_span_is_written_in_several_ways(written: Any, meant: Revisiting | None) -> None:
    spec = read_spec({"urls": ["http://a.example/"], "revisit": written})
    assert spec.revisit == meant
    stored = spec.model_dump(mode="json", exclude_defaults=True)
    assert JobSpec.model_validate(stored).revisit == meant


@pytest.mark.parametrize(
    ("written", "place"),
    [
        ("often", "revisit"),
        ("2h..1h", "revisit.max"),
        ({"min": "60d"}, "revisit.max"),
        ({"min": 0}, "revisit.min"),
        ({"least": "1h"}, "revisit.least"),
        ("1h..", "revisit"),
        (5, "revisit"),
    ],
)
def test_what_is_no_span_is_refused_with_its_place(written: Any, place: str) -> None:
    with pytest.raises(BadSpec, match=rf"- {place}: "):
        read_spec({"urls": ["http://a.example/"], "revisit": written})


def test_manners_differ_by_what_hosts_can_see_and_by_secrets() -> None:
    def manner(**settings: Any) -> str:
        return manner_of(JobSpec.model_validate({"urls": ["http://a.example/"], **settings}))

    plain = manner()
    same = manner(name="x", fields={"title": "h1"}, rate=1, depth=3, previous="abc", max_age="1d", retries=9)
    assert same == plain
    others = [
        manner(headers={"Accept-Language": "de"}),
        manner(headers={"Authorization": "Bearer one"}),
        manner(headers={"Authorization": "Bearer two"}),
        manner(engine="browser"),
        manner(engine="browser", browser={"wait": "idle"}),
        manner(proxies={"list": ["http://p.example:8080"]}),
    ]
    assert len({plain, *others}) == len(others) + 1
    assert manner(headers={"accept-language": "de"}) == others[0]


def test_readings_differ_by_what_is_made_of_the_same_bytes() -> None:
    def reading(**settings: Any) -> str:
        return reading_of(JobSpec.model_validate({"urls": ["http://a.example/"], **settings}))

    assert reading(rate=1, depth=3, allow=["x"], headers={"A": "b"}) == reading()
    others = [reading(fields={"a": "h1"}), reading(nofollow=True), reading(next="a.next"), reading(duplicates="mark")]
    assert len({reading(), *others}) == len(others) + 1
