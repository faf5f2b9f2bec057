"""One running browser, with the driver that speaks to it, from its start to the end of all its processes.

The tree: this process → the driver (node) → the browser, which leads a process group of its own → zygotes → renderers.
The driver is started anew with each browser, so that whatever it leaks ends with it.
"""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import Mapping
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import structlog

from shoal.core.frozen import frozen
from shoal.errors import FetchError
from shoal.render import owner, processes

if TYPE_CHECKING:
    from playwright.async_api import Browser as Connection
    from playwright.async_api import BrowserContext, Playwright

log = structlog.get_logger()

START = timedelta(seconds=30)
ANSWER = timedelta(seconds=15)
"""A browser that makes no new context for so long hangs."""
END = timedelta(seconds=5)
"""For a gentle end, and then as long for the kernel to take what was killed."""
DOUBT = timedelta(seconds=0.5)
"""So much later than its pages a browser may be known to have ended."""
ROOM_FOR_SHARED = 512 * 1024 * 1024
"""A /dev/shm that has less is not used: containers often have 64 MB."""
NOWHERE = "http://127.0.0.1:1"
"""The proxy of whatever belongs to no page: nothing listens there."""
NO_PREFETCH = (
    "PrefetchSchedulerTesting:kPrefetchSchedulerTestingActiveSetSizeLimitForBase/0"
    "/kPrefetchSchedulerTestingActiveSetSizeLimitForBurst/0"
)
"""How many loads ahead of time are under way at once: a page could ask for whole pages by `speculationrules`, which
nobody would judge. A prerender begins with such a load, and so never does."""
FEATURES = (NO_PREFETCH, "CDPScreenshotNewSurface", "SkipListAccountsWithoutGaiaCookies")
"""Playwright's are among them: the last `--enable-features` on a command line is the one that counts."""
FLAGS = (
    "--block-new-web-contents",
    "--disable-quic",
    "--no-first-run",
    "--no-pings",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-domain-reliability",
    "--disable-client-side-phishing-detection",
    "--disable-sync",
    "--disable-gpu",
    "--disable-shared-workers",
    f"--enable-features={','.join(FEATURES)}",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
)
"""`--disable-features` is Playwright's: a second one would undo it. What shared workers ask for would be judged by
nobody: they belong to no page."""
RENDERER = "--type=renderer"
MAX_CAUSE = 500
"""Characters of why there is no browser."""

_SAID = re.compile(r"\[pid=\d+\]\[err\] (?!#\d+ 0x)(.*\S)")
"""What a browser writes to its standard error, but for the addresses in a trace."""
_ENDED = re.compile(r"<process did (exit: .*?)>?$")

_said = False


@frozen
class Memory:
    """Bytes of a browser's processes."""

    tree: int
    """All of them, and the driver."""
    renderers: Mapping[int, int]
    """Process id → bytes, of those that run pages."""


