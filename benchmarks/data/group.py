"""The benchmarks of this group."""

from benchmarks.data import export
from benchmarks.group import Measure

BENCHMARKS: dict[str, Measure] = {"export": export.measure}
