"""The hostile site as a process of its own: what it does must not slow down the test that watches."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.site.hits import Hit, read_hits
from tests.site.hostile.cases import ADDRESS_OF, BY_NAME, PLAN
from tests.site.hostile.certificates import AUTHORITY

ROOT = Path(__file__).parents[3]
ENDS_WITHIN_S = 10.0


@dataclass(frozen=True, slots=True)
class HostileSite:
    """The running site, as a test sees it."""

    port: int
    folder: Path

    @property
    def authority(self) -> Path:
        """The certificate of the one who signed those of its hosts."""
        return self.folder / AUTHORITY

    @property
    def hits(self) -> list[Hit]:
        return read_hits(log_in(self.folder))

    def host(self, name: str) -> str:
        """Of a case, as a URL names it."""
        return f"{ADDRESS_OF[name]}:{self.port}"

    def link(self, name: str, target: str = "/") -> str:
        return f"{BY_NAME[name].scheme}://{self.host(name)}{target}"


def log_in(folder: Path) -> Path:
    """The access log."""
    return folder / "hits.jsonl"


@contextmanager
def hostile_site(folder: Path, plan: Mapping[str, str] = PLAN) -> Generator[HostileSite]:
    """Plays for as long as the block runs."""
    log = log_in(folder)
    log.touch()
    options = ["--site", "hostile", "--folder", str(folder), "--log", str(log)]
    if plan is not PLAN:
        options += [word for address, name in plan.items() for word in ("--host", f"{address}={name}")]
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.site", *options], cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        announced = process.stdout.readline().decode()
        assert announced.startswith("serving hostile"), announced
        yield HostileSite(int(announced.strip().rstrip("/").rpartition(":")[2]), folder)
    finally:
        process.terminate()
        try:
            rest, _ = process.communicate(timeout=ENDS_WITHIN_S)
        except subprocess.TimeoutExpired:
            process.kill()
            rest, _ = process.communicate()
    assert not rest, rest.decode(errors="replace")
