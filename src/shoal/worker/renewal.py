"""The leases of a slice renewed while somebody works on them, in a thread that no store can block."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import structlog

from shoal.errors import Unavailable
from shoal.frontier.frontier import Frontier
from shoal.worker.desk import Desk
from shoal.worker.outage import Outages, Place

log = structlog.get_logger()


async def renew_all(
    frontier: Frontier, desk: Desk, lease_for: timedelta, outages: Outages, threads: ThreadPoolExecutor
) -> None:
    """Renew for as long as the slice runs, three times in the time for which a lease lasts."""
    while True:
        await asyncio.sleep(lease_for.total_seconds() / 3)
        groups = desk.groups()
        if not groups:
            continue
        try:
            lost = await _renew(frontier, groups, lease_for, threads)
        except Unavailable as exc:
            outages.met(Place.RENEWAL, exc)
            log.warning("renew_failed", error=str(exc))
            continue
        outages.over(Place.RENEWAL)
        lost &= desk.held_groups()  # the last lease of a group may have been settled meanwhile
        if lost:
            log.warning("leases_lost", groups=len(lost))


async def _renew(
    frontier: Frontier, groups: set[int], lease_for: timedelta, threads: ThreadPoolExecutor
) -> frozenset[int]:
    return await asyncio.get_running_loop().run_in_executor(threads, lambda: frontier.renew(groups, lease_for))
