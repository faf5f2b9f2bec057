"""`shoal logs`: the lines of all log files of this home, in the order of time."""

from __future__ import annotations

import sys
import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from shoal.cli import options as opt
from shoal.cli.log_files import Follower, Tally, all_lines, last_lines, opened
from shoal.cli.log_lines import LogLine, Wanted, for_people, for_programs
from shoal.cli.talk import counted, say
from shoal.core.values import read_moment
from shoal.errors import InputError, ShoalError
from shoal.settings import read_settings

LOOK_S = 0.2
"""Between two looks at files that grow."""

# Variables of their own: what somebody exported for a crawl must not hide lines.
OfJob = Annotated[
    str | None, typer.Option("--job", "-j", envvar="SHOAL_LOGS_JOB", help="Of this job: its id, or its first letters.")
]
OfRequest = Annotated[
    str | None, typer.Option("--request-id", envvar="SHOAL_LOGS_REQUEST_ID", help="Of this submission or request.")
]
Level = Annotated[
    str, typer.Option("--level", envvar="SHOAL_LOGS_LEVEL", help="At least this: debug, info, warning, error.")
]
Event = Annotated[
    str | None, typer.Option("--event", envvar="SHOAL_LOGS_EVENT", help="Of this event, and how many were left out.")
]
OfHost = Annotated[str | None, typer.Option("--host", envvar="SHOAL_LOGS_HOST", help="About pages of this host.")]
OfSlice = Annotated[
    str | None,
    typer.Option("--slice", envvar="SHOAL_LOGS_SLICE", help="Of this slice: its first letters, or its task's id."),
]
OfWorker = Annotated[
    str | None, typer.Option("--worker", envvar="SHOAL_LOGS_WORKER", help="Of this worker: its name, or how it begins.")
]
Since = Annotated[
    str | None,
    typer.Option("--since", envvar="SHOAL_LOGS_SINCE", help="Not older than this: 10m, 2h, or 2026-11-16T03:00."),
]
Folder = Annotated[
    Path | None,
    typer.Option("--folder", envvar="SHOAL_LOGS_FOLDER", show_default=False,
                 help="The logs (*.log) of this folder, in place of those of SHOAL_HOME."),
]  # fmt: skip
Number = Annotated[
    int, typer.Option("--number", "-n", envvar="SHOAL_LOGS_NUMBER", min=0, max=10_000,
                      help="The last so many lines; 0: all."),
]  # fmt: skip
Follow = Annotated[
    bool, typer.Option("--follow", "-f", envvar="SHOAL_LOGS_FOLLOW", help="Go on with what comes, until Ctrl-C.")
]


def logs(
    job: OfJob = None,
    request_id: OfRequest = None,
    level: Level = "debug",
    event: Event = None,
    host: OfHost = None,
    slice: OfSlice = None,  # noqa: A002 - the flag's name
    worker: OfWorker = None,
    since: Since = None,
    number: Number = 100,
    follow: Follow = False,
    folder: Folder = None,
    json: opt.Json = False,
) -> None:
    """Show the log lines of this machine: of the API and the workers that commands started here.

    shoal logs --job nyup5fuweh --level warning

    shoal logs --since 10m -n 0 --json | jq .event

    shoal logs --follow

    shoal logs --folder /var/log/shoal --request-id nightly-42
    """
    folder = folder or read_settings().home / "logs"
    wanted = Wanted(job, request_id, event, host, level, _moment(since), slice, worker)
    printer = _Printer(as_json=json)
    tally = Tally()
    try:
        _show(folder, wanted, number, printer, tally, follow=follow)
    except KeyboardInterrupt:
        if not follow:
            raise
    finally:
        with suppress(BrokenPipeError):
            printer.flush()
    if tally.broken:
        say(f"{counted(tally.broken, 'line')} passed over, which are no log lines: look into {folder}")
    if not printer.printed and not follow:
        say(f"no line in {counted(tally.files, 'file')} of {folder} is one of those")


def _show(folder: Path, wanted: Wanted, number: int, printer: _Printer, tally: Tally, *, follow: bool) -> None:
    with opened(folder) as files:
        tally.files = len(files)
        if not files and not follow:
            raise ShoalError(
                f"there are no logs in {folder}: `shoal up` and `shoal crawl` write them there; "
                "`shoal worker` and `shoal api` write to standard error, or to SHOAL_LOG_FILE (see --folder)"
            )
        if not files:
            say(f"there are no logs in {folder} yet; waiting for them")
        if number:
            printer.print_all(last_lines(files.values(), wanted, number, tally))
        else:
            for line in all_lines(files.values(), wanted, tally):
                printer.print(line)
        follower = Follower(folder, files, wanted, tally)
        while follow:
            printer.print_all(follower.look())
            time.sleep(LOOK_S)


class _Printer:
    """Lines on standard output."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        self._colours = sys.stdout.isatty() and _likes_colours()
        self.printed = 0

    def print(self, line: LogLine) -> None:
        self.printed += 1
        text = for_programs(line) if self._as_json else for_people(line, colours=self._colours)
        sys.stdout.write(f"{text}\n")

    def print_all(self, lines: list[LogLine]) -> None:
        for line in lines:
            self.print(line)
        self.flush()

    def flush(self) -> None:
        sys.stdout.flush()


def _likes_colours() -> bool:
    """Does the user say otherwise, by NO_COLOR or the kind of terminal?"""
    from rich.console import Console

    return Console().color_system is not None and not Console().no_color


def _moment(text: str | None) -> str:
    """As lines write it."""
    if text is None:
        return ""
    try:
        at = read_moment(text, time.time()) / 1000
        return datetime.fromtimestamp(at, UTC).isoformat().removesuffix("+00:00")
    except (ValueError, OverflowError, OSError) as exc:
        raise InputError(
            f"--since {text!r}: write an age such as 10m or 2h, or a time such as 2026-11-16T03:00"
        ) from exc
