"""The difference of two texts, line by line, in bounded time whatever the texts are.

Myers' greedy algorithm finds the shortest script of insertions and deletions in time that grows with the lines times
the differences. Beyond a number of differences nobody reads them one by one: it is told how much there is instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from shoal.core.frozen import frozen

MOST_LINES = 5_000
"""Of each text."""
MOST_STEPS = 500
"""Lines that are added or removed; the time that it takes grows with their square."""
MOST_TOLD = 1_000
"""Lines of a difference that are told."""
LINE_CHARS = 500
"""Of one of them."""
SAMPLE = 50
"""Lines that are told of each text where the two cannot be compared."""
CONTEXT = 2
"""Lines before and behind each change."""

Step = tuple[str, int, int]
"""A sign (` `, `-`, `+`), the place in the text before, the place in the text after."""


@frozen
class TextDiff:
    """What was added and removed."""

    lines: tuple[str, ...] = ()
    """As in a unified diff: `@@` before each part; a blank, `-` or `+` before each line."""
    added: int = 0
    removed: int = 0
    note: str = ""
    """Why it is not complete, if it is not."""

    @property
    def as_json(self) -> dict[str, Any]:
        """For programs."""
        return {"lines": list(self.lines), "added": self.added, "removed": self.removed, "note": self.note}

    @property
    def text(self) -> str:
        return "\n".join((*self.lines, *((self.note,) if self.note else ())))


def diff_of(before: Sequence[str], after: Sequence[str]) -> TextDiff:
    """What has to be done to one text to get the other."""
    if max(len(before), len(after)) > MOST_LINES:
        return _not_compared(before, after, "too large")
    head = _common(before, after)
    tail = _common(before[head:][::-1], after[head:][::-1])
    old, new = before[head : len(before) - tail], after[head : len(after) - tail]
    script = _script(old, new)
    if script is None:
        return _not_compared(old, new, "too different")
    steps: list[Step] = [(" ", place, place) for place in range(head)]
    steps += [(sign, a + head, b + head) for sign, a, b in script]
    ends = zip(range(len(before) - tail, len(before)), range(len(after) - tail, len(after)), strict=True)
    steps += [(" ", a, b) for a, b in ends]
    lines = list(_unified(before, after, steps))
    note = f"… and {len(lines) - MOST_TOLD} more lines" if len(lines) > MOST_TOLD else ""
    sums = [sum(step[0] == sign for step in script) for sign in "+-"]
    return TextDiff(tuple(lines[:MOST_TOLD]), sums[0], sums[1], note)


def _not_compared(before: Sequence[str], after: Sequence[str], why: str) -> TextDiff:
    """How much there is, and the beginning of both."""
    chars = [sum(map(len, side)) for side in (before, after)]
    sizes = f"{len(before):,} lines ({chars[0]:,} characters) before, {len(after):,} ({chars[1]:,}) now"
    told = [sign + _short(line) for sign, side in (("-", before), ("+", after)) for line in side[:SAMPLE]]
    return TextDiff(tuple(told), len(after), len(before), f"{why} to be compared line by line: {sizes}")


def _common(before: Sequence[str], after: Sequence[str]) -> int:
    """How many lines are the same at the beginning."""
    count = 0
    for old, new in zip(before, after, strict=False):
        if old != new:
            break
        count += 1
    return count


def _script(before: Sequence[str], after: Sequence[str]) -> list[Step] | None:
    """The shortest way from one to the other; None when it is too long."""
    farthest, trail = {1: 0}, list[dict[int, int]]()
    for cost in range(min(MOST_STEPS, len(before) + len(after)) + 1):
        trail.append(dict(farthest))
        for diagonal in range(-cost, cost + 1, 2):
            a = _start(farthest, diagonal, cost)
            b = a - diagonal
            while a < len(before) and b < len(after) and before[a] == after[b]:
                a, b = a + 1, b + 1
            farthest[diagonal] = a
            if a >= len(before) and b >= len(after):
                return _walked_back(trail, len(before), len(after))
    return None


def _start(farthest: dict[int, int], diagonal: int, cost: int) -> int:
    """Where a diagonal begins: behind an insertion or a deletion."""
    return farthest[diagonal + 1] if _inserts(farthest, diagonal, cost) else farthest[diagonal - 1] + 1


def _inserts(farthest: dict[int, int], diagonal: int, cost: int) -> bool:
    """Which of the two has come farther?"""
    return diagonal == -cost or (diagonal != cost and farthest[diagonal - 1] < farthest[diagonal + 1])


def _walked_back(trail: list[dict[int, int]], a: int, b: int) -> list[Step]:
    """The script from its end: each step as far back along the diagonal as it had come."""
    steps: list[Step] = []
    for cost in range(len(trail) - 1, -1, -1):
        farthest, diagonal = trail[cost], a - b
        inserts = _inserts(farthest, diagonal, cost)
        came_from = diagonal + 1 if inserts else diagonal - 1
        old_a = farthest[came_from]
        old_b = old_a - came_from
        while a > old_a and b > old_b:
            a, b = a - 1, b - 1
            steps.append((" ", a, b))
        if cost:
            steps.append(("+" if inserts else "-", old_a, old_b))
            a, b = old_a, old_b
    return steps[::-1]


def _unified(before: Sequence[str], after: Sequence[str], steps: Sequence[Step]) -> Iterator[str]:
    """The changes with a few lines around each."""
    for first, last in _parts(steps):
        part = steps[first:last]
        removed, added = (sum(step[0] != sign for step in part) for sign in "+-")
        yield f"@@ -{part[0][1] + 1},{removed} +{part[0][2] + 1},{added} @@"
        for sign, a, b in part:
            line = after[b] if sign == "+" else before[a]
            yield sign + _short(line)


def _short(line: str) -> str:
    return line if len(line) <= LINE_CHARS else line[: LINE_CHARS - 1] + "…"


def _parts(steps: Sequence[Step]) -> Iterator[tuple[int, int]]:
    """Stretches of the script around its changes; those that touch are one."""
    first = last = -1
    for place, (sign, _, _) in enumerate(steps):
        if sign == " ":
            continue
        if first >= 0 and place - CONTEXT > last:
            yield first, last
            first = -1
        first = max(0, place - CONTEXT) if first < 0 else first
        last = min(len(steps), place + CONTEXT + 1)
    if first >= 0:
        yield first, last
