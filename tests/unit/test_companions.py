"""Libraries do without what they would load only because it is installed."""

from __future__ import annotations

import subprocess
import sys

import pytest

_LOADED = """
import sys
from shoal.companions import do_without_companions
do_without_companions()
{imports}
print(*sorted(name for name in sys.modules if name in {asked}))
"""
ASKED = ("attr", "cffi", "opentelemetry", "psutil", "pygments", "rich", "yaml")


def _loaded(imports: str) -> list[str]:
    code = _LOADED.format(imports=imports, asked=ASKED)
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()


@pytest.mark.parametrize(
    "library", ["structlog", "redis", "redis.asyncio", "billiard.util", "kombu", "celery.apps.worker"]
)
def test_a_library_is_loaded_without_its_companions(library: str) -> None:
    assert _loaded(f"import {library}") == []


def test_everybody_else_can_import_them_before_and_after() -> None:
    assert "rich" in _loaded("import structlog, rich.text")
    assert "rich" in _loaded("import rich.text, structlog; assert structlog.dev.rich is rich")
    assert "opentelemetry" in _loaded("import redis, opentelemetry.sdk.trace")


def test_libraries_are_told_where_they_come_from_as_ever() -> None:
    said = "import importlib.resources as r, structlog as s; assert r.files(s).joinpath('py.typed').is_file()"
    assert _loaded(f"{said}; assert s.__spec__.loader is s.__loader__, s.__loader__") == []
