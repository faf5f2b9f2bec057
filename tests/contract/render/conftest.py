"""One browser for the tests of a file, with which it ends: others count the processes of browsers; and one shop."""

from __future__ import annotations

import gc
from collections.abc import Generator

import pytest

from tests.browsers import browser_path
from tests.contract.render.pages import Tab, browsing
from tests.site.server import Server, serve
from tests.site.shop import Shop

__all__ = ["browser_path"]


@pytest.fixture(autouse=True)
def _leave_nothing_to_collect() -> Generator[None]:
    """Connections to browsers that were killed complain when they are collected: here, and not in another's test."""
    yield
    gc.collect()


@pytest.fixture(scope="module")
def tab() -> Generator[Tab]:
    with browsing() as running:
        yield running


@pytest.fixture(scope="session")
def shop() -> Generator[Server]:
    with serve(Shop(), ["127.0.0.1", "localhost"]) as server:
        yield server
