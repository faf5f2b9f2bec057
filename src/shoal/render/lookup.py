"""Where the browser is: the one that is set, else Playwright's own, else one of this machine."""

from __future__ import annotations

import importlib.util
import os
import shutil
from pathlib import Path

from shoal.errors import InputError

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
"""The first starts fastest and takes least memory."""
_MAC = (
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
)
_KEPT = {
    "darwin": "Library/Caches/ms-playwright",
    "linux": ".cache/ms-playwright",
}
_OWN = (
    "chromium_headless_shell-*/chrome-headless-shell-*/chrome-headless-shell",
    "chromium_headless_shell-*/chrome-*/headless_shell",
    "chromium-*/chrome-linux*/chrome",
    "chromium-*/chrome-mac*/*.app/Contents/MacOS/*",
)

NO_PLAYWRIGHT = 'rendering needs Playwright, which is not installed: pip install "shoal[browser]"'
NO_BROWSER = """no browser to render with. One of these helps:
  - Debian, Ubuntu: apt install chromium-headless-shell (or chromium)
  - macOS: brew install --cask chromium, or: playwright install chromium
  - in a container: RUN apt-get update && apt-get install -y --no-install-recommends chromium-headless-shell
  - anywhere: playwright install --with-deps chromium-headless-shell
  - set SHOAL_BROWSER to the path of a Chromium or Chrome"""


def find_browser(setting: str = "", *, home: Path | None = None, path: str | None = None) -> str:
    """The executable of a browser; raises InputError, which says what to install.

    `home`: where Playwright keeps its own under; `path`: where others are looked for. Both are for tests.
    """
    if not _has_playwright():
        raise InputError(NO_PLAYWRIGHT)
    if setting:
        if found := shutil.which(setting, path=path):
            return found
        raise InputError(f"SHOAL_BROWSER is {setting!r}, which is not a program that can be run", field="browser")
    found = _of_playwright(home or Path.home()) or _of_machine(path)
    if not found:
        raise InputError(NO_BROWSER)
    return found


def _has_playwright() -> bool:
    try:
        return importlib.util.find_spec("playwright") is not None
    except ImportError:
        return False


def _of_playwright(home: Path) -> str:
    """What `playwright install` has brought; the newest."""
    for folder in _KEPT.values():
        for pattern in _OWN:
            found = [path for path in (home / folder).glob(pattern) if os.access(path, os.X_OK) and path.is_file()]
            if found:
                return str(max(found, key=lambda path: path.stat().st_mtime))
    return ""


def _of_machine(path: str | None) -> str:
    named = (shutil.which(name, path=path) for name in NAMES)
    elsewhere = (place for place in _MAC if path is None and os.access(place, os.X_OK))
    return next((found for found in (*named, *elsewhere) if found), "")
