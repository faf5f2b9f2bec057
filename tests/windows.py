"""Windows of a real browser on the dashboard, which fail a test whose page does what no page of ours may do."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field

from flask import Flask
from playwright.sync_api import BrowserContext, Page, expect, sync_playwright
from werkzeug.serving import make_server

from shoal.api.app import STOP_STREAMS

SOON_MS = 30_000


@dataclass(frozen=True, slots=True)
class Windows:
    """Those of one browser: they share its cookies."""

    url: str
    context: BrowserContext
    faults: list[str] = field(default_factory=list[str])
    asked: list[str] = field(default_factory=list[str])
    """Paths that all windows have asked for, in order."""

    def open(self) -> Page:
        """One more. An error of a script, a broken policy or a request to elsewhere fails the test."""
        shown = self.context.new_page()
        shown.on("pageerror", lambda error: self.faults.append(str(error)))
        shown.on("console", lambda line: self.faults.append(line.text) if "Content Security" in line.text else None)
        shown.on("request", lambda request: self._note(request.url))
        return shown

    def _note(self, url: str) -> None:
        if url.startswith(self.url):
            self.asked.append(url.removeprefix(self.url))
        else:
            self.faults.append(url)


@contextmanager
def a_browser(executable: str, url: str) -> Generator[Windows]:
    """Nothing that it was shown has run in any of its windows."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        context = browser.new_context(base_url=url, viewport={"width": 1280, "height": 900})
        context.set_default_timeout(SOON_MS)
        expect.set_options(timeout=SOON_MS)
        windows = Windows(url, context)
        try:
            yield windows
            assert all(shown.evaluate("window.hit") is None for shown in context.pages)
            assert not windows.faults
        finally:
            browser.close()


@contextmanager
def a_window(executable: str, url: str) -> Generator[Page]:
    """The only one of its browser."""
    with a_browser(executable, url) as windows:
        yield windows.open()


@contextmanager
def served(app: Flask) -> Generator[str]:
    """The URL of an API of this process."""
    server = make_server("127.0.0.1", 0, app, threaded=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        app.extensions[STOP_STREAMS]()
        server.shutdown()
        thread.join()
        server.server_close()
