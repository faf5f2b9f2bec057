"""The benchmarks of this group."""

from functools import partial

from benchmarks.group import Measure
from benchmarks.politeness import dead, growth, growth_whole, hanging, limits, redis_time, refused, shares, slow, urgent

NAMES = (
    "limits",
    "urgent",
    "slow-host",
    "shares",
    "refused",
    "dead-hosts",
    "hanging-hosts",
    "redis-time",
    "growth",
    "growth-whole",
)


def benchmarks(seconds: float = limits.SECONDS) -> dict[str, Measure]:
    """All of them; `seconds` is how long the hosts of `limits` are crawled."""
    measures = (
        partial(limits.measure, seconds=seconds),
        urgent.measure,
        slow.measure,
        shares.measure,
        refused.measure,
        dead.measure,
        hanging.measure,
        redis_time.measure,
        growth.measure,
        growth_whole.measure,
    )
    return dict(zip(NAMES, measures, strict=True))
