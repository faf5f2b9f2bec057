"""Run as a program beside a browser: keeps some more memory for each page that the browser opens, and gives none back.

What Chromium itself leaks differs from one version to the next. This leaks for certain, in the browser's own tree, over
the ends of its pages and contexts: only the end of the whole browser helps.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from shoal.render.processes import children_of, command_of

PAGE_BYTES = 8_000_000
LOOK_S = 0.05


def script_around(executable: str, folder: Path) -> Path:
    """A program that is this browser, and leaks."""
    script = folder / "leaking-browser"
    leak = f"{sys.executable} -m tests.chaos.leaking_browser --type=leak $$"
    script.write_text(f'#!/bin/sh\nPYTHONPATH="{os.pathsep.join(sys.path)}" {leak} &\nexec {executable} "$@"\n')
    script.chmod(0o755)
    return script


def _leak(browser: int) -> None:
    kept: list[bytearray] = []
    seen: set[int] = set()
    while os.getppid() == browser:
        for process in children_of(browser):
            if process.pid not in seen and "--type=renderer" in " ".join(command_of(process.pid)):
                seen.add(process.pid)
                kept.append(bytearray(os.urandom(4_096) * (PAGE_BYTES // 4_096)))
        time.sleep(LOOK_S)


if __name__ == "__main__":
    _leak(int(sys.argv[2]))
