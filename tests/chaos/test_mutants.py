"""How do we know that the drill can fail? Copies of the source are broken, each in one place, and it must find each."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.command import REPOSITORY, Shoal

SHORT = ("drill", "--urls", "300", "--hosts", "6", "--workers", "3", "--rate", "8", "--lease", "3", "--faults", "2")
PATIENCE_S = 240.0


@dataclass(frozen=True, slots=True)
class Mutant:
    """A break, and what the drill has to say about it."""

    name: str
    edits: tuple[tuple[str, str, str], ...]
    """File, what stands there, what is to stand there."""
    options: tuple[str, ...]
    problem: str


SETTLE_FIRST = Mutant(
    "settles before it stores",
    (
        (
            "worker/delivery.py",
            "        if rows or items or letters or asks or found:\n",
            "        self._admit(results)\n"
            "        self._frontier.settle([result.settlement for result in results])\n"
            "        if rows or items or letters or asks or found:\n",
        ),
    ),
    ("--only", "under lock"),
    "URLs lost",
)
EXIT_7 = Mutant(
    "ends with 7",
    (("worker/serve.py", "_work(settings, log_level, life))\n", "_work(settings, log_level, life)) or 7\n"),),
    ("--only", "SIGTERM"),
    "told to stop, ended with code 7",
)
ABANDON = Mutant(
    "drops its fetches when it is told to stop",
    (
        (
            "worker/drain.py",
            "        await self._visits_end_or_stop(deliverer)\n",
            "        if self._sign.up:\n"
            "            [visit.cancel() for visit in self._desk.visits]\n"
            "            return\n"
            "        await self._visits_end_or_stop(deliverer)\n",
        ),
        (
            "worker/drain.py",
            "        left = [lease for lease in self._desk.leases() if lease not in but]\n",
            "        left = [] if self._sign.up else [lease for lease in self._desk.leases() if lease not in but]\n",
        ),
    ),
    ("--only", "SIGTERM"),
    "fetched again without having been leased at a fault",
)
FORGETFUL = Mutant(
    "forgets each hundredth link when it rebuilds",
    (
        (
            "recovery/way_back.py",
            "log = structlog.get_logger()\n",
            "log = structlog.get_logger()\nimport itertools\n_LINKS = itertools.count()\n",
        ),
        (
            "recovery/way_back.py",
            "        if candidates or duplicates:\n",
            "        candidates = [each for each in candidates if next(_LINKS) % 100 != 99]\n"
            "        if candidates or duplicates:\n",
        ),
    ),
    ("--only", "FLUSHALL", "--urls", "1200", "--hosts", "20"),
    "URLs lost",
)
UNFENCED = Mutant(
    "settles leases that were lost",
    (
        (
            "frontier/lua/reap.lua",
            "  redis.call('DEL', lease_key(group))\n",
            "  if redis.call('EXISTS', lease_key(group)) == 1 then\n"
            "    redis.call('RENAME', lease_key(group), 'old:' .. group)\n"
            "  end\n",
        ),
        (
            "frontier/lua/moves.lua",
            "  local found, taken = {}, {}\n",
            "  local found, taken = {}, {}\n"
            "  for i, index in ipairs(indexes) do\n"
            "    records[i] = records[i] or redis.call('HGET', 'old:' .. group, index)\n"
            "  end\n",
        ),
    ),
    ("--only", "freeze worker", "--urls", "600", "--rate", "12", "--faults", "5"),  # so that many settle too late
    "the sums do not reconcile",
)


def _broken(mutant: Mutant, folder: Path) -> Path:
    source = folder / "source"
    shutil.copytree(REPOSITORY / "src", source, ignore=shutil.ignore_patterns("__pycache__"))
    for file, before, after in mutant.edits:
        path = source / "shoal" / file
        text = path.read_text(encoding="utf-8")
        assert text.count(before) == 1, f"{file} has changed: the mutant needs another place"
        path.write_text(text.replace(before, after), encoding="utf-8")
    return source


@pytest.mark.long
@pytest.mark.parametrize(
    "mutant", [SETTLE_FIRST, EXIT_7, ABANDON, FORGETFUL, UNFENCED], ids=lambda mutant: mutant.name.replace(" ", "-")
)
def test_the_drill_finds_a_shoal_that(mutant: Mutant, shoal: Shoal, tmp_path: Path) -> None:
    path = os.pathsep.join((str(_broken(mutant, tmp_path)), str(REPOSITORY)))
    broken = Shoal(shoal.home, (*shoal.extra, ("PYTHONPATH", path)))
    done = broken.run(*SHORT, *mutant.options, "--json", timeout_s=PATIENCE_S)
    assert done.code == 1, done.err
    assert any(mutant.problem in problem for problem in done.json["runs"][0]["problems"]), done.err
