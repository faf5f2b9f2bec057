"""One worker process group, from settings to exit code."""

from __future__ import annotations

import sys

from shoal.observe import set_up_logs
from shoal.redis_url import redacted
from shoal.settings import Settings
from shoal.store.database import open_database
from shoal.wiring import with_redis
from shoal.worker.tasks import Worker


def serve(settings: Settings, log_level: str = "info") -> int:
    """Serve queues until told to stop."""
    set_up_logs(log_level)
    with with_redis(settings) as chosen:
        open_database(chosen.sql_url).dispose()
        where = redacted(chosen.redis_url or "")
        print(f"worker: {chosen.concurrency} × {chosen.queues} on {where}; Ctrl-C stops", file=sys.stderr, flush=True)
        return Worker(chosen).run()