class Browser:
    """Started with `Browser.start`."""

    def __init__(self, mark: str) -> None:
        self._mark = mark
        self._started = time.monotonic()
        self._playwright: Playwright | None = None
        self._connection: Connection | None = None
        self._driver = 0
        self._leader = 0
        self._profile: Path | None = None
        self._artifacts: Path | None = None
        self._devices: Mapping[str, Mapping[str, Any]] = {}
        self._births = dict[int, str]()
        """Process id → when it started, of the tree: also of those that have lost their parents since."""
        self._renderers = set[int]()
        self._strangers = _drivers()
        self.lost = asyncio.Event()
        """It has crashed, was killed, or its driver was."""

    @classmethod
    async def start(cls, executable: str, flags: tuple[str, ...] = ()) -> Browser:
        """Start a browser with its driver; raises FetchError."""
        browser = cls(owner.new_mark())
        try:
            async with asyncio.timeout(START.total_seconds()):
                await browser._start(executable, flags)
        except BaseException as exc:
            await asyncio.shield(browser.close())
            if isinstance(exc, (asyncio.CancelledError, FetchError)):
                raise
            raise FetchError("browser_crashed", f"{executable} does not start: {cause_of(exc)}") from exc
        return browser

    async def _start(self, executable: str, flags: tuple[str, ...]) -> None:
        from playwright.async_api import async_playwright

        self._artifacts = owner.new_folder(self._mark)
        self._playwright = await async_playwright().start()
        self._connection = await self._playwright.chromium.launch(
            executable_path=executable,
            artifacts_dir=self._artifacts,
            args=[*FLAGS, *flags, self._mark],
            ignore_default_args=["--disable-dev-shm-usage"] if _has_shared_memory() else None,
            chromium_sandbox=_sandbox(),
            proxy={"server": NOWHERE, "bypass": "<-loopback>"},
            handle_sigint=False,
            handle_sigterm=False,
            handle_sighup=False,
            timeout=START.total_seconds() * 1000,
        )
        self._connection.on("disconnected", lambda _: self.lost.set())
        self._look()
        if self._profile:
            owner.note_folder(self._profile, self._mark)

    @property
    def age(self) -> timedelta:
        return timedelta(seconds=time.monotonic() - self._started)

    @property
    def pid(self) -> int:
        """Of the process that leads the browser's group."""
        return self._leader

    @property
    def driver(self) -> int:
        """The driver's process id."""
        return self._driver

    @property
    def devices(self) -> Mapping[str, Mapping[str, Any]]:
        """What Playwright knows about devices; it makes this list anew for each who asks, which takes milliseconds."""
        if self._playwright and not self._devices:
            self._devices = cast("Any", self._playwright).devices
        return self._devices

    @property
    def version(self) -> str:
        """Such as 156.0.8078.79."""
        return self._connection.version if self._connection else ""

    @property
    def contexts(self) -> int:
        """That are open."""
        return len(self._connection.contexts) if self._connection else 0

    async def context(self, options: Mapping[str, Any]) -> BrowserContext:
        """A fresh context, which shares nothing with others; raises FetchError."""
        from playwright.async_api import Error

        if self._connection is None or self.lost.is_set():
            raise FetchError("browser_crashed", "the browser is gone")
        try:
            async with asyncio.timeout(ANSWER.total_seconds()):
                return await self._connection.new_context(**options)
        except (Error, TimeoutError) as exc:
            raise FetchError("browser_crashed", f"no new context: {_first_lines(exc)}") from exc

    def memory(self) -> Memory:
        """What the whole tree takes now."""
        pids = self._look()
        if not self._lives():
            self.lost.set()
        renderers = {pid: processes.memory_of(pid) for pid in pids if pid in self._renderers}
        rest = sum(processes.memory_of(pid) for pid in pids if pid not in renderers)
        return Memory(rest + sum(renderers.values()), renderers)

    async def is_lost(self, *, in_doubt: bool) -> bool:
        """Has it ended? When a page of it has failed, that may be the first to be seen of it, and is waited for."""
        if in_doubt and not self.lost.is_set():
            self.memory()
            with suppress(TimeoutError):
                async with asyncio.timeout(DOUBT.total_seconds()):
                    await self.lost.wait()
        return self.lost.is_set()

    def kill_renderer(self, pid: int) -> None:
        """End the process of a page; the browser goes on without it."""
        if pid in self._look():
            processes.kill([pid])

    async def close(self) -> None:
        """End it, gently if it listens, and leave no process and no file of it."""
        self._look()
        with suppress(Exception):  # whatever keeps it from ending well, it ends
            async with asyncio.timeout(END.total_seconds()):
                if self._connection:
                    await self._connection.close()
                if self._playwright:
                    await self._playwright.stop()
        self._look()
        self._kill()
        deadline = time.monotonic() + END.total_seconds()
        while self._living() and time.monotonic() < deadline:
            await asyncio.sleep(0.01)
        processes.bury(self._left() - {self._driver})  # the loop waits for the driver
        self.lost.set()
        await asyncio.to_thread(owner.delete_folders, self._profile, self._artifacts)

    def _kill(self) -> None:
        living = self._living()
        if self._leader in living:
            processes.kill_group(self._leader)
        processes.kill(living)

    def _living(self) -> set[int]:
        return {pid for pid, started in self._births.items() if processes.lives(pid, started)}

    def _left(self) -> set[int]:
        """Of all that were ever seen, those that are there, as long as their numbers are not somebody else's."""
        return {pid for pid, started in self._births.items() if processes.born(pid) == started}

    def _look(self) -> set[int]:
        """The processes that live now."""
        if not self._driver:
            self._driver = next(iter(_drivers() - self._strangers), 0)
        if not self._leader:
            self._find_leader()
        roots = [pid for pid in (self._driver, self._leader) if pid]
        seen = {process.pid for process in processes.children_of(*roots)} | set(roots)
        self._births = {pid: self._births.get(pid) or processes.born(pid) for pid in seen | self._left()}
        for pid in seen - self._renderers:
            if any(RENDERER in argument for argument in processes.command_of(pid)):
                self._renderers.add(pid)
        self._renderers &= seen
        return seen

    def _lives(self) -> bool:
        """The browser and its driver both? Playwright says so too, unless it is at a loss itself."""
        return all(processes.lives(pid, self._births.get(pid, "")) for pid in (self._driver, self._leader))

    def _find_leader(self) -> None:
        for process in processes.children_of(os.getpid()):
            if self._mark in processes.command_of(process.pid):
                self._leader = self._leader or process.pid
                self._profile = self._profile or owner.profile_of(process.pid)


def _drivers() -> set[int]:
    """Playwright's drivers among our children."""
    ours = (process.pid for process in processes.children_of(os.getpid()) if process.parent == os.getpid())
    return {pid for pid in ours if "run-driver" in processes.command_of(pid)}


def _has_shared_memory() -> bool:
    try:
        room = os.statvfs("/dev/shm")
    except OSError:
        return False
    return room.f_bavail * room.f_frsize >= ROOM_FOR_SHARED


def _sandbox() -> bool:
    """Is the browser's own sandbox to be used? It cannot be as root, and that is said once."""
    global _said
    if os.geteuid() != 0:
        return True
    if not _said:
        _said = True
        log.warning("browser_without_sandbox", hint="run workers that render pages as another user than root")
    return False


def _first_lines(exc: BaseException) -> str:
    return " ".join(str(exc).split())[:MAX_CAUSE] or type(exc).__name__


def cause_of(exc: BaseException) -> str:
    """Why a browser did not start, by its own words if it said any: Playwright puts all its switches before these."""
    lines = str(exc).splitlines()
    said = dict.fromkeys(found[1].strip() for line in lines if (found := _SAID.search(line)))
    fatal = [line for line in said if "FATAL" in line]
    ended = next((found[1] for line in lines if (found := _ENDED.search(line))), "")
    parts = [*(fatal or said), *([ended] if ended else [])]
    return " ".join(parts)[:MAX_CAUSE] if parts else _first_lines(exc)
