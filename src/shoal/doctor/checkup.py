"""All checks at once, each in a thread of its own: none stops another, and none is waited for for ever."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from queue import Empty, SimpleQueue

from shoal.core.frozen import frozen
from shoal.core.trouble import gist
from shoal.doctor import broker, browser, clock, database, fleet, network, rabbitmq, redis, sentinels, settings, storage
from shoal.doctor.finding import Area, Finding, Kind, Level, note
from shoal.doctor.ground import Ground, NotLooked

PATIENCE_S = 12.0
"""For all checks together."""

STUCK = Kind(
    "check_stuck", Area.SETTINGS, Level.ERROR,
    "Something does not answer, and does not refuse either: a server that is frozen, a disk that is away, a network "
    "that swallows what is sent.",
    "shoal doctor",
)  # fmt: skip
FAILED = Kind(
    "check_failed", Area.SETTINGS, Level.WARNING,
    "The check itself has a fault; the others are not touched by it.",
    "shoal doctor --json",
)  # fmt: skip


@frozen
class Check:
    """One look at one thing."""

    area: Area
    look: Callable[[Ground], Iterable[Finding]]


CHECKS = (
    *(Check(Area.SETTINGS, look) for look in settings.CHECKS),
    *(Check(Area.REDIS, look) for look in redis.CHECKS),
    *(Check(Area.REDIS, look) for look in sentinels.CHECKS),
    *(Check(Area.BROKER, look) for look in broker.CHECKS),
    *(Check(Area.BROKER, look) for look in rabbitmq.CHECKS),
    *(Check(Area.FLEET, look) for look in fleet.CHECKS),
    *(Check(Area.DATABASE, look) for look in database.CHECKS),
    *(Check(Area.STORAGE, look) for look in storage.CHECKS),
    *(Check(Area.BROWSER, look) for look in browser.CHECKS),
    *(Check(Area.NETWORK, look) for look in network.CHECKS),
    *(Check(Area.CLOCK, look) for look in clock.CHECKS),
)


def check_up(ground: Ground, checks: Sequence[Check] = CHECKS, patience_s: float = PATIENCE_S) -> list[Finding]:
    """Everything that was found, area by area."""
    told: SimpleQueue[tuple[int, list[Finding]]] = SimpleQueue()

    def work(number: int) -> None:
        told.put((number, _look(checks[number], ground)))

    for number in range(len(checks)):
        threading.Thread(target=work, args=(number,), daemon=True).start()
    found = _gather(told, len(checks), time.monotonic() + patience_s)
    every = [found[number] if number in found else [_stuck(check)] for number, check in enumerate(checks)]
    order = list(Area)
    once = dict.fromkeys(finding for each in every for finding in each)
    return sorted(once, key=lambda finding: order.index(finding.area))


def _gather(told: SimpleQueue[tuple[int, list[Finding]]], many: int, deadline: float) -> dict[int, list[Finding]]:
    found: dict[int, list[Finding]] = {}
    while len(found) < many:
        try:
            number, findings = told.get(timeout=max(0.0, deadline - time.monotonic()))
        except Empty:
            break
        found[number] = findings
    return found


def _look(check: Check, ground: Ground) -> list[Finding]:
    """What it has found, also before it failed."""
    found: list[Finding] = []
    try:
        found.extend(check.look(ground))
    except NotLooked as why:
        found.append(note(check.area, f"not looked at: {why}"))
    except Exception as exc:  # noqa: BLE001 - it is told, as a finding
        found.append(_of(check, FAILED.found(f"this check failed: {type(exc).__name__}: {gist(exc)}")))
    return found


def _stuck(check: Check) -> Finding:
    name = getattr(check.look, "__name__", "check").strip("_").replace("_", " ")
    return _of(check, STUCK.found(f"no answer in time: {name}"))


def _of(check: Check, finding: Finding) -> Finding:
    return Finding(check.area, finding.level, finding.code, finding.what, finding.means, finding.mend)
