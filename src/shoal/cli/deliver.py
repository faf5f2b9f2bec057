"""What the commands say and do about deliveries."""

from __future__ import annotations

import time

import typer

from shoal.cli.outage import Question
from shoal.cli.talk import counted, print_json, say
from shoal.core.spec import JobSpec
from shoal.errors import Conflict
from shoal.output.asking import ask_again
from shoal.store.deliveries import Delivery, DeliveryState
from shoal.store.extractions import ExtractionState
from shoal.wiring import Platform

POLL_S = 0.3
LOOK_S = 1.0


def described(delivery: Delivery) -> str:
    """A delivery in a line."""
    parts = f" in {counted(len(delivery.parts), 'part')}" if delivery.parts else ""
    note = f" ({delivery.error})" if delivery.error else ""
    return f"{delivery.state.value}: {counted(delivery.rows, 'row')}{parts} to {delivery.output.place}{note}"


def deliver(job: str, to: str | None, kind: str | None, version: str | None, *, json: bool) -> None:
    """Deliver a job's results once more, or to somewhere else."""
    from shoal.cli.show import opened_platform

    with opened_platform() as platform:
        row = platform.control.job(platform.control.find(job))
        chosen = platform.extractions.choose(row.id, row.spec, version).name
        _check_complete(platform, row.id, chosen)
        now = platform.frontier.audit.now_ms()
        numbers = ask_again(platform.deliveries, row, to, kind, chosen, now)
        found = [_finish(platform, number) for number in numbers]
    if json:
        print_json([_shown(each) for each in found])
    for each in found if not json else ():
        say(described(each))
    if not all(each.state is DeliveryState.DELIVERED for each in found):
        raise typer.Exit(1)


def deliver_now(platform: Platform, job: str, *, quiet: bool) -> bool:
    """Let the results of a job that has ended arrive, whoever brings them; True when all have."""
    waiting = platform.deliveries.of_job(job)
    found = [_finish(platform, each.id) for each in waiting]
    for each in found:
        if not quiet or each.state is not DeliveryState.DELIVERED:
            say(f"  {described(each)}")
    return all(each.state is DeliveryState.DELIVERED for each in found)


class Parts:
    """Brings parts of a job while it is watched: there may be no control worker that does it. Nobody waits for it."""

    def __init__(self, platform: Platform, job: str, spec: JobSpec) -> None:
        self._platform = platform
        self._job = job
        self._early = spec.output is not None and spec.output.every is not None
        self._next = 0.0
        self._bringing: Question[None] | None = None

    def tend(self) -> None:
        """See every now and then whether a part is due."""
        if not self._early or time.monotonic() < self._next or not self.leave(0):
            return
        self._next = time.monotonic() + LOOK_S
        self._bringing = Question(self._bring)

    def leave(self, seconds: float) -> bool:
        """Let what is under way end, if it does not take longer than this; has it?"""
        return self._bringing is None or self._bringing.wait(seconds)

    def _bring(self) -> None:
        """What is away is said by whoever asks for the job's status."""
        now = self._platform.frontier.audit.now_ms()
        for each in self._platform.deliveries.of_job(self._job):
            if not each.state.ended and each.due_ms <= now:
                self._platform.deliverer.deliver(each.id)


def _check_complete(platform: Platform, job: str, version: str) -> None:
    for each in platform.extractions.of_job(job):
        if each.version == version and each.state is not ExtractionState.DONE:
            raise Conflict(f"version {version} is {each.state.value}, and not complete: see shoal status {job}")


def _shown(each: Delivery) -> dict[str, object]:
    return {
        "id": each.id,
        "version": each.version,
        "to": str(each.output.place),
        "state": each.state.value,
        "rows": each.rows,
        "message": each.error,
    }


def _finish(platform: Platform, number: int) -> Delivery:
    """Until it has ended, or something is wrong with it."""
    while True:
        platform.deliverer.deliver(number)
        found = platform.deliveries.get(number)
        if found is None:
            raise typer.Exit(1)
        if found.state is not DeliveryState.WAITING:
            return found
        time.sleep(POLL_S)
