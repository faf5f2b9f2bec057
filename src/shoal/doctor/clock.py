"""Clocks: do this machine, Redis and the database agree, and are time zones known?

Leases and schedules go by Redis' clock alone. But rows, logs, signatures and certificates have times of their own.
"""

# redis-py's hints leave gaps: what falls into them is unknown to the checker in this file only.
# pyright: reportUnknownMemberType=false
from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from shoal.doctor.database import opened
from shoal.doctor.finding import Area, Finding, Kind, Level, well
from shoal.doctor.ground import Ground

TOLERATED_MS = 2_000
WRONG_MS = 60_000
"""So far apart, signatures of webhooks and certificates are refused."""
ZONE = "Europe/Berlin"

SKEW = Kind(
    "clock_skew", Area.CLOCK, Level.WARNING,
    "Times in rows, logs and charts do not fit together; far apart, signatures and certificates are refused.",
    "timedatectl set-ntp true",
)  # fmt: skip
NO_ZONES = Kind(
    "no_time_zones", Area.CLOCK, Level.ERROR,
    "Schedules in time zones cannot be read: this system has no data about them.",
    "pip install tzdata",
)  # fmt: skip


def redis_clock(ground: Ground) -> Iterator[Finding]:
    """Against Redis'."""
    with ground.frontier() as client:
        client.ping()  # so that the connection is there, and takes no time of the answer

        def ask() -> int:
            seconds, micros = client.time()
            return seconds * 1000 + micros // 1000

        yield compare("Redis", ask)


def database_clock(ground: Ground) -> Iterator[Finding]:
    """Against the database's, where it has its own."""
    with opened(ground) as database:
        if database.see().now_ms is not None:
            yield compare("the database", lambda: database.see().now_ms or 0)


def compare(whose: str, ask: Callable[[], int], now: Callable[[], float] = time.time) -> Finding:
    """A clock against ours; what its answer took is in its favour."""
    before = now() * 1000
    theirs = ask()
    after = now() * 1000
    ahead = theirs - after if theirs > after else min(0.0, theirs - before)
    if abs(ahead) <= TOLERATED_MS:
        return well(Area.CLOCK, f"{whose} and this machine agree")
    what = f"the clock of {whose} is {abs(ahead) / 1000:,.1f} s {'ahead of' if ahead > 0 else 'behind'} this machine's"
    return SKEW.found(what, level=Level.ERROR if abs(ahead) >= WRONG_MS else Level.WARNING)


def zones(ground: Ground) -> Iterator[Finding]:
    """Are there time zones?"""
    del ground
    try:
        ZoneInfo.no_cache(ZONE)
    except ZoneInfoNotFoundError:
        yield NO_ZONES.found(f"the time zone {ZONE} is not known here")


CHECKS = (redis_clock, database_clock, zones)
