"""Charts of one line, for a terminal: a character for each step."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

UNKNOWN = " "
"""Nobody looked: neither zero nor a line between what stands beside it."""
ZERO = "▁"
SOME = "▂▃▄▅▆▇█"


def spark(values: Sequence[float | None]) -> str:
    """The highest value is a full block, zero is a line, and whatever is more than zero can be told from it."""
    most = max((value for value in values if value is not None), default=0.0)
    return "".join(_block(value, most) for value in values)


def _block(value: float | None, most: float) -> str:
    if value is None:
        return UNKNOWN
    return SOME[min(len(SOME), ceil(value / most * len(SOME))) - 1] if value > 0 else ZERO


def number(value: float | None) -> str:
    """Short enough for a column: <0.01, 0.04, 7.25, 31.4, 1,204."""
    if value is None:
        return "-"
    if 0 < value < 0.01:
        return "<0.01"
    if value == round(value) or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"
