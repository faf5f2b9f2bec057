"""`celery -A shoal …`: Celery's own tools (inspect, control, events, Flower) on Shoal's broker.

For looking and for remote control only: workers are `shoal worker`, and no task is known here. The broker is that of
the settings; an embedded one is held for as long as the tool runs.
"""

from __future__ import annotations

from shoal.errors import ShoalError
from shoal.settings import read_settings
from shoal.wiring import redis_urls, with_redis
from shoal.worker.app import make_app

try:
    _redis = with_redis(read_settings())
    app = make_app(redis_urls(_redis.__enter__()))
except ShoalError as exc:
    raise SystemExit(f"shoal: {exc}") from exc
