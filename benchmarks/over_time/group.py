"""The benchmarks of this group."""

from benchmarks.group import Measure
from benchmarks.over_time import recrawl, webhooks

BENCHMARKS: dict[str, Measure] = {"recrawl": recrawl.measure, "webhooks": webhooks.measure}
"""What repeats: runs that know the one before, and who is told of them."""
