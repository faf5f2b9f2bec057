"""Requests about sitemaps that end without a page: the question where they are, and a guess that was wrong.

Neither leaves a row. Should the frontier be lost, the question is among the submitted URLs and is asked again, of what
all workers know of the robots.txt.
"""

from __future__ import annotations

from datetime import timedelta

from shoal.core.manners import Signal
from shoal.core.model import Lease, Level, Outcome, Settlement
from shoal.core.robots import Robots
from shoal.core.sitemaps import announced, within_budget
from shoal.core.url import Base
from shoal.extract.links import finish
from shoal.fetch.port import Response
from shoal.worker.context import JobContext
from shoal.worker.result import Result


def lead_to_sitemaps(context: JobContext, lease: Lease, robots: Robots) -> Result:
    """From a host's robots.txt to the sitemaps that it announces, or to where one usually is."""
    url = lease.request.url
    hrefs = [str(sitemap) for sitemap in announced(robots, url)]
    candidates = finish(context.links.further(url, Base(str(url)), hrefs, 0, Level.FIRST, listed=True))
    settlement = Settlement(lease, Outcome.FILTERED, "sitemaps_asked")
    return Result(settlement, candidates=within_budget(context.spec, candidates))


def without_sitemap(lease: Lease, response: Response | None = None) -> Result:
    """There is no sitemap where one was looked for, or something else: no error, and nothing to keep."""
    latency = response.elapsed if response else timedelta()
    received = len(response.wire_body) if response else 0
    settlement = Settlement(lease, Outcome.FILTERED, "no_sitemap", latency=latency, received=received, signal=Signal.OK)
    return Result(settlement)
