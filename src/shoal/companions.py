"""Libraries that load others only because these are installed: here they do without.

structlog would load Rich, for tracebacks that show the values of variables; redis the SDK of OpenTelemetry, for
measurements that nobody takes; Celery's pool a compiler of C, for one call; kombu YAML, which no message is written in;
and Celery psutil, to print how large it is. That is a tenth of a second, and some megabytes, for each process that
begins. To such a library its companion looks as if it were not installed; everybody else can import it.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from importlib.abc import Loader

COMPANIONS = {
    "structlog": ("rich",),
    "redis": ("opentelemetry",),
    "billiard.util": ("cffi",),
    "kombu.serialization": ("yaml",),
    "celery.utils.debug": ("psutil",),
}
"""Library → what it does without."""


def do_without_companions() -> None:
    """For a process that begins; what is loaded already stays as it is."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


class _Finder:
    """Finds these libraries where they are, and has them loaded in another way."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in COMPANIONS:
            return None
        found = PathFinder.find_spec(fullname, path, target)
        if found is not None and found.loader is not None:
            found.loader = cast("Loader", _Alone(found.loader, COMPANIONS[fullname]))
        return found


class _Alone:
    """Runs a library's code while its companions seem not to be there."""

    def __init__(self, loader: Loader, companions: Sequence[str]) -> None:
        self._loader = loader
        self._companions = companions

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self._loader  # as it would be without us
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        missing = [name for name in self._companions if name not in sys.modules]
        modules: dict[str, ModuleType | None] = sys.modules  # pyright: ignore[reportAssignmentType]
        modules.update(dict.fromkeys(missing))  # None: Python's own way to say that there is no such module
        try:
            self._loader.exec_module(module)
        finally:
            for name in missing:
                modules.pop(name, None)
