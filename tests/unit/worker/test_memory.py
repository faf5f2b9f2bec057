"""How much memory a worker takes."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from shoal.worker import memory


def test_it_is_about_what_others_measure() -> None:
    seen = memory.resident_mb()
    own = psutil.Process()
    assert seen == pytest.approx(sum(each.memory_info().rss for each in (own, *own.children())) / 1e6, rel=0.2)


def test_it_is_nothing_where_the_system_does_not_tell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "PROC", tmp_path / "none")
    assert memory.resident_mb() == 0
