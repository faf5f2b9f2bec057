"""Browsers whose owner is dead: they end by themselves, and what does not is ended by the next start."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import psutil
import pytest

from shoal.render import owner, processes
from shoal.render.browser import Browser
from tests.waiting import wait_until

SOON = timedelta(seconds=15)


@contextmanager
def _owner(executable: str) -> Generator[tuple[subprocess.Popen[str], int, list[psutil.Process]]]:
    """Another process that has a browser; the browser's pid, and all processes below that one."""
    command = [sys.executable, "-m", "tests.contract.render.owner_process", executable]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            line = next(text for text in process.stdout if text.strip().isdecimal())
            yield process, int(line), psutil.Process(process.pid).children(recursive=True)
        finally:
            process.kill()


def test_kill_9_of_the_owner_leaves_no_process(browser_path: str) -> None:
    with _owner(browser_path) as (process, _, tree):
        assert len(tree) >= 4
        process.kill()
        process.wait()
        wait_until(lambda: not any(below.is_running() for below in tree), within=SOON)


def test_kill_9_of_the_owner_and_the_driver_leaves_no_process(browser_path: str) -> None:
    with _owner(browser_path) as (process, _, tree):
        os.kill(process.pid, signal.SIGSTOP)
        next(below for below in tree if "node" in below.name()).kill()
        process.kill()
        process.wait()
        wait_until(lambda: not any(below.is_running() for below in tree), within=SOON)


def test_the_next_start_reaps_what_a_dead_owner_left_with_its_profile(browser_path: str) -> None:
    """He dies when his browser is there: other tests start browsers, too, and would end it on its way."""
    dead = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
    mark = f"{owner.MARK}{dead.pid}-{processes.born(dead.pid)}-{processes.namespace()}-1"
    profile = Path(tempfile.mkdtemp(prefix="playwright_chromiumdev_profile-"))
    arguments = [f"{owner.PROFILE}{profile}", "--no-sandbox", "--remote-debugging-port=0", mark, "about:blank"]
    left = subprocess.Popen([browser_path, *arguments], stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        wait_until(lambda: len(psutil.Process(left.pid).children(recursive=True)) >= 3, within=SOON, poll_s=0.1)
        tree = psutil.Process(left.pid).children(recursive=True)
        dead.kill()
        dead.wait()
        _start_and_close(browser_path)
        left.wait(timeout=10)
        wait_until(lambda: not any(below.is_running() for below in tree), within=SOON)
        wait_until(lambda: not profile.exists(), within=SOON)
    finally:
        dead.kill()
        left.kill()


@pytest.mark.parametrize("prefix", ["playwright_chromiumdev_profile-", owner.ARTIFACTS])
def test_a_folder_without_a_browser_is_deleted_when_its_owner_is_dead_and_only_then(prefix: str) -> None:
    dead = subprocess.Popen([sys.executable, "-c", ""])
    mark = f"{owner.MARK}{dead.pid}-{processes.born(dead.pid)}-{processes.namespace()}-1"
    dead.wait()
    left, ours, strange = (Path(tempfile.mkdtemp(prefix=prefix)) for _ in "123")
    try:
        owner.note_folder(left, mark)
        owner.note_folder(ours, owner.new_mark())
        owner.reap_orphans()
        assert (left.exists(), ours.exists(), strange.exists()) == (False, True, True)
    finally:
        owner.delete_folders(left, ours, strange)


def test_kill_9_of_owner_and_driver_leaves_no_folder_behind_the_next_start(
    browser_path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    with _owner(browser_path) as (process, _, tree):
        assert len(list(tmp_path.iterdir())) >= 2
        os.kill(process.pid, signal.SIGSTOP)
        next(below for below in tree if "node" in below.name()).kill()
        process.kill()
        process.wait()
        wait_until(lambda: not any(below.is_running() for below in tree), within=SOON)
    _start_and_close(browser_path)
    assert not [folder.name for folder in tmp_path.iterdir() if folder.is_dir()]


def test_a_browser_of_another_owner_that_lives_is_not_touched(browser_path: str) -> None:
    with _owner(browser_path) as (_, pid, tree):
        before = {process.pid for process in tree}
        _start_and_close(browser_path)
        living = psutil.Process(pid)
        assert living.is_running()
        assert {process.pid for process in living.children(recursive=True)} <= before
        assert len(living.children(recursive=True)) >= 3


def test_a_mark_of_another_container_says_nothing_about_who_lives() -> None:
    assert not owner.is_orphaned(f"{owner.MARK}999999999-1-1-1")
    assert owner.is_orphaned(f"{owner.MARK}999999999-1-{processes.namespace()}-1")
    assert not owner.is_orphaned(owner.new_mark())


@pytest.mark.parametrize("text", ["", "--other=1-2-3", owner.MARK, f"{owner.MARK}x-1-2-3", f"{owner.MARK}1"])
def test_what_is_no_mark_is_nobodys(text: str) -> None:
    assert not owner.is_orphaned(text)


def _start_and_close(executable: str) -> None:
    from shoal.render.limits import RenderLimits
    from shoal.render.pool import Pool

    async def run() -> None:
        pool = Pool(RenderLimits(), lambda: executable)
        async with pool.page(timedelta(seconds=20)) as running:
            assert isinstance(running.browser, Browser)
        await pool.close()

    asyncio.run(run())
