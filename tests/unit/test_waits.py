"""Who is missing when a job waits in a queue that nobody serves."""

from __future__ import annotations

import pytest

from shoal.core.fleet import QueueDepth, WorkerBeat
from shoal.core.model import ALL_QUEUES
from shoal.core.spec import read_spec
from shoal.waits import unserved

EMPTY = [QueueDepth(queue, 0, 0, 0, 0) for queue in ALL_QUEUES]
RENDERED = [QueueDepth("browser.batch", 3, 0, 0, 1)]


def _beat(*queues: str) -> WorkerBeat:
    return WorkerBeat("one", queues, 1, 0, 0, 1, 1, "0.1.0")


@pytest.mark.parametrize(
    ("engine", "served", "depths", "missing"),
    [
        ("http", ("http.batch",), RENDERED, ""),
        ("http", ("control", "browser.batch"), EMPTY, "http.batch"),
        ("browser", ("http.batch",), RENDERED, "browser.batch"),
        ("browser", ("browser.high", "browser.batch"), RENDERED, ""),
        ("auto", ("browser.batch",), EMPTY, "http.batch"),
        ("auto", ("http.batch",), EMPTY, ""),
        ("auto", ("http.batch",), RENDERED, "browser.batch"),
        ("auto", ("http.batch", "browser.batch"), RENDERED, ""),
    ],
)
def test_a_queue_that_nobody_serves_is_named(
    engine: str, served: tuple[str, ...], depths: list[QueueDepth], missing: str
) -> None:
    spec = read_spec({"urls": ["https://shop.example/"], "engine": engine})
    assert unserved(spec, [_beat(*served)], depths) == missing


def test_what_several_workers_serve_is_served() -> None:
    spec = read_spec({"urls": ["https://shop.example/"], "engine": "auto", "lane": "high"})
    depths = [QueueDepth("browser.high", 1, 0, 0, 1)]
    assert unserved(spec, [_beat("http.high"), _beat("browser.high")], depths) == ""
    assert unserved(spec, [_beat("http.high"), _beat("browser.batch")], depths) == "browser.high"
