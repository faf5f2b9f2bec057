"""What `shoal extract` does: an extraction begun, and watched with workers that are brought along."""

from __future__ import annotations

import sys
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from shoal.cli.crew import GRACE_S, Crew
from shoal.cli.follow import INTERRUPTED, POLL_S
from shoal.cli.interrupts import Interrupts, noted_interrupts
from shoal.cli.jobfile import SCHEDULE, read_job_file
from shoal.cli.outage import Outage, ask_until_answered
from shoal.cli.progress import PLAIN_EVERY_S
from shoal.cli.show import opened_platform
from shoal.cli.talk import counted, print_json, say
from shoal.cli.versions import describe
from shoal.cli.view import View
from shoal.core.field import split_option
from shoal.core.frozen import frozen
from shoal.core.versions import read_extraction
from shoal.errors import InputError, Unavailable
from shoal.home import prepare_home
from shoal.observe import set_up_logs
from shoal.settings import Settings, read_settings
from shoal.store.extractions import Extraction, ExtractionState, Progress
from shoal.wiring import Platform, open_platform

OFFER_S = 5.0
"""There may be no housekeeping that does it."""


@frozen
class Asked:
    """What the command line says."""

    job: str
    spec: Path | None
    fields: Sequence[str]
    """As NAME=SELECTOR."""
    flags: Mapping[str, Any]
    """Other settings, None or empty when they were not given."""
    version: str | None

    @property
    def is_new(self) -> bool:
        """Does it say what to take?"""
        return self.spec is not None or bool(self.fields) or any(self.flags.values())


def extract(asked: Asked, workers: int, *, detach: bool, view: View) -> int:
    """Begin an extraction, or go on with one; the exit code."""
    settings_given = _read(asked) if asked.is_new else None
    if settings_given is None and asked.version is None:
        raise InputError("say what to take: --spec new.yaml or --field title=h1; or --as v2 to go on with that version")
    settings = read_settings()
    prepare_home(settings.home)
    with noted_interrupts() as interrupts, Crew(settings, workers) as crew:
        return _run(asked, settings_given, settings, crew, view, interrupts, detach=detach)


def _run(
    asked: Asked,
    given: Mapping[str, Any] | None,
    settings: Settings,
    crew: Crew,
    view: View,
    interrupts: Interrupts,
    *,
    detach: bool,
) -> int:
    with open_platform(settings, rings=crew.absent) as platform:
        interrupts.check()
        job = platform.control.job(platform.control.find(asked.job))
        if given is None:
            extraction = platform.again.find(job.id, asked.version or "")
            platform.again.offer(extraction)
        else:
            extraction = platform.again.start(job, given, asked.version)
        if detach:
            if view.json:
                print_json({"job": job.id, "version": extraction.version})
            else:
                print(extraction.version)
            return 0
        if not view.quiet:
            say(f"job {job.id}, {extraction.version}: {counted(extraction.total, 'stored page')}; Ctrl-C stops, "
                "nothing is lost")  # fmt: skip
        code = _follow(platform, extraction, crew, view, interrupts)
        crew.stop()
        return code


def _read(asked: Asked) -> dict[str, Any]:
    """The settings from a file and options; options win."""
    values = read_job_file(asked.spec) if asked.spec else {}
    values.pop(SCHEDULE, None)
    where = str(asked.spec) if asked.spec else "the spec"
    values |= {name: value for name, value in asked.flags.items() if value}
    if fields := dict(split_option(option) for option in asked.fields):
        known = values.get("fields")
        values["fields"] = {**known, **fields} if isinstance(known, dict) else fields
    settings, ignored = read_extraction(values, where)
    if ignored:
        say(f"{where}: {', '.join(ignored)} say nothing about what is taken, and change nothing here")
    return settings


def _follow(platform: Platform, extraction: Extraction, crew: Crew, view: View, interrupts: Interrupts) -> int:
    """Stay with it until it ends or the user stops."""
    set_up_logs("error")  # what people must know is said
    outage, offered_at = Outage(quiet=view.quiet), time.monotonic()
    again = f"shoal extract {extraction.job} --as {extraction.version}"
    with _display(extraction, quiet=view.quiet) as display:
        while True:
            progress = ask_until_answered(
                lambda: platform.again.progress(extraction.id), outage, lambda: interrupts.asked
            )
            display.show(progress)
            if progress.extraction.state is not ExtractionState.RUNNING or interrupts.asked:
                break
            crew.check()
            if time.monotonic() - offered_at > OFFER_S:
                offered_at = time.monotonic()
                _offer(platform, extraction)
            time.sleep(POLL_S)
    if progress.extraction.state is ExtractionState.RUNNING:
        crew.stop(GRACE_S)
        say(f"stopped; what is done stays. Go on with: {again}")
        return INTERRUPTED
    _tell(progress, view)
    return 0 if progress.extraction.state is ExtractionState.DONE else 1


def _offer(platform: Platform, extraction: Extraction) -> None:
    try:
        platform.again.offer(extraction)
    except Unavailable:
        return  # whoever asks for the progress next says so


def _tell(progress: Progress, view: View) -> None:
    job, version = progress.extraction.job, progress.extraction.version
    if not view.quiet:
        for line in describe(progress):
            say(line)
        if progress.extraction.state is ExtractionState.DONE:
            say(f"see them: shoal results {job}; what has changed: shoal diff {job} v1 {version}")
        if progress.quarantined:
            say(f"what breaks the contract, and why: shoal quarantine {job} --version {version}")
    if view.json:
        print_json(progress.record)


def drop(job: str, version: str, *, json: bool) -> None:
    """Give a version up, and remove its items."""
    with opened_platform() as platform:
        found = platform.control.find(job)
        platform.again.drop(found, version)
        platform.again.clear(found, version)
    if json:
        print_json({"job": found, "version": version, "dropped": True})
    else:
        say(f"{version} of job {found} is gone")


class Display(Protocol):
    """Shows how far an extraction is."""

    def show(self, progress: Progress) -> None: ...


class _Silent:
    def show(self, progress: Progress) -> None:
        del progress


class _Lines:
    """A line every few seconds, for logs and pipes."""

    def __init__(self) -> None:
        self._next = time.monotonic() + PLAIN_EVERY_S

    def show(self, progress: Progress) -> None:
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + PLAIN_EVERY_S
            say(describe(progress)[0])


class _Bar:
    """A bar on a terminal."""

    def __init__(self, bar: Any, task: Any) -> None:
        self._bar = bar
        self._task = task

    def show(self, progress: Progress) -> None:
        self._bar.update(self._task, completed=progress.pages, items=counted(progress.items, "item"))


@contextmanager
def _display(extraction: Extraction, *, quiet: bool) -> Generator[Display]:
    if quiet:
        yield _Silent()
    elif not sys.stderr.isatty():
        yield _Lines()
    else:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (
            *(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("pages")),
            *(TextColumn("{task.fields[items]}"), TimeRemainingColumn()),
        )
        with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
            yield _Bar(bar, bar.add_task(extraction.version, total=extraction.total, items=""))
