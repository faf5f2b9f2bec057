"""A home and a site for each test; nothing may be left running behind it."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from tests.command import Shoal, a_home
from tests.site.bookshop import Bookshop
from tests.site.server import Server, serve


@pytest.fixture
def shoal(tmp_path: Path) -> Generator[Shoal]:
    """Commands on a new home; whatever they leave running fails the test, and is ended."""
    with a_home(tmp_path) as command:
        yield command


@pytest.fixture
def bookshop() -> Generator[Server]:
    """The sample site, with its slow pages hurried up."""
    with serve(Bookshop(slow_seconds=0.2)) as server:
        yield server
