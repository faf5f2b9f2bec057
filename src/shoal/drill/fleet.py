"""The drill's workers: real processes, each the first of a family. Nobody looks after them but themselves."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from shoal.cli.children import Child
from shoal.drill import processes
from shoal.drill.plan import GRACE_S, Plan
from shoal.drill.site import LOOPBACK, contact_of
from shoal.settings import PREFIX, Settings


class Worker:
    """One `python -m shoal.worker`, by its place in the fleet."""

    def __init__(self, number: int, child: Child) -> None:
        self.number = number
        self.child = child
        self.expected_away = False
        """Has the drill ended it, and will start it again itself?"""
        self.is_missed = False
        """Has it been noticed that it ended by itself?"""

    @property
    def runs(self) -> bool:
        return self.child.pid is not None and self.child.code is None

    @property
    def family(self) -> list[int]:
        """Main process first."""
        return processes.family(self.child.pid) if self.runs and self.child.pid else []

    @property
    def pool(self) -> list[int]:
        """The processes that do the fetching."""
        return processes.leaves(self.child.pid) if self.runs and self.child.pid else []


class Fleet:
    """All workers of a drill."""

    def __init__(self, plan: Plan, home: Path, redis_url: str) -> None:
        self._home = home
        self.unasked: list[str] = []
        """Workers that ended without having been told to."""
        self.workers = [
            Worker(number, _child(number, home, {**_variables(plan, redis_url), "SHOAL_CONTACT": contact_of(number)}))
            for number in range(plan.workers)
        ]

    def start(self) -> None:
        for worker in self.workers:
            worker.child.start()

    def count_missing(self) -> None:
        """Note who has ended unasked; whatever is away, a worker waits for it."""
        for worker in self.workers:
            if worker.runs or worker.expected_away:
                worker.is_missed = False
            elif not worker.is_missed:
                worker.is_missed = True
                self.unasked.append(f"worker {worker.number + 1} ended by itself with code {worker.child.code}")

    def end(self) -> None:
        """No process is left, frozen or orphaned ones included."""
        deadline = time.monotonic() + GRACE_S
        while (left := processes.of_home(self._home)) and time.monotonic() < deadline:
            processes.send(left, signal.SIGKILL)
            time.sleep(0.02)
            _reap(self.workers)


def _reap(workers: Iterable[Worker]) -> None:
    for worker in workers:
        _ = worker.child.code


def _child(number: int, home: Path, variables: Mapping[str, str]) -> Child:
    return Child("shoal.worker", home / "logs" / f"worker-{number}.log", home, variables, GRACE_S)


def _variables(plan: Plan, redis_url: str) -> dict[str, str]:
    """Settings of the drill alone: an empty variable is an unset one, so nothing of the user's own comes through."""
    unset = {PREFIX + name.upper(): "" for name in Settings.model_fields if name not in ("home", "parent")}
    return {
        **unset,
        "SHOAL_REDIS_URL": redis_url,
        "SHOAL_LEASE_SECONDS": str(plan.lease_s),
        "SHOAL_GRACE_SECONDS": str(GRACE_S),
        "SHOAL_SOCKETS": str(plan.sockets),
        "SHOAL_EGRESS_ALLOW": LOOPBACK,
        "SHOAL_BEAT": "true",
        "SHOAL_LOG_LEVEL": "info",
    }
