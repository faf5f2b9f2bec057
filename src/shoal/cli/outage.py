"""When Redis or the database does not answer a command: it waits, says so, and can be left at any time.

Each question is asked in a thread of its own, since a call can hang for half a minute: who watches wants to know, or to
leave, long before that. An outage has one clock, whoever noticed it first: the command itself, or a worker.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Generic, TypeVar

from shoal.cli.talk import human_seconds, say
from shoal.core.job_status import JobStatus
from shoal.core.trouble import explain, gist, worst
from shoal.errors import Unavailable

SAY_AFTER_S, SAY_EVERY_S = 2.0, 5.0
ASK_AGAIN_S = 1.0
LISTEN_S = 0.05
SLOW_S = 1.0
"""An answer that takes longer may be the beginning of an outage; who wants to leave waits no longer for it."""
CALM_S = 1.0
"""An outage is over when there was no sign of it for so long."""
NO_ANSWER = "Redis or the database does not answer"

T = TypeVar("T")


class Question(Generic[T]):
    """A call that is made in a thread, which may be left alone with it."""

    def __init__(self, ask: Callable[[], T]) -> None:
        self.asked_at = time.monotonic()
        self._ask = ask
        self._answers: list[T] = []
        self._error: BaseException | None = None
        self._done = threading.Event()
        threading.Thread(target=self._run, name="question", daemon=True).start()

    def _run(self) -> None:
        try:
            self._answers.append(self._ask())
        except BaseException as exc:  # noqa: BLE001 - raised again for who waits for the answer
            self._error = exc
        finally:
            self._done.set()

    def wait(self, seconds: float) -> bool:
        """Is there an answer, or an error, after at most this time?"""
        return self._done.wait(seconds)

    @property
    def succeeded(self) -> bool:
        """Is there an answer, and not an error?"""
        return bool(self._answers)

    @property
    def age(self) -> float:
        return time.monotonic() - self.asked_at

    @property
    def answer(self) -> T:
        """The answer, which is there, or the error that the call ended with."""
        if self._error is not None:
            raise self._error
        return self._answers[0]


class Outage:
    """Nothing, or what is away at the moment: said after a moment and now and then, until it is over."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._quiet = quiet
        self._since: float | None = None
        self._calm_since: float | None = None
        self._again = 0.0
        self._why = NO_ANSWER
        self._told = False

    @property
    def lasts(self) -> bool:
        """Is something away?"""
        return self._since is not None

    @property
    def why(self) -> str:
        return self._why

    def unanswered(self, asked_at: float, error: Unavailable | None = None) -> None:
        """The question asked at this time (`time.monotonic`) has no answer so far, or this instead of one."""
        now = time.monotonic()
        since = self._began(asked_at)
        if error is not None:
            self._why = gist(error)
        if now - since >= SAY_AFTER_S and now >= self._again:
            self._again, self._told = now + SAY_EVERY_S, True
            say(f"paused for {human_seconds(now - since, whole=True)}: {self._why}; waiting for it")

    def answered(self, status: JobStatus | None = None) -> str:
        """There is an answer. If it is a status by which workers wait for something: what to say beside it."""
        now = time.monotonic()
        if status and status.troubles:
            longest, _ = worst(status.troubles)[0]
            lasted = now - self._began(now - longest.lasted_ms / 1000)
            self._why = longest.message
            self._told = self._told or (lasted >= SAY_AFTER_S and not self._quiet)
            return _with_clock(status, lasted) if lasted >= 1 else ""
        if self._since is not None and status is not None:
            self._calm_since = now if self._calm_since is None else self._calm_since
            if now - self._calm_since >= CALM_S:
                self.end()
        return ""

    def end(self) -> None:
        """Say that it is over, if it was said that it began."""
        if self._since is not None and self._told:
            until = self._calm_since or time.monotonic()
            say(f"going on after {human_seconds(until - self._since, whole=True)}")
        self._since = self._calm_since = None
        self._again, self._why, self._told = 0.0, NO_ANSWER, False

    def _began(self, since: float) -> float:
        self._calm_since = None
        self._since = since if self._since is None else min(self._since, since)
        return self._since


def _with_clock(status: JobStatus, lasted: float) -> str:
    """What the workers say, with the clock of the outage in place of theirs."""
    _, _, why = (explain(status.troubles) or "").partition(": ")
    return f"paused for {human_seconds(lasted, whole=True)}: {why}"


def ask_until_answered(ask: Callable[[], T], outage: Outage, stopped: Callable[[], bool] = lambda: False) -> T:
    """Ask again until Redis and the database answer; raises Unavailable when told to stop before."""
    while True:
        question = Question(ask)
        while not question.wait(LISTEN_S):
            if question.age >= SLOW_S:
                outage.unanswered(question.asked_at)
                if stopped():
                    raise Unavailable(outage.why)
        try:
            return question.answer
        except Unavailable as exc:
            outage.unanswered(question.asked_at, exc)
            if stopped():
                raise
            time.sleep(ASK_AGAIN_S)


@contextmanager
def slow_is_said(what: str) -> Generator[None]:
    """While this lasts for longer than a moment, say once what is waited for."""
    timer = threading.Timer(SAY_AFTER_S, say, [f"waiting for {what} …"])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
