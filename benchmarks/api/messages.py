"""The other way: one Celery message for each URL, as tutorials teach it."""

# Celery has no type hints: what it gives is unknown to the checker in this file only.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUntypedFunctionDecorator=false
# pyright: reportUnknownArgumentType=false
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self, cast

from celery import Celery

from benchmarks.api.stage import BenchError


class Messages:
    """A producer, whose connection Celery keeps in its pool; nobody takes the messages."""

    def __init__(self, broker: str) -> None:
        self._app = Celery("tutorial", broker=broker, set_as_current=False)

        @self._app.task(name="fetch_url", ignore_result=True)
        def fetch_url(url: str) -> None:
            raise AssertionError(f"nobody is to fetch {url}")

        self._task = cast(Any, fetch_url)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._app.close()

    def send(self, urls: Sequence[str]) -> float:
        """Send a message for each URL, and throw them away; returns the seconds that the sending took."""
        started = time.perf_counter()
        for url in urls:
            self._task.apply_async(args=[url])
        seconds = time.perf_counter() - started
        sent = self._app.control.purge()
        if sent != len(urls):
            raise BenchError(f"of {len(urls)} messages {sent} were in the queue")
        return seconds
