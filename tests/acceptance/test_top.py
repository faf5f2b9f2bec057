"""`shoal top` on a real terminal: what it shows, what its keys do, and what it says where there is none."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from fcntl import ioctl

from tests.acceptance.test_up import ask, running_up
from tests.command import REPOSITORY, Shoal, end
from tests.site.generated import LinkedSite
from tests.site.server import serve

SOON_S = 30.0
_SEQUENCES = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]|\x1b[()][A-Z0-9]")


class Terminal:
    """Somebody in front of a screen."""

    def __init__(self, master: int, process: subprocess.Popen[bytes]) -> None:
        self._master = master
        self.process = process
        self._seen = b""

    def press(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def until(self, wanted: Callable[[str], bool]) -> str:
        """What was drawn since the last time, from the moment when it is what is wanted."""
        deadline = time.monotonic() + SOON_S
        while time.monotonic() < deadline:
            if select.select([self._master], [], [], 0.2)[0]:
                with suppress(OSError):  # nobody draws any more
                    self._seen += os.read(self._master, 65_536)
            text = _SEQUENCES.sub(b"", self._seen).decode(errors="replace")
            if wanted(text):
                self._seen = b""
                return text
        raise AssertionError(f"not on the screen: {_SEQUENCES.sub(b'', self._seen).decode(errors='replace')[-2_000:]}")

    def see(self, text: str) -> str:
        return self.until(lambda shown: text in shown)


@contextmanager
def _top(shoal: Shoal) -> Generator[Terminal]:
    master, slave = pty.openpty()
    ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 160, 0, 0))
    environment = {**shoal.environment, "TERM": "xterm", "COLUMNS": "160", "LINES": "40"}
    command = [sys.executable, "-m", "shoal", "top", "--every", "0.3"]
    process = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, env=environment, cwd=REPOSITORY)
    os.close(slave)
    try:
        yield Terminal(master, process)
    finally:
        end(process)  # type: ignore[arg-type]
        os.close(master)


def test_jobs_are_seen_sorted_paused_and_cancelled_by_keys(shoal: Shoal) -> None:
    with serve(LinkedSite(pages=2_000, links=5, size=2_000)) as site, running_up(shoal, "--workers", "1") as (_, url):
        spec = {"urls": [site.url], "name": "evil \x1b]0;owned\x07name", "rate": 3}
        job = ask(f"{url}/api/v1/jobs", spec)["id"]
        with _top(shoal) as terminal:
            shown = terminal.see(job)
            assert "evil" in shown
            assert "\x07" not in shown
            assert "\x1b]0;" not in shown
            terminal.see("in flight")
            terminal.press("\t")
            terminal.see("127.0.0.1")
            terminal.press("\t")
            terminal.see("last progress")
            terminal.press("s")
            terminal.see("waiting ↓")
            terminal.press("r")
            terminal.see("waiting ↑")
            terminal.press("p")
            terminal.see(f"{job} is paused")
            assert shoal.status(job)["state"] == "paused"
            terminal.press("p")
            terminal.see(f"{job} is running")
            terminal.press("c")
            terminal.see(f"cancel {job}? y or n")
            terminal.press("n")
            terminal.press("c")
            terminal.see(f"cancel {job}? y or n")
            assert shoal.status(job)["state"] == "running"
            terminal.press("y")
            terminal.see("no job runs")
            assert shoal.status(job)["state"] == "cancelled"
            terminal.press("q")
            terminal.until(lambda _: terminal.process.poll() is not None)
            assert terminal.process.returncode == 0


def test_programs_get_one_look_and_no_screen(shoal: Shoal) -> None:
    looked = json.loads(shoal.run("top", "--json").out)
    assert looked["jobs"] == looked["workers"] == looked["hosts"] == []
    assert {queue["queue"] for queue in looked["queues"]} >= {"http.batch", "browser.high"}
    drawn = shoal.run("top")
    assert drawn.code == 2
    assert "--json" in drawn.err
