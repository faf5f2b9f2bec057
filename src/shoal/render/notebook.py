"""What is noted while a page is rendered: bounded, whatever the page writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shoal.core.redact import without_secrets
from shoal.render.port import MAX_NOTE, MAX_NOTES, Notes

if TYPE_CHECKING:
    from playwright.async_api import ConsoleMessage, Error, Page

MAX_MESSAGES = 1_000
"""Of a page's console, of any kind: beyond this nobody listens."""
_FAILED = "Failed to load resource: "
_BLOCKED = "net::ERR_BLOCKED_BY_CLIENT"
"""By ourselves."""


class Notebook:
    """The notes of one page."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.blocked = 0
        self.requests = 0
        self.lost = 0
        """Requests that were closed with their page before the browser could be told about them."""
        self.unready = ""
        self.evaluated: list[Any] = []
        self._console: list[str] = []
        self._failed: list[str] = []
        self._messages = 0

    def listen(self, page: Page) -> None:
        """To what the page and the browser write to the console."""

        def hear(message: ConsoleMessage) -> None:
            self._messages += 1
            if self._messages >= MAX_MESSAGES:
                page.remove_listener("console", hear)
            if message.type == "error":
                self._add_message(message.text, str(message.location.get("url", "")))

        def hear_error(error: Error) -> None:
            self._add(self._console, str(error).partition("\n")[0])

        page.on("console", hear)
        page.on("pageerror", hear_error)

    def add_failed(self, url: str, why: str) -> None:
        """A request that came to nothing."""
        self._add(self._failed, f"{without_secrets(url[: 4 * MAX_NOTE])[: MAX_NOTE - 100]} {why}")

    def notes(self, received: int, final_url: str = "") -> Notes:
        """All of it."""
        return Notes(
            console=tuple(self._console),
            failed=tuple(self._failed),
            blocked=self.blocked,
            requests=self.requests,
            received=received,
            evaluated=tuple(self.evaluated),
            final_url=final_url,
            unready=self.unready,
        )

    def _add_message(self, text: str, url: str) -> None:
        if not text.startswith(_FAILED):
            self._add(self._console, text)
        elif _BLOCKED not in text and url != self._url:  # the page's own status is in its response
            self.add_failed(url, text.removeprefix(_FAILED))

    def _add(self, notes: list[str], note: str) -> None:
        if len(notes) < MAX_NOTES:
            notes.append(note[:MAX_NOTE])
