"""Extraction from stored pages in a process of a worker: one shift of a bounded time for each ring.

Nothing is fetched, so there is no event loop to keep free; only pages that are heavy go to a process apart, as they do
when they are fetched.
"""

from __future__ import annotations

import asyncio
import time

import structlog

from shoal.again.shift import Shift, ShiftReport, Tools
from shoal.errors import Unavailable
from shoal.extract.findings import Findings, Wanted
from shoal.intake.ring import PARTS_RING
from shoal.wiring import Platform
from shoal.worker.doorbell import Doorbell
from shoal.worker.marks import Mark
from shoal.worker.reader import Reader
from shoal.worker.runtime import Lifeline, termination_waits

log = structlog.get_logger()

SHIFT_S = 30.0
"""Then others have their turn: slices wait in the same queue."""
MARK_S = 1.0


class Extracting:
    """Answers rings for parts of extractions."""

    def __init__(
        self, platform: Platform, bell: Doorbell, lifeline: Lifeline, mark: Mark, *, alone: bool = False
    ) -> None:
        """`alone`: as in `Runtime`."""
        self._platform = platform
        self._alone = alone
        self._bell = bell
        self._lifeline = lifeline
        self._mark = mark

    def answer(self, queue: str) -> ShiftReport:
        """One shift, to its end; what is left then is rung for."""
        platform = self._platform
        platform.frontier.answer_ring(PARTS_RING + queue)
        reader = Reader()
        try:
            with asyncio.Runner() as runner, termination_waits(alone=self._alone) as asked:

                def heavy(body: bytes, wanted: Wanted) -> Findings:
                    self._mark.make()
                    return runner.run(reader.read_apart(body, wanted))

                watch = _Watch(self._mark, self._lifeline, time.monotonic() + SHIFT_S)
                tools = Tools(
                    parts=platform.frontier.parts,
                    store=platform.extractions,
                    jobs=platform.jobs,
                    pages=platform.pages,
                    archive=platform.archive,
                    again=platform.again,
                    heavy=heavy,
                    call=lambda: self._bell.ring(PARTS_RING + queue),
                    stopped=lambda: asked.came or watch.is_over(),
                )
                try:
                    report = Shift(tools).run()
                finally:
                    runner.run(reader.end())
        except Unavailable as exc:
            log.warning("shift_failed", error=str(exc))  # what is away is told by slices; parts wait for it
            return ShiftReport()
        finally:
            self._mark.clear()
        if report.work_remains and not watch.cut:
            self._bell.ring(PARTS_RING + queue)
        return report


class _Watch:
    """Gives signs of life, and knows when to stop."""

    def __init__(self, mark: Mark, lifeline: Lifeline, until: float) -> None:
        self._mark = mark
        self._lifeline = lifeline
        self._until = until
        self._looked_at = 0.0
        self.cut = False
        """Does the worker stop?"""

    def is_over(self) -> bool:
        now = time.monotonic()
        if now - self._looked_at >= MARK_S / 10:
            self._looked_at = now
            self._mark.make()
            self.cut = self._lifeline.is_cut
        return self.cut or now >= self._until
