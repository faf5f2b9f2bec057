"""The list of commands against the commands themselves."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from shoal.cli.commands import PANELS, Entry, load
from shoal.cli.main import app

ENTRIES = [entry for entries in PANELS.values() for entry in entries]
LARGE = ("sqlalchemy", "pydantic", "celery", "redis", "aiohttp", "structlog", "shoal.settings")


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_the_list_says_of_a_command_what_its_own_help_begins_with(entry: Entry) -> None:
    first = load(entry).help.strip().split("\n\n")[0]
    assert entry.summary == " ".join(first.split())


def test_help_lists_every_command_under_its_panel() -> None:
    shown = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "200"}).stdout
    panels = shown.split("╭─ ")
    for panel, entries in PANELS.items():
        (part,) = (each for each in panels if each.startswith(f"{panel} ─"))
        for entry in entries:
            assert f"│ {entry.name} " in part
            assert entry.summary.replace("`", "")[:60] in part


def test_help_imports_no_command() -> None:
    look = (
        "import sys, shoal.cli.main as main; main.app(['--help'], standalone_mode=False); "
        f"print([name for name in {LARGE!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.splitlines()[-1] == "[]"


def test_a_misspelt_command_is_told_with_those_that_are_like_it() -> None:
    done = CliRunner().invoke(app, ["craw"])
    assert done.exit_code == 2
    assert "Did you mean 'crawl'" in " ".join(done.output.split())


def test_commands_are_imported_once_and_stay() -> None:
    group: Any = get_command(app)
    assert group.commands["status"] is group.commands["status"]
    assert len(group.commands) == len(ENTRIES)
    with pytest.raises(TypeError):
        del group.commands["status"]
