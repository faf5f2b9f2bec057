"""Chromium's own protocol, as far as it is spoken beside Playwright."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol


class Session(Protocol):
    """Playwright's `CDPSession`, with types."""

    async def send(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        """Ask the browser for something."""
        ...

    def on(self, event: str, f: Callable[..., Any]) -> None:
        """Hear what the browser says."""
        ...
