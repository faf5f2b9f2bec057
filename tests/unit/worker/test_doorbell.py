"""Doorbells: at most one on its way, with the id of the submission that it is for."""

from __future__ import annotations

from typing import Any, cast

from celery import Celery

from shoal.frontier.frontier import Frontier
from shoal.worker.app import SLICE_TASK
from shoal.worker.doorbell import Doorbell


class App:
    """Takes messages instead of a broker."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, dict[str, Any]]] = []

    def send_task(self, name: str, **options: Any) -> None:
        self.sent.append((name, options))


class Door:
    """Grants the first claim only."""

    def __init__(self) -> None:
        self.claimed: list[str] = []

    def claim_ring(self, queue: str) -> bool:
        self.claimed.append(queue)
        return self.claimed.count(queue) == 1


def _ring(*calls: tuple[str, ...]) -> list[tuple[str, dict[str, Any]]]:
    app = App()
    bell = Doorbell(cast(Celery, app), cast(Frontier, Door()))
    for call in calls:
        bell.ring(*call)
    return app.sent


def test_a_ring_carries_the_request_id_in_its_headers() -> None:
    ((name, options),) = _ring(("http.high", "abc"))
    assert name == SLICE_TASK
    assert (options["queue"], options["args"], options["headers"]) == (
        "http.high",
        ["http.high"],
        {"request_id": "abc"},
    )


def test_a_ring_for_nobody_in_particular_has_no_id() -> None:
    ((_, options),) = _ring(("http.high",))
    assert options["headers"] == {}


def test_a_second_ring_waits_for_the_first_to_be_answered() -> None:
    assert len(_ring(("http.high",), ("http.high",), ("http.slow",))) == 2
