"""What the commands say and do about deliveries."""

from __future__ import annotations

import time

import typer

from shoal.cli.talk import counted, print_json, say
from shoal.output.delivery import ask_again
from shoal.store.deliveries import Delivery, DeliveryState
from shoal.wiring import Platform

POLL_S = 0.3


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
        chosen = platform.extractions.choose(row.id, row.spec, version)
        now = platform.frontier.audit.now_ms()
        numbers = ask_again(platform.deliveries, row, to, kind, chosen.name, now)
        found = [_finish(platform, number) for number in numbers]
    if json:
        print_json([{"id": each.id, "state": each.state.value, "rows": each.rows} for each in found])
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
