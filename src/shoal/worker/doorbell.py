"""Doorbells: a Celery message says that a queue has work, never which.

At most one ring per queue is under way (`claim_ring`), so a million URLs make a handful of messages. Losing or
doubling one changes nothing: a slice that finds no work ends, and an idle worker looks by itself (`pulse`).
"""

# Celery has no type hints: what it gives is unknown to the checker in this file only.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import structlog
from amqp.exceptions import AMQPError
from celery import Celery
from kombu.exceptions import OperationalError

from shoal.errors import RedisUnavailable
from shoal.frontier.frontier import Frontier
from shoal.intake.ring import PARTS_RING
from shoal.worker.app import PARTS_TASK, SLICE_TASK

log = structlog.get_logger()

REQUEST_ID = "request_id"
"""The header that carries the id of the submission, for the logs."""
RING_LIFETIME_S = 3600.0
"""Where nobody serves a queue, RabbitMQ drops a ring after this."""


class Doorbell:
    """Rings queues over the broker."""

    def __init__(self, app: Celery, frontier: Frontier) -> None:
        self._app = app
        self._frontier = frontier

    def ring(self, queue: str, request_id: str = "") -> None:
        """Ring unless a ring is on its way already."""
        if self._frontier.claim_ring(queue):
            self.send(queue, request_id)

    def ring_due(self, queues: Iterable[str]) -> None:
        """Ring every queue of these that has work to be done now."""
        for queue in self._frontier.glance(tuple(queues)).due:
            self.ring(queue)

    def send(self, queue: str, request_id: str = "") -> None:
        """Put one ring into the queue; a broker that is down is no reason to fail, workers look by themselves."""
        headers = {REQUEST_ID: request_id} if request_id else {}
        task = PARTS_TASK if queue.startswith(PARTS_RING) else SLICE_TASK
        served = queue.removeprefix(PARTS_RING)
        try:
            options: dict[str, Any] = {"headers": headers, "retry": False, "ignore_result": True}
            options["expiration"] = RING_LIFETIME_S
            self._app.send_task(task, args=[served], queue=served, **options)
        except (OperationalError, AMQPError, OSError, RedisUnavailable) as exc:
            log.warning("ring_failed", queue=queue, error=str(exc))
