"""Whose a browser is: an argument on its command line that names the process which started it.

A browser ends with its owner, because its pipe does. Should one be left all the same, the next start of any worker of
this user finds it by that argument and ends it. The folders of a browser (its profile, and what Playwright would keep
beside it) have a file that says the same: they may be left when nothing else is.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path

from shoal.render import processes

MARK = "--shoal-browser="
PROFILE = "--user-data-dir="
PROFILES = "playwright_*"
"""Folders in which Playwright keeps profiles."""
ARTIFACTS = "shoal-browser-"
"""How the names of the folders begin that it may keep other things in: those that it would make say nothing about whose
they are."""
NOTE = "shoal-owner"
"""The file in such a folder."""

_numbers = count(1)


def new_mark() -> str:
    """An argument for one browser of this process, and for no other."""
    pid = os.getpid()
    return f"{MARK}{pid}-{processes.born(pid)}-{processes.namespace()}-{next(_numbers)}"


def new_folder(mark: str) -> Path:
    """For what Playwright may want to keep; it says whose it is from the beginning."""
    folder = Path(tempfile.mkdtemp(prefix=ARTIFACTS))
    note_folder(folder, mark)
    return folder


def note_folder(folder: Path, mark: str) -> None:
    """Say in the folder whose it is."""
    with suppress(OSError):
        (folder / NOTE).write_text(mark)


def profile_of(pid: int) -> Path | None:
    """The folder of a browser's profile, unless it is not one that Playwright made."""
    for argument in processes.command_of(pid):
        if argument.startswith(PROFILE):
            folder = Path(argument.removeprefix(PROFILE))
            return folder if folder.match(PROFILES) else None
    return None


def delete_folders(*folders: Path | None) -> None:
    """They are of no use to anybody once the browser is gone."""
    for folder in folders:
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)


def reap_orphans() -> int:
    """End the browsers whose owners are dead, and delete their folders; how many there were."""
    orphans = list(_orphans())
    for pid, _ in orphans:
        below = [child.pid for child in processes.children_of(pid)]
        processes.kill_group(pid)
        processes.kill(below)
        processes.bury([pid, *below])
    delete_folders(*(folder for _, folder in orphans))
    here = Path(tempfile.gettempdir())
    for folder in (*here.glob(PROFILES), *here.glob(f"{ARTIFACTS}*")):
        with suppress(OSError):
            if is_orphaned((folder / NOTE).read_text()):
                delete_folders(folder)
    return len(orphans)


def is_orphaned(mark: str) -> bool:
    """Is this a mark of an owner that lives no more?"""
    if not mark.startswith(MARK):
        return False
    pid, started, namespace, *_ = [*mark.removeprefix(MARK).split("-"), "", "", ""]
    if not pid.isdecimal() or not started or namespace != processes.namespace():
        return False  # in another container a process id means another process
    return not processes.lives(int(pid), started)


def _orphans() -> Iterator[tuple[int, Path | None]]:
    for process in processes.all_processes():
        if process.zombie or process.pid == os.getpid():
            continue
        marks = [argument for argument in processes.command_of(process.pid) if argument.startswith(MARK)]
        if marks and is_orphaned(marks[0]):
            yield process.pid, profile_of(process.pid)
