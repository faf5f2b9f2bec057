"""What a process does not need, it does not import: who waits for a command waits for its imports."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ("alembic", "celery", "kombu", "lxml", "pydantic", "redis", "sqlalchemy", "structlog")
"""Packages that take more than a few milliseconds, or more than a megabyte."""


def _imported(code: str, *packages: str) -> set[str]:
    """Of these packages, those that are there when the code has run."""
    script = f"import sys\ntry:\n {code}\nexcept SystemExit: pass\nprint('|'.join(sys.modules), file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return {name.partition(".")[0] for name in done.stderr.splitlines()[-1].split("|")} & set(packages)


def test_help_imports_no_part_of_the_platform() -> None:
    shown = "sys.argv = ['shoal', '--help']; from shoal.cli.main import main; main()"
    assert _imported(shown, *HEAVY) == set()


def test_a_supervisor_imports_nothing_that_only_its_worker_needs() -> None:
    assert _imported("import shoal.worker.__main__, shoal.worker.serve", *HEAVY, "asyncio", "socket", "typer") == set()


def test_a_crawl_has_what_it_shares_with_its_worker_and_neither_celery_nor_alembic() -> None:
    begun = "from shoal.cli.main import do_without_companions as begin; begin()"
    unwanted = (
        "alembic",
        "celery",
        "kombu",
        "billiard",
        "rich",
        "pygments",
        "opentelemetry",
        "psutil",
        "yaml",
        "uvloop",
        "lxml",
        "jsonschema_rs",
        "html_to_markdown",
    )
    assert _imported(f"{begun}; import shoal.cli.run, shoal.wiring, shoal.cli.follow", *unwanted) == set()


@pytest.mark.parametrize("module", ["shoal.worker.tasks", "shoal.cli.follow"])
def test_nobody_who_works_imports_flask_or_the_browser(module: str) -> None:
    assert _imported(f"import {module}", "flask", "gunicorn", "playwright", "pyarrow", "obstore") == set()
