"""Server-sent events. Many listeners cost one blocking read of Redis a process: a single thread reads the stream of
state changes, looks once a second at the jobs that somebody listens to, and hands each message out as the same bytes.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta

import orjson
import structlog

from shoal.api import present
from shoal.core.job_status import Event, JobStatus
from shoal.errors import Busy, NotFound, ShoalError
from shoal.frontier.watch import Watch

log = structlog.get_logger()

LOOK_EVERY = timedelta(seconds=1)
PING_EVERY_S = 15.0
KEPT = 64
"""Messages that a slow listener may be behind; then it misses some sums, which the next ones make up for."""
RETRY_MS = 2_000


@dataclass(slots=True)
class Channel:
    """What is told about one job to all who listen."""

    condition: threading.Condition = field(default_factory=threading.Condition)
    messages: deque[tuple[int, bytes]] = field(default_factory=lambda: deque[tuple[int, bytes]](maxlen=KEPT))
    number: int = 0
    listeners: int = 0
    ended: bool = False
    sums: bytes = b""

    def put(self, message: bytes, *, ended: bool = False) -> None:
        with self.condition:
            self.number += 1
            self.messages.append((self.number, message))
            self.ended = self.ended or ended
            self.condition.notify_all()

    def after(self, number: int, patience_s: float) -> tuple[int, list[bytes], bool]:
        """Messages behind this one; waits for one at most this long. (last number, messages, has the job ended)"""
        with self.condition:
            if self.number == number and not self.ended:
                self.condition.wait(patience_s)
            return self.number, [text for at, text in self.messages if at > number], self.ended


class Listener:
    """One client's stream: an iterable that is told when it is no longer wanted."""

    def __init__(self, channel: Channel, leave: Callable[[], None]) -> None:
        self._channel = channel
        self._leave = leave
        self._number = channel.number
        self._first: list[bytes] = []
        self._left = False

    def greet(self, messages: list[bytes]) -> None:
        """What comes first; an empty message at its end says that nothing will follow."""
        self._first = [b"retry: %d\n\n" % RETRY_MS, *messages]

    def __iter__(self) -> Iterator[bytes]:
        yield b"".join(self._first)
        ended = not self._first[-1]
        while not ended:
            self._number, messages, ended = self._channel.after(self._number, PING_EVERY_S)
            yield b"".join(messages) or b": still here\n\n"

    def close(self) -> None:
        """Called by the server when the client is gone, or the stream at its end."""
        if not self._left:
            self._left = True
            self._leave()


