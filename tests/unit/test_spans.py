"""Spans where nothing is traced, and what is taken for a trace of a caller's."""

from __future__ import annotations

import sys
from collections.abc import Generator

import pytest

from shoal import spans
from shoal.errors import InputError

COLLECTOR = "http://127.0.0.1:4318/v1/traces"


@pytest.fixture(autouse=True)
def _untraced() -> Generator[None]:
    yield
    spans.configure("", 0)


def test_without_a_collector_nothing_is_traced_and_nothing_loaded() -> None:
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
