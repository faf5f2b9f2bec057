"""history: how a job, or everything, has been doing."""

from __future__ import annotations

from typing import Annotated

import typer

from shoal.cli import options as opt

# Variables of their own: what somebody exported for another command must not cut a chart.
OfJob = Annotated[
    str | None,
    typer.Argument(help="A job's id, or its first letters; without it, everything together.", show_default=False),
]
Since = Annotated[
    str | None,
    typer.Option("--since", envvar="SHOAL_HISTORY_SINCE", help="From this on: 90s, 2h, 7d, or 2026-11-16T03:00."),
]
Until = Annotated[
    str | None, typer.Option("--until", envvar="SHOAL_HISTORY_UNTIL", help="Up to this: an age or a time, likewise.")
]
Points = Annotated[
    int | None,
    typer.Option("--points", envvar="SHOAL_HISTORY_POINTS", min=2, max=1_000, show_default=False,
                 help="At most so many steps: 60 for people, 120 with --json."),
]  # fmt: skip


def history(
    job: OfJob = None,
    since: Since = None,
    until: Until = None,
    points: Points = None,
    json: opt.Json = False,
) -> None:
    """Show how a job has been doing, or everything: pages a second, errors by reason, what waits, for up to a week.

    shoal history k3x9

    shoal history --since 2h

    shoal history k3x9 --json | jq '.points[].pages_per_s'
    """
    from shoal.cli import show_history
    from shoal.cli.host_audit import read_period

    show_history.show_history(job, read_period(since, until), points, json=json)