class Hub:
    """All listeners of this process."""

    def __init__(self, open_watch: Callable[[], Watch], status: Callable[[str], JobStatus], max_listeners: int) -> None:
        self._open_watch = open_watch
        self._status = status
        self._max_listeners = max_listeners
        self._channels: dict[str, Channel] = {}
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._last = ""

    # --- for listeners -------------------------------------------------------------------------------------------

    def follow(self, job: str, seen: str | None) -> Listener:
        """The job's life from now on; first what happened after the event with the id `seen`."""
        listener = Listener(self._join(job), lambda: self._leave(job))
        try:
            status = self._status(job)
            listener.greet([*self._missed(status, seen), *self._present(status)])
        except BaseException:
            listener.close()
            raise
        return listener

    def _present(self, status: JobStatus) -> Iterator[bytes]:
        yield _message("counters", self._last, _sums(status))
        if status.ended_ms is not None:
            yield _message("ended", self._last, orjson.dumps({"job": status.job, "state": status.state.value}))
            yield b""

    def wait_for_end(self, job: str, patience: timedelta) -> bool:
        """Has the job ended within this time?"""
        channel = self._join(job)
        try:
            deadline = time.monotonic() + patience.total_seconds()
            number = channel.number
            while (left := deadline - time.monotonic()) > 0:
                if self._status(job).ended_ms is not None:
                    return True
                number, _, is_over = channel.after(number, left)
                if is_over:
                    break
            return self._status(job).ended_ms is not None
        finally:
            self._leave(job)

    def stop(self) -> None:
        """Let all listeners go: they come again to whoever serves then."""
        with self._lock:
            channels = list(self._channels.values())
        for channel in channels:
            channel.put(b": the server stops\n\n", ended=True)

    def _missed(self, status: JobStatus, seen: str | None) -> Iterator[bytes]:
        """Changes that a client has not heard of; of an end it hears last."""
        if not seen:
            return
        watch = self._open_watch()
        try:
            for event in watch.events_since(seen, status.job):
                if event.kind != "ended" or status.ended_ms is None:
                    yield _told(event)
        finally:
            watch.close_connections()

    def _join(self, job: str) -> Channel:
        with self._lock:
            if sum(channel.listeners for channel in self._channels.values()) >= self._max_listeners:
                raise Busy(f"{self._max_listeners} clients listen already", timedelta(seconds=30))
            if self._thread is None or not self._thread.is_alive():
                self._start()
            channel = self._channels.setdefault(job, Channel())
            channel.listeners += 1
            return channel

    def _leave(self, job: str) -> None:
        with self._lock:
            channel = self._channels[job]
            channel.listeners -= 1
            if not channel.listeners:
                del self._channels[job]

    # --- the one reader ------------------------------------------------------------------------------------------

    def _start(self) -> None:
        watch = self._open_watch()
        self._last = watch.last_event()
        self._thread = threading.Thread(target=self._read, args=(watch,), name="events", daemon=True)
        self._thread.start()

    def _read(self, watch: Watch) -> None:
        look_at = time.monotonic()
        while self._is_wanted():
            try:
                left = timedelta(seconds=max(0.01, look_at - time.monotonic()))
                for event in watch.next_events(self._last, left):
                    self._last = event.id
                    self._tell(event)
                if time.monotonic() >= look_at:
                    look_at = time.monotonic() + LOOK_EVERY.total_seconds()
                    self._look()
            except ShoalError as exc:
                log.warning("events_failed", error=str(exc))
                time.sleep(LOOK_EVERY.total_seconds())
            except Exception:  # all listeners of this process depend on it
                log.exception("events_failed")
                time.sleep(LOOK_EVERY.total_seconds())
        watch.close_connections()

    def _is_wanted(self) -> bool:
        """The reader ends when nobody listens any more; the next listener starts another."""
        with self._lock:
            if not self._channels:
                self._thread = None
            return bool(self._channels)

    def _tell(self, event: Event) -> None:
        with self._lock:
            channel = self._channels.get(event.job)
        if channel is None:
            return
        if event.kind == "ended":
            self._look_at(event.job, channel)
        channel.put(_told(event), ended=event.kind == "ended")

    def _look(self) -> None:
        with self._lock:
            channels = list(self._channels.items())
        for job, channel in channels:
            self._look_at(job, channel)

    def _look_at(self, job: str, channel: Channel) -> None:
        """New sums, if there are any."""
        try:
            status = self._status(job)
        except NotFound:
            channel.put(_message("ended", self._last, orjson.dumps({"job": job, "state": "deleted"})), ended=True)
            return
        sums = _sums(status)
        if sums != channel.sums:
            channel.sums = sums
            channel.put(_message("counters", self._last, sums))


def _sums(status: JobStatus) -> bytes:
    shown = present.progress(status)
    if not status.counters.pending:
        shown["rate"], shown["elapsed_seconds"] = 0.0, 0.0 if status.ended_ms is None else shown["elapsed_seconds"]
    return orjson.dumps({"job": status.job, "state": status.state.value, **shown})


def _told(event: Event) -> bytes:
    return _message(event.kind, event.id, orjson.dumps({"job": event.job, "state": event.state}))


def _message(kind: str, number: str, data: bytes) -> bytes:
    return b"id: %b\nevent: %b\ndata: %b\n\n" % (number.encode(), kind.encode(), data)
