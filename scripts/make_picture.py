"""Draws docs/progress.svg: the panel that `shoal crawl` shows, for a made-up job. Run it when the panel changes.

python scripts/make_picture.py
"""

from __future__ import annotations

import re
from io import StringIO
from pathlib import Path

from rich.console import Console

from shoal.cli.panel import render
from shoal.cli.progress import Speed
from shoal.core.host_status import HostSpeed
from shoal.core.job_status import Counters, JobStatus
from shoal.core.model import JobState

PICTURE = Path(__file__).parent.parent / "docs" / "progress.svg"
WIDTH = 100  # columns

_STARTED_MS = 1_750_000_000_000
_WEB_FONT = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)
_COMMENT = re.compile(r"<!--.*?-->\s*", re.DOTALL)


def main() -> None:
    """Write the picture."""
    speed = Speed()
    speed.note(_status(seconds=41.0, done=1_148))
    now = _status(seconds=46.0, done=1_309)
    speed.note(now)
    console = Console(record=True, width=WIDTH, file=StringIO())
    console.print(render("k3x9mq7wbe  bookshops", now, speed))
    svg = console.export_svg(title="shoal crawl", unique_id="shoal")
    PICTURE.write_text(_without_web(svg), encoding="utf-8")


def _status(*, seconds: float, done: int) -> JobStatus:
    """A crawl of a dozen shops, some way through; its sums reconcile."""
    queued, delayed, leased, dead, dropped, filtered = 2_317, 3, 24, 14, 9, 468
    admitted = queued + delayed + leased + done + dead + dropped
    counters = Counters(
        seen=admitted + filtered,
        admitted=admitted,
        filtered=filtered,
        duplicates=61_204,
        queued=queued,
        delayed=delayed,
        leased=leased,
        done=done,
        dead=dead,
        dropped=dropped,
        retries=17,
        received=done * 24_300,
    )
    assert counters.reconciles
    return JobStatus(
        job="k3x9mq7wbe",
        state=JobState.RUNNING,
        counters=counters,
        reasons={"dead:http_404": 12, "robots:robots_disallowed": 9, "dead:connection_lost": 2},
        slowest=(HostSpeed("tidewater.example", 412), HostSpeed("books.example", 87), HostSpeed("maps.example", 35)),
        started_ms=_STARTED_MS,
        now_ms=_STARTED_MS + round(seconds * 1000),
    )


def _without_web(svg: str) -> str:
    """The picture without the fonts that a viewer would fetch from the web."""
    return _COMMENT.sub("", _WEB_FONT.sub("", svg))


if __name__ == "__main__":
    main()
