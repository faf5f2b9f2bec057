"""The live panel on a terminal."""

from __future__ import annotations

from types import TracebackType

from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from shoal.cli.progress import Speed, failures
from shoal.cli.talk import human_bytes, human_seconds
from shoal.core.job_status import JobStatus
from shoal.core.trouble import explain


class LivePanel:
    """Redraws one panel as the job goes on."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._speed = Speed()
        self._live = Live(console=Console(stderr=True), refresh_per_second=4, transient=True)

    def __enter__(self) -> LivePanel:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def show(self, status: JobStatus, note: str = "") -> None:
        """Draw a status."""
        self._speed.note(status)
        self._live.update(render(self._title, status, self._speed, note))


def render(title: str, status: JobStatus, speed: Speed, note: str = "") -> Panel:
    """The panel for a status."""
    c = status.counters
    left = speed.seconds_left(status)
    facts = Table.grid(padding=(0, 2))
    facts.add_row("pages/s", f"[bold]{speed.pages_per_second:.1f}[/]", "elapsed", human_seconds(_seconds(status)))
    facts.add_row("done", f"[green]{c.done}[/]", "received", human_bytes(c.received))
    facts.add_row("queued", str(c.queued), "in flight", str(c.leased))
    facts.add_row("to retry", str(c.delayed), "failed", f"[red]{c.dead}[/]" if c.dead else "0")
    facts.add_row("seen before", str(c.duplicates), "left out", str(c.filtered))
    facts.add_row("known left", human_seconds(left) if left is not None else "…", "state", status.state.value)
    bar = Table.grid(expand=True)  # a bar by itself ends without a line break
    bar.add_row(ProgressBar(total=max(1, c.admitted), completed=c.admitted - c.pending))
    return Panel(Group(bar, facts, *_details(status, note)), title=title, border_style="cyan")


def _details(status: JobStatus, note: str) -> list[Text]:
    lines: list[Text] = []
    if why := note or explain(status.troubles):
        lines.append(Text(why, style="yellow"))
    if reasons := failures(status):
        told = "  ".join(f"{reason} {count}" for reason, count in reasons[:5])
        lines.append(Text(f"not fetched: {told}", style="red"))
    if status.slowest:
        told = "  ".join(f"{speed.host} {speed.latency_ms} ms" for speed in status.slowest[:3])
        lines.append(Text(f"slowest: {told}", style="dim"))
    return lines


def _seconds(status: JobStatus) -> float:
    return status.elapsed.total_seconds()
