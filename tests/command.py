"""The `shoal` command as a user runs it: real processes, a home of their own, everything ended with the test."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import psutil

from shoal.settings import Settings
from tests.fleets import CHOSEN, chosen_variables
from tests.forks import forks, mark_of
from tests.guards import HERE
from tests.waiting import wait_until

REPOSITORY = Path(__file__).parent.parent
COMMAND_S = 120.0
SERVICES = ("SHOAL_REDIS_URL", "SHOAL_BROKER_URL", "SHOAL_DATABASE_URL", "SHOAL_ARCHIVE_URL")


@dataclass(frozen=True, slots=True)
class Done:
    """A command that has ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        return json.loads(self.out.splitlines()[-1])

    @property
    def records(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]


@dataclass(frozen=True, slots=True)
class Shoal:
    """Commands on one SHOAL_HOME."""

    home: Path
    extra: tuple[tuple[str, str], ...] = ()

    @property
    def environment(self) -> dict[str, str]:
        plain = {name: value for name, value in os.environ.items() if not name.startswith("SHOAL_")}
        own = {"SHOAL_HOME": str(self.home), "SHOAL_EGRESS_ALLOW": HERE, "COLUMNS": "200"}
        return {**plain, **own, **self._fleet, **dict(self.extra)}

    @property
    def _fleet(self) -> Mapping[str, str]:
        """Of SHOAL_TEST_FLEET, but for tests that name their own services."""
        if CHOSEN == "embedded" or any(name in dict(self.extra) for name in SERVICES):
            return {}
        return chosen_variables(self.home)

    @property
    def settings(self) -> Settings:
        """As its commands read them."""
        given = {name: self.environment.get(f"SHOAL_{name.upper()}") for name in Settings.model_fields}
        return Settings.model_validate({name: value for name, value in given.items() if value})

    def run(self, *args: str, stdin: str = "", timeout_s: float = COMMAND_S) -> Done:
        """A command to its end; where variables of Python itself are set, in a Python that has read them."""
        if any(name.startswith("PYTHON") for name, _ in self.extra):
            return self._run_in_full(args, stdin, timeout_s)
        return Done(*forks().run(args, self.environment, REPOSITORY, stdin, timeout_s))

    def _run_in_full(self, args: tuple[str, ...], stdin: str, timeout_s: float) -> Done:
        ended = subprocess.run(
            [sys.executable, "-m", "shoal", *args],
            env=self.environment,
            cwd=REPOSITORY,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
        return Done(ended.returncode, ended.stdout, ended.stderr)

    def start(self, *args: str) -> subprocess.Popen[str]:
        """A command in the background; the caller ends it."""
        return subprocess.Popen(
            [sys.executable, "-m", "shoal", *args],
            env=self.environment,
            cwd=REPOSITORY,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    @contextmanager
    def running(self, *args: str) -> Generator[subprocess.Popen[str]]:
        """A command for as long as the block lasts."""
        process = self.start(*args)
        try:
            yield process
        finally:
            end(process)

    def status(self, job: str) -> dict[str, Any]:
        return self.run("status", job, "--json").json

    def processes(self) -> list[psutil.Process]:
        """Everything that runs for this home: commands, workers, their children, the embedded Redis."""
        home = str(self.home)
        return [process for process in psutil.process_iter() if _belongs(process, home)]


def embedded_servers(shoal: Shoal) -> list[psutil.Process]:
    """The Redis that a home has started for itself; more than one while one follows another."""
    return [process for process in shoal.processes() if _is_server(process)]


def embedded_redis(shoal: Shoal) -> psutil.Process:
    """The only one."""
    (server,) = embedded_servers(shoal)
    return server


def _is_server(process: psutil.Process) -> bool:
    try:
        return process.name() in ("redis-server", "valkey-server")
    except psutil.NoSuchProcess:  # it has just ended
        return False


def _belongs(process: psutil.Process, home: str) -> bool:
    try:
        if process.status() == psutil.STATUS_ZOMBIE:
            return False
        named = process.name() == mark_of(home) or home in " ".join(process.cmdline())
        return named or process.environ().get("SHOAL_HOME") == home
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return False


def end(process: subprocess.Popen[str]) -> None:
    """End a command that we started, gently and then for certain."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
    try:
        process.communicate(timeout=30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()


@contextmanager
def a_home(folder: Path) -> Generator[Shoal]:
    """Commands on a new home; whatever they leave running is an error, and is ended."""
    command = Shoal(folder / "home")
    try:
        yield command
        wait_for_nobody(command)
    finally:
        left = command.processes()
        for process in left:
            process.kill()
        psutil.wait_procs(left, timeout=10)


def wait_for_nobody(shoal: Shoal) -> None:
    """All processes of the home end by themselves, the embedded Redis last."""
    look_again_s = 0.05  # at all processes of the machine, which takes some of it
    wait_until(lambda: not shoal.processes(), within=timedelta(seconds=20), poll_s=look_again_s)
