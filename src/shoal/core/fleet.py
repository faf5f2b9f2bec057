"""The fleet as it stands: workers, queues, and how full the frontier is."""

from __future__ import annotations

from shoal.core.frozen import frozen
from shoal.core.model import Lane, is_for_browser


@frozen
class WorkerBeat:
    """A worker's sign of life."""

    name: str
    queues: tuple[str, ...]
    processes: int
    active: int
    """Slices under way."""
    slices: int
    """Slices since it started."""
    memory_mb: int
    started_ms: int
    version: str
    pages: int = 0
    """Results delivered since it started."""
    progress_ms: int = 0
    """When the last of them was; 0: there is none."""
    browsers: int = 0
    """That run now."""
    rendering: int = 0
    """Pages that are in them."""
    sockets: int = 0
    """Fetches at once in one process; 0: it does not say."""
    slow_sockets: int = 0
    """Of these, for slow hosts."""
    browser_pages: int = 0
    """Pages at once in the browser of one process."""
    pace: float = 0.0
    """Pages a second of one process while it had hardly a free socket, in the last minute; 0: it always had some."""
    schema: str = ""
    """The newest schema of a database that its code knows: two builds of one version may differ in it."""

    def places(self, queue: str) -> int:
        """Fetches at once for a queue, in one process."""
        if is_for_browser(queue):
            return self.browser_pages
        return self.slow_sockets if queue.endswith(f".{Lane.SLOW}") else self.sockets


@frozen
class QueueDepth:
    """How much waits in one queue, over all jobs."""

    queue: str
    queued: int
    delayed: int
    leased: int
    jobs_due: int
    """Running jobs that have something to lease, now or later."""

    @property
    def pending(self) -> int:
        return self.queued + self.delayed + self.leased


@frozen
class ShardFigures:
    """One of the servers that hosts are spread over."""

    name: str
    slots: int
    memory: int | None
    """Bytes; None when it is away."""


@frozen
class Load:
    """How full the frontier is."""

    urls: int
    memory: int
    memory_limit: int
    """Redis' own, in bytes; 0 is none."""

    def most(self, allowed: int) -> int:
        """Bytes beyond which nothing more is taken in: as many as are allowed, or nine tenths of Redis' own limit."""
        return min(allowed, self.memory_limit * 9 // 10) if self.memory_limit else allowed
