"""What is known about fetched URLs, as values and as rows: pages, links, dead letters."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson
import sqlalchemy as sa

from shoal.core.likeness import Likeness


@dataclass(frozen=True, slots=True)
class ArchiveRef:
    """Where a raw response lies."""

    key: str
    offset: int
    length: int


@dataclass(frozen=True, slots=True)
class Capture:
    """What was kept of a rendered page besides its response."""

    kind: str
    """`document`, `screenshot` or `pdf`."""
    media_type: str
    size: int
    archive: ArchiveRef


@dataclass(frozen=True, slots=True)
class PageRow:
    """What is known about one fetched URL."""

    job: str
    fingerprint: int
    url: str
    host: str
    status: int
    depth: int
    attempt: int
    content_type: str
    charset: str
    size: int
    elapsed_ms: float
    fetched_ms: int
    redirect: str | None = None
    canonical: str | None = None
    archive: ArchiveRef | None = None
    request_id: str = ""
    """Of the submission."""
    hops: int = 0
    """Redirects that led here."""
    received: int = 0
    """Bytes of the body on the wire."""
    engine: str = "http"
    """What fetched it: http or browser."""
    captures: tuple[Capture, ...] = ()
    notes: Mapping[str, Any] | None = None
    """What was seen while it was rendered."""
    callback: str = ""
    """Of the job's spider, which got the page."""
    meta: str | None = None
    """What was sent along to it, as JSON."""

    content_hash: int | None = None
    """Of all words of its content; None when nobody looks for duplicates, or there are too few."""
    simhash: int | None = None
    duplicate_of: int | None = None
    """Fingerprint of an earlier page of the job that says the same."""
    found_on: int | None = None
    """Fingerprint of the page that first led to it; None when it was submitted, or nobody knows."""

    @property
    def likeness(self) -> Likeness | None:
        """By which it is known again."""
        if self.content_hash is None or self.simhash is None:
            return None
        return Likeness(self.content_hash, self.simhash)

    @property
    def tells_links(self) -> bool:
        """Can its links be read from its body again? Not when it is not kept, nor when scripts have written them."""
        return self.archive is not None and self.engine == "http"

    def capture(self, kind: str) -> Capture | None:
        return next((each for each in self.captures if each.kind == kind), None)


@dataclass(frozen=True, slots=True)
class FoundLinks:
    """Links of a page whose body is not kept."""

    job: str
    depth: int
    """Of the links, not of the page."""
    urls: tuple[str, ...]
    """Each a line of `core.tail`: what a spider sends along stands behind it."""
    fingerprint: int | None = None
    """Of the page."""


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A request given up on, and why."""

    job: str
    fingerprint: int
    url: str
    host: str
    outcome: str
    reason: str
    detail: str
    depth: int
    attempts: int
    at_ms: int
    callback: str = ""
    """Of the job's spider, which would have got the page."""
    meta: str | None = None
    found_on: int | None = None
    """Fingerprint of the page that first led to it."""


def page_values(row: PageRow) -> dict[str, object]:
    """A page as a row of its table."""
    archive = row.archive
    return {
        "job": row.job,
        "fingerprint": row.fingerprint,
        "url": row.url,
        "host": row.host,
        "status": row.status,
        "depth": row.depth,
        "attempt": row.attempt,
        "content_type": row.content_type,
        "charset": row.charset,
        "size": row.size,
        "elapsed_ms": row.elapsed_ms,
        "fetched_ms": row.fetched_ms,
        "redirect": row.redirect,
        "canonical": row.canonical,
        "archive_key": archive.key if archive else None,
        "archive_offset": archive.offset if archive else None,
        "archive_length": archive.length if archive else None,
        "request_id": row.request_id,
        "hops": row.hops,
        "received": row.received,
        "engine": row.engine,
        "captures": _json([_capture_values(each) for each in row.captures]) if row.captures else None,
        "notes": _json(row.notes) if row.notes else None,
        "content_hash": row.content_hash,
        "simhash": row.simhash,
        "duplicate_of": row.duplicate_of,
        "found_on": row.found_on,
        "callback": row.callback,
        "meta": row.meta,
    }


def page_of(row: sa.RowMapping) -> PageRow:
    """The page that a row is about."""
    plain = {name: row[name] for name in PageRow.__slots__ if name not in ("archive", "captures", "notes")}
    key = row["archive_key"]
    archive = None if key is None else ArchiveRef(key, row["archive_offset"], row["archive_length"])
    captures = tuple(map(_capture_of, orjson.loads(row["captures"]))) if row["captures"] else ()
    notes = orjson.loads(row["notes"]) if row["notes"] else None
    return PageRow(**plain, archive=archive, captures=captures, notes=notes)


def _capture_values(capture: Capture) -> list[object]:
    at = capture.archive
    return [capture.kind, capture.media_type, capture.size, at.key, at.offset, at.length]


def _capture_of(values: list[Any]) -> Capture:
    kind, media_type, size, *place = values
    return Capture(kind, media_type, size, ArchiveRef(*place))


def _json(value: object) -> str:
    return orjson.dumps(value).decode()


def links_values(row: FoundLinks) -> dict[str, object]:
    """Links as a row of their table."""
    urls = zlib.compress("\n".join(row.urls).encode(), 1)
    return {"job": row.job, "depth": row.depth, "urls": urls, "fingerprint": row.fingerprint}


def links_of(row: sa.RowMapping) -> FoundLinks:
    """The links that a row has."""
    urls = tuple(zlib.decompress(row["urls"]).decode().split("\n"))
    return FoundLinks(row["job"], row["depth"], urls, row["fingerprint"])


def letter_of(row: sa.RowMapping) -> DeadLetter:
    """The dead letter that a row is about."""
    return DeadLetter(**{name: row[name] for name in DeadLetter.__slots__})


def letter_values(letter: DeadLetter) -> dict[str, object]:
    """A dead letter as a row of its table."""
    return {name: getattr(letter, name) for name in DeadLetter.__slots__}
