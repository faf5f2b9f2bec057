"""Two texts line by line: every script leads from one to the other, and none takes for ever."""

from __future__ import annotations

from random import Random

from shoal.changes import text_diff
from shoal.changes.text_diff import diff_of


def _applied(lines: tuple[str, ...], sign: str) -> list[str]:
    return [line[1:] for line in lines if line[0] in (" ", sign)]


def test_every_difference_leads_from_one_text_to_the_other() -> None:
    random = Random(7)
    for _ in range(500):
        before, after = ([random.choice("abcd") for _ in range(random.randint(0, 9))] for _ in range(2))
        diff = diff_of(before, after)
        shown = tuple(line for line in diff.lines if not line.startswith("@@"))
        assert diff.added - diff.removed == len(after) - len(before)
        if len(diff.lines) - len(shown) == 1 and len(_applied(shown, "-")) == len(before):
            assert (_applied(shown, "-"), _applied(shown, "+")) == (before, after)
    assert diff_of(["a"], ["a"]) == text_diff.TextDiff()


def test_changes_are_told_with_a_little_around_them() -> None:
    before = [f"line {number}" for number in range(30)]
    after = [*before[:5], "new", *before[5:20], *before[21:]]
    assert diff_of(before, after).lines == (
        *("@@ -4,4 +4,5 @@", " line 3", " line 4", "+new", " line 5", " line 6"),
        *("@@ -19,5 +20,4 @@", " line 18", " line 19", "-line 20", " line 21", " line 22"),
    )


def test_what_is_too_large_or_too_different_is_told_by_its_size() -> None:
    large = diff_of(["a"] * 6_000, ["b"])
    assert large.note.startswith("too large to be compared line by line: 6,000 lines (6,000 characters) before, 1 (1)")
    other = diff_of([f"a{number}" for number in range(900)], [f"b{number}" for number in range(900)])
    assert other.note.startswith("too different")
    assert (other.lines[0], other.lines[-1], len(other.lines)) == ("-a0", "+b49", 100)
    wide = diff_of(["x" * 2_000], ["y" * 2_000])
    assert {len(line) for line in wide.lines[1:]} == {text_diff.LINE_CHARS + 1}
    many = diff_of([], [str(number) for number in range(400)])
    assert (many.added, many.note) == (400, "")
