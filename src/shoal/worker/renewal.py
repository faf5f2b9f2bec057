"""The leases of a slice renewed while somebody works on them, in a thread that no store can block."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial

import structlog

from shoal.errors import Unavailable
from shoal.frontier.frontier import Frontier
from shoal.worker.desk import Desk
from shoal.worker.outage import Outages, Place
from shoal.worker.threads import in_thread

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
            lost = await in_thread(threads, partial(frontier.renew, groups, lease_for))
        except Unavailable as exc:
            outages.met(Place.RENEWAL, exc)
            log.warning("renew_failed", error=str(exc))
            continue
        outages.over(Place.RENEWAL)
        lost &= desk.held_groups()  # the last lease of a group may have been settled meanwhile
        if lost:
            log.warning("leases_lost", groups=len(lost))
