"""Where a benchmark of politeness plays: a home with its Redis, the target, and the platform that jobs are given to.

Jobs are submitted before the workers start, so that all of them have work from the first moment on.
"""

import gzip
import shutil
import tempfile
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.api.stage import Stage, a_stage
from benchmarks.launch import LOOPBACK
from benchmarks.politeness.target import Manner, Target, target
from benchmarks.table import FOLDER
from shoal.core.spec import JobSpec
from shoal.intake.intake import Origin
from shoal.settings import Settings
from shoal.wiring import Platform, open_platform

WITNESSES = FOLDER / "politeness"
PLAIN: dict[str, Any] = {"follow": False, "archive": False}
FREE: dict[str, Any] = {**PLAIN, "rate": "unlimited", "robots": False}
"""A job that nothing holds back but the workers."""


@dataclass(frozen=True, slots=True)
class Ground:
    """A stage, its platform, and the target."""

    stage: Stage
    platform: Platform
    target: Target

    def submit(self, urls: Sequence[str], tenant: str = "default", **fields: Any) -> str:
        """Hand in a job; returns its id."""
        spec = JobSpec.model_validate({"urls": urls, **fields})
        return self.platform.intake.submit(spec, Origin(tenant, "bench")).job

    @contextmanager
    def workers(self, processes: int = 2) -> Generator[None]:
        """One worker with so many processes; nobody is needed for the housekeeping of a minute."""
        serving = {"SHOAL_QUEUES": "http.high,http.batch,http.slow", "SHOAL_CONCURRENCY": str(processes)}
        with self.stage.process("shoal.worker", "worker", **serving):
            yield


@contextmanager
def a_ground(name: str, plan: Mapping[str, Manner], **variables: str) -> Generator[Ground]:
    """A new one; the log of its target stays behind as the witness of this name."""
    with (
        tempfile.TemporaryDirectory(prefix="shoal-bench-target-") as folder,
        a_stage(**variables) as stage,
        open_platform(settings_of(stage)) as platform,
    ):
        with target(plan, Path(folder)) as seen:
            yield Ground(stage, platform, seen)
        _keep(seen.log, name)


def settings_of(stage: Stage) -> Settings:
    """What its processes have in their variables."""
    given = {name.removeprefix("SHOAL_").lower(): value for name, value in stage.variables.items()}
    return Settings.model_validate({"home": stage.home, "egress_allow": LOOPBACK, **given})


def _keep(log: Path, name: str) -> None:
    WITNESSES.mkdir(parents=True, exist_ok=True)
    with log.open("rb") as source, gzip.open(WITNESSES / f"{name}.jsonl.gz", "wb", compresslevel=3) as kept:
        shutil.copyfileobj(source, kept)
