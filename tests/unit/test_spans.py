"""Spans where nothing is traced, and what is taken for a trace of a caller's."""

from __future__ import annotations

import importlib.util
import logging
import socket
import sys
from collections.abc import Generator

import pytest
import structlog

from shoal import spans
from shoal.errors import InputError
from tests.conftest import lack
from tests.waiting import wait_until

COLLECTOR = "http://127.0.0.1:4318/v1/traces"


@pytest.fixture(autouse=True)
def _untraced() -> Generator[None]:
    yield
    spans.configure("", 0)


def test_without_a_collector_nothing_is_traced_and_nothing_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "opentelemetry.sdk.trace", raising=False)
    spans.configure("", 1.0)
    with spans.root("submit") as trace, spans.step("fetch") as inner:
        assert (trace, inner) == ("", "")
    assert spans.plan() is None
    assert spans.begin("request") is None
    spans.flush()
    assert "opentelemetry.sdk.trace" not in sys.modules


def test_a_collector_without_the_extra_is_told_with_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere(name: str) -> None:
        del name

    monkeypatch.setattr(spans, "find_spec", nowhere)
    with pytest.raises(InputError, match=r"SHOAL_TRACES.*pip install 'shoal\[traces\]'"):
        spans.configure(COLLECTOR, 1.0)


@pytest.mark.parametrize(
    ("text", "taken"),
    [
        ("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", True),
        ("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00", True),
        ("ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", False),
        ("00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01", False),
        ("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\n", False),
        ("", False),
    ],
)
def test_only_what_is_a_traceparent_is_taken_for_one(text: str, taken: bool) -> None:
    assert spans.is_traceparent(text) is taken


@pytest.mark.parametrize("text", ["nonsense", "ftp://collector.example/", "http://", "http://[", "collector:4318"])
def test_a_collector_that_is_no_address_is_refused_at_once(text: str) -> None:
    with pytest.raises(InputError, match=r"SHOAL_TRACES: .* http://127\.0\.0\.1:4318/v1/traces"):
        spans.configure(text, 1.0)


@pytest.fixture
def hole() -> Generator[str]:
    """A collector that takes connections, and never answers; its address has a secret in it."""
    if importlib.util.find_spec("opentelemetry") is None:
        lack("OpenTelemetry is not installed (pip install 'shoal[traces]')")
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}/v1/traces?key=sesame"


def test_a_process_that_ends_does_not_wait_for_a_collector_that_hangs(
    hole: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(spans, "EXPORT_TIMEOUT_S", 3_600)
    spans.configure(hole, 1.0)
    for _ in range(2 * spans.MAX_WAITING):
        with spans.root("submit"):
            pass
    spans.flush()  # or this test takes an hour
    assert capfd.readouterr().err == ""


def test_spans_that_are_not_taken_are_told_once_and_without_the_address(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, hole: str
) -> None:
    monkeypatch.setattr(spans, "EXPORT_TIMEOUT_S", 0.2)
    with structlog.testing.capture_logs() as lines, caplog.at_level(logging.DEBUG):
        spans.configure(hole, 1.0)
        for _ in range(3):
            with spans.root("submit"):
                pass
            spans.flush()
        wait_until(lambda: bool(lines))
    (line,) = lines
    assert (line["event"], line["log_level"]) == ("spans_lost", "warning")
    assert line["spans"] >= 1
    assert "sesame" not in str(lines) + caplog.text
