"""When two texts say the same."""

from __future__ import annotations

import random
import time

import pytest

from shoal.core.likeness import MIN_WORDS, Likeness, likeness_of
from shoal.core.spec import read_spec
from shoal.errors import BadSpec

WORDS = [f"word{number}" for number in range(3_000)]
TEXT = " ".join(random.Random(1).choices(WORDS, k=600))


def known(text: str) -> Likeness:
    found = likeness_of(text)
    assert found is not None
    return found


def apart(one: str, other: str) -> int:
    return ((known(one).simhash ^ known(other).simhash) & (2**64 - 1)).bit_count()


def test_the_same_words_are_the_same_whatever_stands_between_them() -> None:
    assert known(TEXT) == known("  " + TEXT.upper().replace(" ", ",\n") + "!")


def test_a_text_with_some_other_words_is_near_and_another_one_far() -> None:
    edited = TEXT.replace(" ", " again ", 2)
    assert known(edited).content != known(TEXT).content
    assert apart(TEXT, edited) <= 3
    assert apart(TEXT, " ".join(random.Random(2).choices(WORDS, k=600))) > 15


def test_texts_without_blanks_between_words_are_compared_too() -> None:
    text = "山の図書館が四月から土曜日と日曜日だけ開館することになった。" * 3
    assert apart(text, text + "町が発表した。") < 25
    assert likeness_of("山の図書館") is None


def test_short_texts_are_not_compared() -> None:
    assert likeness_of("x " * (MIN_WORDS - 1)) is None
    assert likeness_of("") is None


def test_hashes_fit_into_a_column_and_long_texts_take_no_longer_than_some() -> None:
    started = time.process_time()
    for seed in range(20):
        found = known(" ".join(random.Random(seed).choices(WORDS, k=50 if seed else 500_000)))
        assert all(-(2**63) <= value < 2**63 for value in (found.content, found.simhash))
    assert time.process_time() - started < 5


@pytest.mark.parametrize(
    ("given", "values"),
    [
        ("mark", (3, True, True)),
        ("skip", (3, False, True)),
        ({"distance": 0, "items": False}, (0, True, False)),
        ({}, (3, True, True)),
    ],
)
def test_a_job_says_what_becomes_of_duplicates(given: object, values: tuple[int, bool, bool]) -> None:
    asked = read_spec({"urls": ["https://h.example/"], "duplicates": given}).duplicates
    assert asked is not None
    assert (asked.distance, asked.follow, asked.items) == values


@pytest.mark.parametrize("given", ["drop", 3, {"distance": 8}, {"distance": -1}, {"near": 1}])
def test_anything_else_is_refused(given: object) -> None:
    with pytest.raises(BadSpec, match="duplicates"):
        read_spec({"urls": ["https://h.example/"], "duplicates": given})


def test_a_word_that_duplicates_does_not_know_is_answered_with_those_that_it_does() -> None:
    with pytest.raises(BadSpec, match="duplicates: there is no 'near': write mark, skip, or settings such as"):
        read_spec({"urls": ["https://h.example/"], "duplicates": "near"})
