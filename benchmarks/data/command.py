"""Runs `shoal` as a user does, in a home of its own."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any


def shoal(home: Path, *arguments: str) -> dict[str, Any]:
    """The last line of what it says, which is JSON."""
    command = [sys.executable, "-m", "shoal", *arguments]
    environment = {**os.environ, "SHOAL_HOME": str(home)}
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=600)
    if ended.returncode:
        raise RuntimeError(f"shoal {arguments[0]} ended with {ended.returncode}: {ended.stderr[-500:]}")
    return json.loads(ended.stdout.splitlines()[-1])


def crawl(home: Path, url: str, workers: int, *options: str) -> dict[str, Any]:
    """A whole site, as fast as it goes."""
    return shoal(
        home, "crawl", url, "--rate", "unlimited", "--no-robots", "--workers", str(workers), "--json", *options
    )


def field_options(fields: dict[str, str]) -> list[str]:
    """For the command line."""
    return [part for name, rule in fields.items() for part in ("--field", f"{name}={rule}")]
