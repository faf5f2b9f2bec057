from __future__ import annotations

import pytest

from shoal.core.model import Engine
from shoal.core.routes import MAX_PATTERN_CHARS, Route, decide, path_pattern
from shoal.core.url import Url

NOW = 1_700_000_000_000
HOUR_MS = 3_600_000


@pytest.mark.parametrize(
    ("target", "pattern"),
    [
        ("/", "/"),
        ("/about", "/about"),
        ("/about/", "/about/"),
        ("/shop/123/reviews", "/shop/*/reviews"),
        ("/p/red-shoes-for-men", "/p/*"),
        ("/p/red-shoes", "/p/red-shoes"),
        ("/d/0f8fad5b-d9cb-469f-a165-70867728950e", "/d/*"),
        ("/t/aGVsbG8gd29ybGQgaGVsbG8gd29ybGQ", "/t/*"),
        ("/2026/11/16/title", "/*/*/*/title"),
        ("/item-7.html", "/*.html"),
        ("/index.html", "/index.html"),
        ("/song.mp3", "/song.mp3"),
        ("/list?page=2&sort=price&page=3", "/list?page&sort"),
        ("/list?sort=price&page=2", "/list?page&sort"),
        ("/list?&", "/list"),
        ("/list?a%20b=1", "/list?*"),
    ],
)
def test_urls_that_look_alike_have_one_pattern(target: str, pattern: str) -> None:
    assert path_pattern(Url("https", "a.test", target)) == pattern


def test_a_pattern_has_a_cap_and_is_one_word() -> None:
    url = Url("https", "a.test", "/x" * 900 + "?" + "&".join(f"{name}%0A" for name in "abc"))
    assert len(path_pattern(url)) == MAX_PATTERN_CHARS
    assert " " not in path_pattern(Url("https", "a.test", "/?a+b=1&c%0Ad=2"))


@pytest.mark.parametrize(
    ("route", "engine"),
    [
        (None, None),
        (Route(), None),
        (Route(0, 1, NOW), Engine.BROWSER),
        (Route(0, 49, NOW), Engine.BROWSER),
        (Route(0, 50, NOW), None),
        (Route(0, 51, NOW), Engine.BROWSER),
        (Route(0, 7, NOW - HOUR_MS + 1), Engine.BROWSER),
        (Route(0, 7, NOW - HOUR_MS), None),
        (Route(2, 0, NOW), None),
        (Route(3, 0, NOW), Engine.HTTP),
        (Route(3, 0, NOW - 9 * HOUR_MS), Engine.HTTP),
        (Route(1, 1, NOW), None),
        (Route(90, 1, NOW), None),
        (Route(1, 90, NOW), None),
    ],
)
def test_what_pages_needed_decides_about_the_next(route: Route | None, engine: Engine | None) -> None:
    assert decide(route, NOW) is engine
