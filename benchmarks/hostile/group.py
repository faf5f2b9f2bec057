"""The benchmarks of this group."""

from benchmarks.group import Measure
from benchmarks.hostile import guard, stalls

BENCHMARKS: dict[str, Measure] = {"guard": guard.measure, "stalls": stalls.measure}
