"""A worker that starts while Redis or the database is away waits for it, however long; a wrong set-up fails at once.

SIGTERM ends a worker that waits here on the spot: it has taken no work yet.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

import sqlalchemy as sa
import structlog

from shoal.core.trouble import Need, gist
from shoal.errors import RedisUnavailable, StoreUnavailable
from shoal.frontier import away as redis
from shoal.redis_url import redacted
from shoal.settings import Settings
from shoal.store import away as database

log = structlog.get_logger()

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 5.0

Made = TypeVar("Made")


def patiently(settings: Settings, step: Callable[[], Made]) -> Made:
    """Take a step of the start, again and again while something that it needs is away."""
    since: dict[Need, float] = {}
    pause_s = FIRST_PAUSE_S
    while True:
        try:
            made = step()
        except (RedisUnavailable, StoreUnavailable) as exc:
            need = _awaited(settings, exc)
            if need is None:
                raise
            if need not in since:
                since[need] = time.monotonic()
                log.warning("start_waits", what=need.value, where=_where(settings, need), error=gist(exc))
        else:
            for need, then in since.items():
                log.info("start_goes_on", what=need.value, seconds=round(time.monotonic() - then, 1))
            return made
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, LONGEST_PAUSE_S)


def _awaited(settings: Settings, error: RedisUnavailable | StoreUnavailable) -> Need | None:
    """What to wait for; None when that would not help."""
    if isinstance(error, RedisUnavailable):
        return Need.REDIS if redis.is_away(error) else None
    return Need.DATABASE if database.is_away(settings.sql_url, error) else None


def _where(settings: Settings, need: Need) -> str:
    if need is Need.REDIS:
        return redacted(settings.redis_url or "")
    return sa.make_url(settings.sql_url).render_as_string(hide_password=True)
