"""Where the URLs of a map go: one a line, or with more about each as JSON, each once."""

from __future__ import annotations

from typing import TextIO

from shoal.core.json_line import json_line
from shoal.core.moment import latest_ms
from shoal.core.redact import visible
from shoal.extract.trail import Sighting


class Sink:
    """Takes sightings, and writes those that are new and wanted until there are enough."""

    def __init__(self, file: TextIO, search: str, limit: int, *, as_json: bool) -> None:
        self._file = file
        self._on_screen = file.isatty()
        self._search = search.lower()
        self._limit = limit
        self._as_json = as_json
        self._seen: set[int] = set()
        self.written = 0

    @property
    def is_full(self) -> bool:
        return self.written >= self._limit

    def take(self, sighting: Sighting) -> None:
        """Write it, unless it is known, or not what is looked for."""
        text = str(sighting.url)
        if self.is_full or self._search not in text.lower() or sighting.url.fingerprint in self._seen:
            return
        self._seen.add(sighting.url.fingerprint)
        line = json_line(_record(sighting)) if self._as_json else text + "\n"
        self._file.write(visible(line, lines=True) if self._on_screen else line)
        self.written += 1

    def flush(self) -> None:
        self._file.flush()


def _record(sighting: Sighting) -> dict[str, str | None]:
    """A date that nobody understands is none."""
    date = sighting.date if sighting.date and latest_ms(sighting.date) is not None else None
    return {"url": str(sighting.url), "source": sighting.source, "lastmod": date}
