"""One trace from the request that submits a job to the settlement of its pages, in a collector of our own."""

from __future__ import annotations

import gzip
import importlib.util
import threading
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from typing import Any

import pytest

from tests.acceptance.test_up import SOON, ask, running_up
from tests.command import Shoal
from tests.conftest import lack
from tests.site.generated import LinkedSite
from tests.site.server import serve
from tests.waiting import wait_until

PAGES = 12
TRACE, CALLER = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
STEPS = {"fetch", "read", "store", "admit", "settle"}


@dataclass(frozen=True, slots=True)
class Seen:
    """A span as a collector gets it."""

    name: str
    trace: str
    id: str
    parent: str
    attributes: dict[str, str]


@dataclass
class Collector:
    """Takes spans by OTLP over HTTP."""

    url: str = ""
    spans: list[Seen] = field(default_factory=list[Seen])

    def take(self, body: bytes) -> None:
        request: Any = import_module(
            "opentelemetry.proto.collector.trace.v1.trace_service_pb2"
        ).ExportTraceServiceRequest()
        request.ParseFromString(body)
        for group in request.resource_spans:
            for scope in group.scope_spans:
                for span in scope.spans:
                    texts = {each.key: each.value.string_value for each in span.attributes}
                    ids = (span.trace_id.hex(), span.span_id.hex(), span.parent_span_id.hex())
                    self.spans.append(Seen(span.name, *ids, texts))

    def named(self, name: str) -> list[Seen]:
        return [span for span in self.spans if span.name == name and span.trace == TRACE]


@contextmanager
def _collecting() -> Generator[Collector]:
    collector = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            collector.take(gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body)
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name that the library gives it
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    collector.url = f"http://127.0.0.1:{server.server_port}/v1/traces"
    try:
        yield collector
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture(autouse=True)
def _installed() -> None:
    if importlib.util.find_spec("opentelemetry") is None:
        lack("OpenTelemetry is not installed (pip install 'shoal[traces]')")


def _traced(shoal: Shoal, collector: Collector, share: str) -> Shoal:
    return Shoal(shoal.home, (("SHOAL_TRACES", collector.url), ("SHOAL_TRACE_SHARE", share)))


def test_a_submission_is_one_trace_down_to_the_settlement_of_its_pages(shoal: Shoal) -> None:
    site = LinkedSite(pages=PAGES, links=5, size=500)
    with (
        _collecting() as collector,
        serve(site) as target,
        running_up(_traced(shoal, collector, "1"), "--workers", "1") as (_, url),
    ):
        spec = {"urls": [target.url, f"{target.url}missing?token=sesame"], "rate": "unlimited", "robots": False}
        taken = ask(f"{url}/api/v1/jobs", spec, traceparent=f"00-{TRACE}-{CALLER}-01")
        wait_until(lambda: ask(f"{url}/api/v1/jobs/{taken['id']}")["state"] == "finished", within=SOON)
        wait_until(lambda: len(collector.named("visit")) > PAGES, within=SOON)
        wait_until(lambda: bool(collector.named("slice http.batch")), within=SOON)
    (request,) = collector.named("POST /api/v1/jobs")
    (submit,) = collector.named("submit")
    slices = {span.id for span in collector.named("slice http.batch")}
    assert (request.parent, submit.parent) == (CALLER, request.id)
    assert {span.parent for span in collector.named("slice http.batch")} == {submit.id}
    visits = collector.named("visit")
    assert {span.parent for span in visits} <= slices
    for visit in visits:
        assert {span.name for span in collector.spans if span.parent == visit.id} == STEPS
    assert Counter(visit.attributes["shoal.outcome"] for visit in visits) == {"done": PAGES, "dead": 1}
    assert len({visit.attributes["url.full"] for visit in visits}) == len(visits)
    assert not [span for span in collector.spans if "sesame" in str(span.attributes)]


def test_of_a_caller_that_wants_no_trace_nothing_is_told(shoal: Shoal) -> None:
    with (
        _collecting() as collector,
        serve(LinkedSite(pages=3, links=2, size=500)) as target,
        running_up(_traced(shoal, collector, "1"), "--workers", "1") as (_, url),
    ):
        spec = {"urls": [target.url], "rate": "unlimited", "robots": False}
        taken = ask(f"{url}/api/v1/jobs", spec, traceparent=f"00-{TRACE}-{CALLER}-00")
        wait_until(lambda: ask(f"{url}/api/v1/jobs/{taken['id']}")["state"] == "finished", within=SOON)
        wait_until(lambda: bool(collector.spans), within=SOON)  # of those who asked without a word on traces
    assert [span for span in collector.spans if span.trace == TRACE] == []


def test_a_crawl_in_the_foreground_begins_a_trace_of_its_own(shoal: Shoal) -> None:
    with _collecting() as collector, serve(LinkedSite(pages=PAGES, links=5, size=500)) as target:
        crawl = ("crawl", target.url, "--rate", "unlimited", "--no-robots", "--quiet")
        done = _traced(shoal, collector, "1").run(*crawl)
        assert done.code == 0, done.err
        wait_until(lambda: {"submit", "visit", "settle"} <= {span.name for span in collector.spans}, within=SOON)
    assert len({span.trace for span in collector.spans}) == 1


def test_a_collector_that_is_away_holds_up_nobody(shoal: Shoal) -> None:
    with serve(LinkedSite(pages=PAGES, links=5, size=500)) as target:
        away = Shoal(shoal.home, (("SHOAL_TRACES", "http://127.0.0.1:1/v1/traces"), ("SHOAL_TRACE_SHARE", "1")))
        done = away.run("crawl", target.url, "--rate", "unlimited", "--no-robots", "--quiet")
    assert done.code == 0, done.err
