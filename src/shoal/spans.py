"""Traces: one of each submission, from the request that brought it to the settlement of its pages.

They are an extra, OpenTelemetry, which has gaps in its type hints and is unknown to the checker. Unless an operator has
named a collector, nothing of it is loaded, and a span costs as much as looking at a variable. A trace goes along with
its job as a `traceparent`, in the database.

Nobody waits for a collector. What it did not take is dropped, and told once a minute in a line of ours: the library's
own lines are many, and may show the collector's address with a secret in it.
"""

from __future__ import annotations

import logging
import os
import re
import threading
import time
from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any
from urllib.parse import urlsplit

import structlog

from shoal.core.frozen import frozen
from shoal.errors import InputError

log = structlog.get_logger()

EXPORT_EVERY_MS = 1_000
MAX_WAITING = 4_096
"""Spans that wait for the collector; further ones are dropped."""
FLUSH_S = 1.0
EXPORT_TIMEOUT_S = 5
TELL_EVERY_S = 60.0
_TRACEPARENT = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")
_NOTHING = nullcontext("")


@frozen
class Plan:
    """Where spans go, and of how many pages there are any."""

    collector: str
    share: float


@dataclass(slots=True)
class _State:
    plan: Plan | None = None
    owner: int = 0
    """The process that the provider was made in; it has a thread, which no fork takes along."""
    provider: Any = None
    tracer: Any = None


_state = _State()
_current: ContextVar[Span | None] = ContextVar("shoal_span", default=None)


class Span:
    """A span that has begun."""

    __slots__ = ("_span",)

    def __init__(self, span: Any) -> None:
        self._span = span

    @property
    def trace(self) -> str:
        """As a `traceparent`."""
        carrier: dict[str, str] = {}
        _propagator().inject(carrier, context=_trace().set_span_in_context(self._span))
        return carrier.get("traceparent", "")

    def child(self, name: str, start_ns: int | None = None) -> Span:
        context = _trace().set_span_in_context(self._span)
        return Span(_tracer().start_span(name, context=context, start_time=start_ns))

    def note(self, **attributes: str | int) -> None:
        self._span.set_attributes({name.replace("__", "."): value for name, value in attributes.items()})

    def end(self, end_ns: int | None = None) -> None:
        self._span.end(end_time=end_ns)


class _Exporter:
    """Sends spans, and tells how many were not taken."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self._lost = 0
        self._told_at = -TELL_EVERY_S

    def export(self, spans: Sequence[Any]) -> Any:
        result = self._inner.export(spans)
        if result.name != "SUCCESS":
            self._lose(len(spans))
        return result

    def shutdown(self) -> None:
        self._inner.shutdown()

    def _lose(self, spans: int) -> None:
        self._lost += spans
        if time.monotonic() - self._told_at >= TELL_EVERY_S:
            log.warning("spans_lost", spans=self._lost)
            self._lost, self._told_at = 0, time.monotonic()


def configure(collector: str, share: float) -> None:
    """Spans go to this collector, by OTLP over HTTP, from now on; to none when it is empty."""
    if collector and find_spec("opentelemetry") is None:
        raise InputError("SHOAL_TRACES is set, but OpenTelemetry is not installed: pip install 'shoal[traces]'")
    if collector and not _is_http(collector):
        raise InputError(
            "SHOAL_TRACES: write where a collector takes OTLP over HTTP, as http://127.0.0.1:4318/v1/traces"
        )
    _state.plan = Plan(collector, share) if collector else None
    _state.owner = 0


def plan() -> Plan | None:
    """None: nothing is traced."""
    return _state.plan


def _is_http(address: str) -> bool:
    try:
        parts = urlsplit(address)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def is_traceparent(text: str) -> bool:
    return bool(_TRACEPARENT.fullmatch(text)) and not text.startswith("ff")


def begin(name: str, parent: str = "", **attributes: str | int) -> Span | None:
    """A span that somebody else ends; None when nothing is traced."""
    if _state.plan is None:
        return None
    context = _propagator().extract({"traceparent": parent}) if parent else None
    span = Span(_tracer().start_span(name, context=context))
    span.note(**attributes)
    return span


@contextmanager
def within(span: Span | None) -> Generator[None]:
    """Steps of this thread or task belong to the span for as long as this lasts."""
    token = _current.set(span)
    try:
        yield
    finally:
        _current.reset(token)


def step(name: str) -> AbstractContextManager[str]:
    """A part of what is under way, if that is traced; gives its `traceparent`, or nothing."""
    span = _current.get()
    return _NOTHING if span is None else _stepped(span.child(name))


def root(name: str, parent: str = "") -> AbstractContextManager[str]:
    """Likewise, where nothing need be under way: the beginning of a trace, or a part of the one that is named."""
    if _current.get() is not None:
        return step(name)
    span = begin(name, parent)
    return _NOTHING if span is None else _stepped(span)


@contextmanager
def _stepped(span: Span) -> Generator[str]:
    try:
        with within(span):
            yield span.trace
    finally:
        span.end()


def flush() -> None:
    """The process is about to end: what waits is sent, if that does not take long.

    The library heeds no time limit here; a thread that is left behind ends with the process.
    """
    if _state.plan is not None and _state.owner == os.getpid():
        sending = threading.Thread(target=_state.provider.force_flush, daemon=True)
        sending.start()
        sending.join(FLUSH_S)


def _tracer() -> Any:
    """Of this process."""
    if _state.owner != os.getpid() and _state.plan is not None:
        sdk, export = import_module("opentelemetry.sdk.trace"), import_module("opentelemetry.sdk.trace.export")
        resource = import_module("opentelemetry.sdk.resources").Resource.create({"service.name": "shoal"})
        otlp = import_module("opentelemetry.exporter.otlp.proto.http.trace_exporter")
        logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
        exporter = _Exporter(otlp.OTLPSpanExporter(endpoint=_state.plan.collector, timeout=EXPORT_TIMEOUT_S))
        queue = {"schedule_delay_millis": EXPORT_EVERY_MS, "max_queue_size": MAX_WAITING}
        _state.provider = sdk.TracerProvider(resource=resource, shutdown_on_exit=False)
        _state.provider.add_span_processor(export.BatchSpanProcessor(exporter, **queue))
        _state.tracer = _state.provider.get_tracer("shoal")
        _state.owner = os.getpid()
    return _state.tracer


def _trace() -> Any:
    return import_module("opentelemetry.trace")


def _propagator() -> Any:
    return import_module("opentelemetry.trace.propagation.tracecontext").TraceContextTextMapPropagator()
