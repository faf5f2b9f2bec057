"""The browser: is there one, does it run, and is it needed?"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

from shoal.core.model import is_for_browser
from shoal.core.trouble import gist
from shoal.doctor.finding import Area, Finding, Kind, Level, note, well
from shoal.doctor.ground import Ground, NotLooked
from shoal.errors import InputError
from shoal.render.lookup import NO_PLAYWRIGHT, find_browser

ANSWER_S = 5.0
QUEUES, BROWSER = "SHOAL_QUEUES", "SHOAL_BROWSER"

MISSING = Kind(
    "no_browser", Area.BROWSER, Level.ERROR,
    "Pages that a job asks to be rendered fail: there is no browser to do it.",
    "playwright install --with-deps chromium-headless-shell",
)  # fmt: skip
BROKEN = Kind(
    "browser_broken", Area.BROWSER, Level.ERROR,
    "The browser does not even tell its version: mostly libraries are missing that it needs.",
    "playwright install-deps chromium",
)  # fmt: skip


def browser(ground: Ground) -> Iterator[Finding]:
    """Looked for as workers do. It is missed where somebody needs it, and else it is only said that there is none."""
    try:
        path = find_browser(ground.settings.browser)
    except InputError as exc:
        yield _missing(ground, str(exc))
        return
    yield _asked(path)


def _missing(ground: Ground, told: str) -> Finding:
    first = told.splitlines()[0]
    if not _is_needed(ground):
        return note(Area.BROWSER, f"{first.rstrip('.')}; only jobs that render pages need one")
    if told == NO_PLAYWRIGHT:
        return MISSING.found(first, mend="pip install 'shoal[browser]'")
    return MISSING.found(first, mend=f"unset {BROWSER}" if ground.settings.browser else "")


def _is_needed(ground: Ground) -> bool:
    named = ground.reading.variables
    if BROWSER in named or (QUEUES in named and ground.settings.browser_queues):
        return True
    try:
        with ground.watch() as watch:
            served = {queue for worker in watch.workers() for queue in worker.queues}
            waiting = (depth.queue for depth in watch.queues() if depth.jobs_due or depth.leased)
            return any(is_for_browser(queue) and queue not in served for queue in waiting)
    except NotLooked:
        return False


def _asked(path: str) -> Finding:
    try:
        done = subprocess.run(
            [path, "--version"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=ANSWER_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired, UnicodeDecodeError) as exc:
        return BROKEN.found(f"{path} --version: {gist(exc)}")
    if done.returncode:
        return BROKEN.found(f"{path} --version ended with {done.returncode}: {gist(Exception(done.stderr))}")
    return well(Area.BROWSER, f"{path}: {done.stdout.strip()[:100]}")


CHECKS = (browser,)
