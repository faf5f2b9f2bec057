"""What a renderer may use before its browser is replaced."""

from __future__ import annotations

from datetime import timedelta

from shoal.core.frozen import frozen

MB = 1024 * 1024


@frozen
class RenderLimits:
    """Of one process."""

    at_once: int = 4
    """Pages."""
    pages: int = 200
    """After so many the browser is replaced."""
    memory: int = 1_500 * MB
    """Of all browsers with all their processes. Near it, the browser is replaced, and no page begins while others are
    under way; beyond it, the largest of several pages is ended."""
    page_memory: int = 512 * MB
    """Of one page's process, which is killed beyond it."""
    age: timedelta = timedelta(minutes=30)
    look: timedelta = timedelta(seconds=0.25)
    """So often the memory is looked at."""
    closing: timedelta = timedelta(seconds=5)
    """A context that takes longer to close shows that the browser hangs."""
