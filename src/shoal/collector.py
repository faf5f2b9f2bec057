"""Python's search for cycles: it looks less often, and not at all at what is loaded once and stays.

With Python's own thresholds, a process that has a few hundred thousand values looks through all of them again and again
while it works, and several times while it is still importing them.
"""

from __future__ import annotations

import gc

THRESHOLDS = (100_000, 20, 100)
"""New values before the young are looked through; times that, before the older ones; times that, before all."""


def look_rarely() -> None:
    """For a process that begins."""
    gc.set_threshold(*THRESHOLDS)


def calm_collector() -> None:
    """What is there now stays; called when everything is loaded, before a fork so that its pages stay shared."""
    gc.freeze()
    look_rarely()
