"""Watching a job from the foreground: progress shown, results written as they come, Ctrl-C understood."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable
from contextlib import ExitStack
from datetime import timedelta
from typing import Protocol

from shoal.cli.crew import GRACE_S, Crew
from shoal.cli.deliver import Parts, deliver_now
from shoal.cli.interrupts import Interrupts
from shoal.cli.outage import SLOW_S, Outage, Question, ask_until_answered
from shoal.cli.output import Writer, open_writer
from shoal.cli.progress import Display, live_display, summary
from shoal.cli.talk import counted, print_json, say, status_json
from shoal.cli.view import View
from shoal.cli.webhook_view import tell_now
from shoal.core.job_status import JobStatus
from shoal.core.model import JobState
from shoal.core.spec import JobSpec
from shoal.errors import NotFound, ShoalError, Unavailable
from shoal.observe import set_up_logs
from shoal.output.formats import format_of
from shoal.output.sending import send_file
from shoal.output.source import Source, source_of
from shoal.waits import queue_in_vain, waits_of
from shoal.wiring import Platform

POLL_S = 0.4
FIRST_POLL_S = 0.1
"""Of a short job, which is over before anybody has looked four times."""
SHORT_S = 5.0
LOOK_S = 2.0
"""Between two looks for jobs that the frontier has lost, and samples: there may be no control worker for these."""
PAUSE_S = 3.0
"""To pause a job takes a moment; what takes longer waits for something that is away."""
INTERRUPTED = 130


class Lookout:
    """Brings jobs back that the frontier loses while one is watched, and takes samples for its history.

    Nobody waits for it: it may meet a lock.
    """

    def __init__(self, platform: Platform) -> None:
        self._recovery = platform.recovery
        self._housekeeper = platform.housekeeper
        self._next = 0.0
        self._told = False
        self._looking: Question[bool] | None = None

    def look(self) -> None:
        """Go on with what is being rebuilt, or see every now and then whether there is anything."""
        if self._looking is not None:
            if self._looking.wait(0):
                self._note(self._looking)
            return
        if time.monotonic() >= self._next:
            self._looking = Question(self._tick)

    def _tick(self) -> bool:
        busy = self._recovery.tick(timedelta(seconds=POLL_S))
        self._housekeeper.sample()
        return busy

    def _note(self, looked: Question[bool]) -> None:
        self._looking = None
        try:
            busy = looked.answer
        except Unavailable:
            busy = False  # whoever asks for the job's status next says so
        if busy and not self._told:
            say("Redis has lost what it knew: it is rebuilt from the database; stored pages are not fetched again")
        self._told = busy
        self._next = time.monotonic() + (0.0 if busy else LOOK_S)

    def look_now(self) -> None:
        self._next = 0.0

    def leave(self) -> None:
        """Let what is under way end, if it does not take long."""
        if self._looking is not None:
            self._looking.wait(SLOW_S)


class Catcher(Protocol):
    """Takes what is new of a job, again and again."""

    @property
    def written(self) -> int:
        """How much it has taken."""
        ...

    def catch_up(self) -> None: ...


class Tail:
    """Hands new results of a job to a writer: its items, or its pages when it has no fields."""

    def __init__(self, source: Source, writer: Writer) -> None:
        self._source = source
        self._writer = writer
        self._last = 0
        self.written = 0

    def catch_up(self) -> None:
        """Write all that is new."""
        for batch in self._source.batches(self._last):
            self._last = batch[-1][0]
            self._writer.write(record for _, record in batch)
            self.written += len(batch)


def follow(
    platform: Platform, job: str, crew: Crew, view: View, interrupts: Interrupts, tail: Catcher | None = None
) -> int:
    """Stay with the job until it ends or the user stops it; returns the exit code.

    `tail` takes what comes, in place of who writes results.
    """
    set_up_logs("error")  # what people must know is said
    try:
        return _follow(platform, job, crew, view, interrupts, tail)
    except KeyboardInterrupt:
        say(f"stopped at once; go on with: {_resume(job, view)}")
        raise
    except (ShoalError, OSError):
        Question(lambda: platform.control.pause(job)).wait(PAUSE_S)  # nobody would watch it
        say(f"stopped by an error; go on with: {_resume(job, view)}")
        raise


def _follow(platform: Platform, job: str, crew: Crew, view: View, interrupts: Interrupts, tail: Catcher | None) -> int:
    outage = Outage(quiet=view.quiet)

    def stopped() -> bool:
        return interrupts.asked

    spec = platform.control.job(job).spec
    with ExitStack() as stack:
        tail = tail or _open_tail(stack, platform, job, view)
        display = stack.enter_context(
            live_display(f"{job}  {spec.name}".strip(), quiet=view.quiet, results_on_screen=view.on_screen)
        )
        try:
            status = _watch(platform, job, spec, crew, display, tail, outage, stopped)
        except (Unavailable, NotFound):
            if not interrupts.asked:
                raise
            status = None
        asked = interrupts.asked and not (status and status.state.ended)
        if asked and not _stop(platform, job, crew, outage):
            say(f"stopped, while this was away: {outage.why}")
            say(f"nothing that is stored is lost; go on with: {_resume(job, view)}")
            return INTERRUPTED
        if tail:
            tail.catch_up()
    status = platform.control.status(job)
    written = tail.written if tail else _write_whole(platform, status, view)
    _tell(platform, status, view, written)
    delivered = not status.state.ended or deliver_now(platform, job, quiet=view.quiet)
    if not status.state.ended:
        return INTERRUPTED
    tell_now(platform, quiet=view.quiet)
    return 0 if status.state is JobState.FINISHED and status.counters.done > status.redirects and delivered else 1


def _stop(platform: Platform, job: str, crew: Crew, outage: Outage) -> bool:
    """Pause the job and end the workers. False when something is away: then nobody is waited for in vain."""
    say("stopping: running fetches may finish (Ctrl-C again to stop at once) …")
    if outage.lasts:
        crew.ask_to_stop()  # they have as long as it takes to find out whether the job can be paused
    pausing = Question(lambda: platform.control.pause(job))
    well = pausing.wait(SLOW_S if outage.lasts else PAUSE_S) and pausing.succeeded and not outage.lasts
    crew.stop(None if well else GRACE_S)
    return well


def _open_tail(stack: ExitStack, platform: Platform, job: str, view: View) -> Tail | None:
    if view.output is None or view.is_whole:
        return None
    source, kind = _results(platform, job), format_of(view.output, view.format)
    if kind == "csv" and not source.closed:  # which columns there are is known when all rows are
        return None
    return Tail(source, stack.enter_context(open_writer(view.output, kind, source.names)))


def _results(platform: Platform, job: str) -> Source:
    return source_of(platform.pages, job, platform.control.job(job).spec)


def _watch(
    platform: Platform,
    job: str,
    spec: JobSpec,
    crew: Crew,
    display: Display,
    tail: Catcher | None,
    outage: Outage,
    stopped: Callable[[], bool],
) -> JobStatus:
    lookout, parts, before = Lookout(platform), Parts(platform, job, spec), -1
    long_from = time.monotonic() + SHORT_S
    while True:
        lookout.look()
        parts.tend()
        try:
            status, idle = ask_until_answered(lambda: _look(platform, job, spec, crew), outage, stopped)
        except NotFound:
            if platform.jobs.get(job) is None or stopped():
                raise
            lookout.look_now()
            time.sleep(POLL_S)
            continue
        stands = before in (-1, status.counters.done)
        display.show(status, outage.answered(status) or (idle if stands else ""))
        before = status.counters.done
        if tail:
            ask_until_answered(tail.catch_up, outage, stopped)
        if status.state is not JobState.RUNNING or stopped():
            lookout.leave()
            parts.leave(SLOW_S)
            if not status.troubles and not stopped():
                outage.end()
            return status
        crew.check()
        time.sleep(FIRST_POLL_S if time.monotonic() < long_from else POLL_S)


def _look(platform: Platform, job: str, spec: JobSpec, crew: Crew) -> tuple[JobStatus, str]:
    """A job's status and, when it waits for want of workers, a word on these."""
    status = platform.control.status(job)
    if status.state is not JobState.RUNNING or status.counters.leased or status.troubles:
        return status, ""
    idle = crew.standstill(platform.watch.workers()) if status.counters.queued else ""
    if not idle and (queue := queue_in_vain(platform, status, spec)):
        idle = f"no worker serves {queue}: shoal worker --queues {queue}"
    return status, idle


