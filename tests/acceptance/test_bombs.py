"""Ten gigabytes in a few kilobytes: refused, and the memory of the process that met them stays what it was."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Generator
from typing import Any

import pytest

from shoal.fetch import decode
from shoal.fetch.decode import unpack
from tests.command import REPOSITORY
from tests.site.hostile import bombs
from tests.site.hostile.case import Case
from tests.site.hostile.process import hostile_site

CAP = 10_000_000
ROOM = 32_000_000
"""A rise of so much beyond the cap is taken."""


@pytest.fixture(scope="module")
def rises(tmp_path_factory: pytest.TempPathFactory) -> Generator[dict[str, dict[str, Any]]]:
    """Bomb → what a process that has fetched and unpacked it says."""
    with hostile_site(tmp_path_factory.mktemp("bombs")) as site:
        pairs = [f"{case.name}={site.link(case.name)}" for case in bombs.CASES]
        ended = subprocess.run(
            [sys.executable, "-m", "tests.memory_rise", str(CAP), *pairs],
            cwd=REPOSITORY,
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
    assert ended.returncode == 0, ended.stderr
    yield {said["name"]: said for said in map(json.loads, ended.stdout.splitlines())}


@pytest.mark.parametrize("case", bombs.CASES, ids=lambda case: case.name)
def test_a_bomb_is_refused_within_the_cap_and_a_little_room(rises: dict[str, dict[str, Any]], case: Case) -> None:
    said = rises[case.name]
    assert said["reason"] in case.fate
    assert said["rise"] <= CAP + ROOM


def test_a_bomb_is_small_on_the_wire_and_large_behind_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that are made by hand unpack to what they say; how far that goes on is a matter of repetition."""
    monkeypatch.setattr(decode, "MAX_RATIO", bombs.SIZE)  # or it would end them early
    size = 20_000_000
    for make, encoding in (
        (bombs.gzipped, "gzip"),
        (bombs.gzip_members, "gzip"),
        (bombs.zlibbed, "deflate"),
        (bombs.deflated, "deflate"),
        (bombs.brotlied, "br"),
        (bombs.zstandarded, "zstd"),
        (bombs.zstandard_frames, "zstd"),
    ):
        assert len(make(bombs.SIZE)) < CAP
        body = unpack(make(size), encoding, size)
        assert len(body) > size * 0.89
        assert not body.strip(b"\0")
