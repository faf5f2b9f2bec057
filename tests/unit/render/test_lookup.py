"""Where the browser is looked for, and what is said when there is none."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from shoal.errors import InputError
from shoal.render.lookup import find_browser

OWN = ".cache/ms-playwright/chromium_headless_shell-1200/chrome-headless-shell-linux64/chrome-headless-shell"


def _program(path: Path) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return str(path)


def test_the_setting_comes_first_then_playwrights_own_then_the_machines_in_order(tmp_path: Path) -> None:
    home, programs = tmp_path / "home", tmp_path / "bin"
    wanted = [
        _program(tmp_path / "set"),
        _program(home / OWN),
        *(_program(programs / name) for name in ("chromium-headless-shell", "chromium", "google-chrome")),
    ]
    found = [find_browser(wanted[0], home=home, path=str(programs))]
    for path in wanted[1:]:
        found.append(find_browser(home=home, path=str(programs)))
        Path(path).unlink()
    assert found == wanted
    with pytest.raises(InputError, match="apt install chromium-headless-shell") as caught:
        find_browser(home=home, path=str(programs))
    assert all(word in str(caught.value) for word in ("Debian", "macOS", "container", "SHOAL_BROWSER"))


def test_a_setting_that_leads_nowhere_is_an_error_whatever_else_there_is(tmp_path: Path) -> None:
    _program(tmp_path / "chromium")
    with pytest.raises(InputError, match="no/such/browser"):
        find_browser("/no/such/browser", home=tmp_path, path=str(tmp_path))


def test_without_playwright_everything_imports_and_the_error_says_what_to_install() -> None:
    code = """
import sys
class Without:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("playwright", "psutil"):
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Without())
import shoal.render.renderer, shoal.render.pool, shoal.render.browser
from shoal.render.lookup import find_browser
find_browser()
"""
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert shown.stderr.strip().endswith('pip install "shoal[browser]"')
