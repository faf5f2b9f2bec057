"""A home whose leases are short, so that what a killed worker held comes back soon."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from tests.chaos.fleet import Fleet
from tests.command import Shoal, a_home


@pytest.fixture
def shoal(tmp_path: Path) -> Generator[Shoal]:
    with a_home(tmp_path) as command:
        yield Shoal(command.home, (("SHOAL_LEASE_SECONDS", "3"),))


@pytest.fixture
def fleet(tmp_path: Path, valkey_url: str) -> Generator[Fleet]:
    made = Fleet(tmp_path / "home", valkey_url)
    yield made
    made.watch.close_connections()
