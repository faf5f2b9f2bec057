"""The benchmarks of this group."""

from benchmarks.browser import rendering
from benchmarks.group import Measure

BENCHMARKS: dict[str, Measure] = {"rendering": rendering.measure}
