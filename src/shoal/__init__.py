"""Shoal: crawl a whole site with one command, or a fleet's worth of them with the same code.

For spiders: `shoal.spider`, `shoal.Page`, `shoal.Selection`, `shoal.Follow`; for contracts: `shoal.model`. They are
imported when they are used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shoal.spiders.follow import Follow as Follow
    from shoal.spiders.models import model as model
    from shoal.spiders.page import Page as Page
    from shoal.spiders.registry import spider as spider
    from shoal.spiders.selection import Selection as Selection

__version__ = "0.1.0"
__all__ = ["Follow", "Page", "Selection", "__version__", "model", "spider"]

_HOMES = {"Follow": "follow", "Page": "page", "Selection": "selection", "model": "models", "spider": "registry"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'shoal' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"shoal.spiders.{_HOMES[name]}"), name)
