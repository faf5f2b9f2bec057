"""The Celery application: queues, and the settings that make a message a doorbell and nothing more."""

# Celery has no type hints: what it gives is unknown to the checker in this file only.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from celery import Celery
from kombu.entity import Exchange, Queue

from shoal.core.model import ALL_QUEUES, CONTROL_QUEUE
from shoal.redis_url import RedisUrls, is_amqp
from shoal.worker.broker import CONNECT_TIMEOUT_S, HEARTBEAT_S, broker_link, results_link

if TYPE_CHECKING:
    from shoal.worker.door import Door

SLICE_TASK = "shoal.slice"
TICK_TASK = "shoal.tick"
PARTS_TASK = "shoal.parts"
DOOR = "door"
"""The transport option that has the door of a worker; without it nobody is judged, and nobody takes messages."""


def make_app(urls: RedisUrls, door: Door | None = None, *, brief: bool = False) -> Celery:
    """A Celery application on these databases; who takes messages has a door for them.

    `brief`: it belongs to a command, whose user waits for its end; and who stops lets his last wait in Redis end first.
    """
    if is_amqp(urls.broker):
        from shoal.worker.amqp import install

        install()
    broker, results = broker_link(urls.broker, brief=brief), results_link(urls.results)
    app = Celery("shoal", broker=broker.url, backend=results.url, set_as_current=False)
    exchange = Exchange("shoal")
    app.conf.update(
        task_queues=[Queue(name, exchange, routing_key=name) for name in (*ALL_QUEUES, CONTROL_QUEUE)],
        task_default_exchange=exchange.name,
        task_default_routing_key=CONTROL_QUEUE,
        task_default_queue=CONTROL_QUEUE,
        task_create_missing_queues=False,
        task_acks_late=True,
        task_reject_on_worker_lost=True,
        task_ignore_result=True,
        task_serializer="json",
        result_serializer="json",
        event_serializer="json",
        accept_content=["json"],
        result_accept_content=["json"],
        worker_prefetch_multiplier=1,
        worker_cancel_long_running_tasks_on_connection_loss=False,
        worker_hijack_root_logger=False,
        worker_send_task_events=True,  # a few for each slice, which nobody keeps; Flower need not ask for them
        broker_connection_retry_on_startup=True,
        broker_connection_timeout=CONNECT_TIMEOUT_S,
        broker_heartbeat=HEARTBEAT_S,
        broker_channel_error_retry=is_amqp(urls.broker),  # it may take the last connection for alive: a locked mailbox
        broker_transport_options={**broker.options, **_with_door(door)},
        broker_use_ssl=broker.tls,
        redis_backend_use_ssl=results.tls,
        result_backend_transport_options=results.options,
        task_default_delivery_mode="transient",  # a ring is not worth a write to RabbitMQ's disk
        worker_proc_alive_timeout=30,
    )
    if door:
        app.conf.worker_consumer = "shoal.worker.transport:Consumer"
    return app


def _with_door(door: Door | None) -> dict[str, Any]:
    if door is None:
        return {}
    from shoal.worker.transport import install

    install()
    return {DOOR: door}
