"""How long many requests took."""

import math
from collections.abc import Iterable
from statistics import median


class Spread:
    """Seconds, in order of size. A percentile is a value that was measured: the smallest that so many keep."""

    def __init__(self, seconds: Iterable[float]) -> None:
        self._sorted = sorted(seconds)

    def __len__(self) -> int:
        return len(self._sorted)

    @property
    def median(self) -> float:
        return median(self._sorted)

    @property
    def max(self) -> float:
        return self._sorted[-1]

    def percentile(self, percent: float) -> float:
        return self._sorted[math.ceil(len(self._sorted) * percent / 100) - 1]

    def describe(self, *percents: int) -> str:
        """`p50 12.3 ms, …, max 45.6 ms, of 300`"""
        parts = [f"p{percent} {self.percentile(percent) * 1000:.1f} ms" for percent in percents]
        return ", ".join([*parts, f"max {self.max * 1000:.1f} ms", f"of {len(self)}"])
