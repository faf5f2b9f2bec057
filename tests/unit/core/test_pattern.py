"""A pattern finds what it says, and no URL keeps it busy."""

from __future__ import annotations

import pytest

from shoal.core.pattern import MAX_PATTERN_CHARS, BadPattern, compile_pattern

EVIL = {
    r"(a+)+$": "a" * 1_990 + "!",
    r"(a|a)*b": "a" * 1_990,
    r"(.*)*x": "a" * 1_990,
    r"(\w+\s?)*$": "a" * 1_990 + "!",
    r"(?:/[a-z]+)*/end$": "/a" * 995,
    r".*a.*a.*a.*a.*a.*a.*b": "a" * 1_990,
    r"([a-z]+)*[0-9]": "a" * 1_990,
}


@pytest.mark.parametrize(("pattern", "url"), EVIL.items())
def test_what_would_keep_another_engine_busy_for_years_is_done_at_once(pattern: str, url: str) -> None:
    compile_pattern(pattern).search(url)  # the test's time limit is what it fails by


@pytest.mark.parametrize(
    ("pattern", "url", "found"),
    [
        (r"/book/\d+$", "https://books.example/book/12", True),
        (r"/book/\d+$", "https://books.example/book/12/x", False),
        (r"(?i)\.PDF($|\?)", "https://books.example/a.pdf?x", True),
        (r"[?&]page=[2-9]", "https://books.example/?a=1&page=3", True),
        (r"^https://books\.example/(?:en|de)/", "https://books.example/fr/", False),
        (r"(?P<year>20\d\d)", "https://books.example/2026/", True),
        (r"ü", "https://books.example/%C3%BC", False),
    ],
)
def test_a_pattern_finds_what_it_says(pattern: str, url: str, found: bool) -> None:
    assert (compile_pattern(pattern).search(url) is not None) is found


@pytest.mark.parametrize(
    "pattern",
    [
        "[",
        "(",
        "a**",
        r"(?=a)",
        r"(a)\1",
        r"a\Z",
        "a{5000}",
        r"(?:[ab]{1,50}a){10}[ab]*z1",
        "x" * (MAX_PATTERN_CHARS + 1),
    ],
)
def test_what_cannot_be_used_says_why_and_nothing_else_is_written(
    pattern: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(BadPattern) as caught:
        compile_pattern(pattern)
    assert str(caught.value)
    assert capfd.readouterr() == ("", "")


def test_who_is_used_to_lookarounds_is_told() -> None:
    with pytest.raises(BadPattern) as caught:
        compile_pattern("(?!x)y")
    assert str(caught.value).count("(?!") == 1
    assert str(caught.value).count("lookaround") == 1
    assert "`deny`" in str(caught.value)


@pytest.mark.parametrize(("pattern", "word"), [(r"(a)\1", r"\1 is a back reference"), (r"a\Z", r"RE2 writes it \z")])
def test_what_re2_does_not_know_is_named_and_nothing_besides(pattern: str, word: str) -> None:
    with pytest.raises(BadPattern) as caught:
        compile_pattern(pattern)
    assert word in str(caught.value)
    assert "lookaround" not in str(caught.value)
