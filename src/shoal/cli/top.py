"""`shoal top`: the fleet on a terminal, alive."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shoal.cli import options as opt
from shoal.errors import InputError, ShoalError, Unavailable

if TYPE_CHECKING:
    from shoal.cli.top_keys import Keyboard
    from shoal.cli.top_look import FleetLook
    from shoal.cli.top_view import Choice
    from shoal.wiring import Platform

Every = Annotated[
    float, typer.Option("--every", envvar="SHOAL_EVERY", min=0.2, max=60, help="Seconds between two looks.")
]


def top(every: Every = 1.0, json: opt.Json = False) -> None:
    """Watch jobs, queues, hosts and workers; sort, pause and cancel by keys.

    shoal top

    shoal top --json | jq .queues
    """
    from shoal.settings import read_settings
    from shoal.wiring import open_platform

    if not json and not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise InputError("shoal top draws on a terminal; for programs there is --json, which looks once")
    with open_platform(read_settings()) as platform:
        if json:
            _print(platform)
        else:
            _watch(platform, every)


def _print(platform: Platform) -> None:
    from shoal.api import present
    from shoal.cli.talk import print_json
    from shoal.cli.top_look import look_at_fleet

    look = look_at_fleet(platform)
    print_json(
        {
            "pages": look.pages,
            "memory_bytes": look.load.memory,
            "jobs": [present.job(row) for row in look.jobs],
            "queues": [present.queue(depth, look.workers) for depth in look.queues],
            "hosts": [{"host": each.host, "state": each.state, "reason": each.reason} for each in look.hosts],
            "workers": [present.worker(beat) for beat in look.workers],
            "troubles": [present.trouble(met) for met in look.troubles],
        }
    )


def _watch(platform: Platform, every: float) -> None:
    from rich.console import Console
    from rich.live import Live

    from shoal.cli.top_keys import keyboard

    console = Console()
    with keyboard() as keys, Live(console=console, screen=True, auto_refresh=False) as live:
        _Screen(platform, live, console).run(keys, every)


class _Screen:
    """What is shown, and what a key does to it."""

    def __init__(self, platform: Platform, live: Any, console: Any) -> None:
        from shoal.cli.top_view import Choice

        self._platform = platform
        self._live = live
        self._console = console
        self._look: FleetLook | None = None
        self._before: FleetLook | None = None
        self._choice: Choice = Choice()

    def run(self, keys: Keyboard, every: float) -> None:
        due = 0.0
        while True:
            if time.monotonic() >= due:
                self._refresh()
                due = time.monotonic() + every
            self._draw()
            key = keys.wait(due - time.monotonic())
            if key == "q":
                return
            if key:
                self._press(key)

    def _refresh(self) -> None:
        from shoal.cli.top_look import look_at_fleet

        try:
            look = look_at_fleet(self._platform)
        except Unavailable as exc:
            self._choice = replace(self._choice, note=f"what you see is not new: {exc}")
            return
        if self._choice.note.startswith("what you see"):
            self._choice = replace(self._choice, note="")
        self._before, self._look = self._look, look
        if self._choice.job not in {row.id for row in look.jobs}:
            self._choice = replace(self._choice, job="").moved(look.jobs, 1)

    def _draw(self) -> None:
        from rich.text import Text

        from shoal.cli.top_view import draw

        shown = Text(self._choice.note or "looking…")
        if self._look:
            shown = draw(self._look, self._before, self._choice, self._console.height)
        self._live.update(shown, refresh=True)

    def _press(self, key: str) -> None:
        from shoal.cli.top_view import BELOW, COLUMNS

        choice = self._choice
        if choice.asked:
            self._choice = replace(choice, asked="", note="")
            if key == "y":
                self._do("cancel", choice.asked)
            return
        jobs = self._look.jobs if self._look else ()
        match key:
            case "up" | "k":
                self._choice = choice.moved(jobs, -1)
            case "down" | "j":
                self._choice = choice.moved(jobs, 1)
            case "s":
                self._choice = replace(choice, sort=(choice.sort + 1) % len(COLUMNS))
            case "r":
                self._choice = replace(choice, down=not choice.down)
            case "tab":
                self._choice = replace(choice, below=(choice.below + 1) % len(BELOW))
            case "p" if choice.job:
                row = next(row for row in jobs if row.id == choice.job)
                self._do("resume" if row.state.value == "paused" else "pause", choice.job)
            case "c" if choice.job:
                self._choice = replace(choice, asked=choice.job, note=f"cancel {choice.job}? y or n")
            case _:
                pass

    def _do(self, what: str, job: str) -> None:
        try:
            state = getattr(self._platform.control, what)(job)
            note = f"{job} is {state.value}"
        except ShoalError as exc:
            note = str(exc)
        self._choice = replace(self._choice, note=note)
        self._refresh()
