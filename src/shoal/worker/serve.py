"""One worker process group, from settings to exit code."""

from __future__ import annotations

import sys

import structlog

from shoal.observe import set_up_logs
from shoal.proxy_pools import pools_of
from shoal.redis_url import redacted
from shoal.settings import Settings
from shoal.store.database import open_database
from shoal.wiring import sync_hosts, with_redis
from shoal.worker.tasks import Worker

log = structlog.get_logger()


def serve(settings: Settings, log_level: str = "info") -> int:
    """Serve queues until told to stop."""
    set_up_logs(log_level)
    with with_redis(settings) as chosen:
        open_database(chosen.sql_url).dispose()
        sync_hosts(chosen)
        pools_of(chosen.proxies_file).all()
        _announce(chosen)
        return Worker(chosen).run()


def _announce(settings: Settings) -> None:
    where = redacted(settings.redis_url or "")
    if settings.parent is None:
        shown = f"worker: {settings.processes} × {settings.queues} on {where}; Ctrl-C stops"
        print(shown, file=sys.stderr, flush=True)
    else:
        log.info("worker_started", processes=settings.processes, queues=settings.queues, redis=where)