def _write_whole(platform: Platform, status: JobStatus, view: View) -> int | None:
    """A file that can be there only as a whole; None when there is none to write, or the job has not ended."""
    if view.output is None or not status.state.ended:
        return None
    return send_file(_results(platform, status.job), format_of(view.output, view.format), view.output).rows


def _tell(platform: Platform, status: JobStatus, view: View, written: int | None) -> None:
    if not view.quiet:
        for text in summary(status):
            say(text)
        if written is not None and view.output != "-":
            say(f"  {counted(written, 'result')} in {view.output}")
        elif view.is_whole and not status.state.ended:
            say(f"  {view.output} is written when the job has ended")
        if status.state is JobState.FINISHED and status.counters.done == status.redirects:
            _tell_why(platform, status.job)
        say(_next_step(status, view))
    elif not status.state.ended:
        say(_next_step(status, view))
    if view.json:
        print_json({**status_json(status), "waiting_for": waits_of(platform, status)})


def _tell_why(platform: Platform, job: str) -> None:
    """Nothing was fetched: the first failures in full are more help than sums."""
    for number, letter in enumerate(platform.pages.dead_letters(job)):
        if number == 3:
            break
        say(f"  {letter.url}: {letter.reason}" + (f" ({letter.detail})" if letter.detail else ""))


def _next_step(status: JobStatus, view: View) -> str:
    if not status.state.ended:
        return f"go on with: {_resume(status.job, view)}"
    if status.counters.done == status.redirects:
        return f"see why: shoal dead {status.job}"
    failed = f"; what failed: shoal dead {status.job}" if status.counters.dead else ""
    return f"see more: shoal results {status.job}{failed}"


def _resume(job: str, view: View) -> str:
    """The command that goes on with the same output."""
    words = ["shoal", "resume", job]
    if view.output:
        words += ["-o", view.output]
    if view.format:
        words += ["--format", view.format]
    return shlex.join(words)
