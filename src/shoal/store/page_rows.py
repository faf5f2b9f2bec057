"""What is known about fetched URLs, as values and as rows: pages, links, dead letters."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import fields
from operator import attrgetter
from typing import Any

import orjson
import sqlalchemy as sa
from isal import isal_zlib
from sqlalchemy.engine import Connection

from shoal.core.frozen import frozen, names_of, values_of
from shoal.core.likeness import Likeness
from shoal.core.reuse import Known, Validators
from shoal.store.tables import pages

CAPTURES_AT_ONCE = 1_000
"""Rows whose captures are looked at together."""


@frozen
class ArchiveRef:
    """Where a raw response lies."""

    key: str
    offset: int
    length: int


@frozen
class Capture:
    """What was kept of a rendered page besides its response."""

    kind: str
    """`document`, `screenshot` or `pdf`."""
    media_type: str
    size: int
    archive: ArchiveRef


@frozen
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
    digest: int | None = None
    """Of its text without noise (`core.noise`); None when nobody asked, or it could not be read."""
    etag: str | None = None
    last_modified: str | None = None
    checked_ms: int | None = None
    """When its host last said that this is the page; None: when it was fetched."""
    interval_ms: int | None = None
    """How often it is visited; None: nobody has said so yet."""
    reused: str | None = None
    """How it was carried over from an earlier job; None: it was fetched."""
    unverified: int = 0
    """Times in a row that its host said that it has not changed."""
    body_hash: int | None = None
    """Of the unpacked body, for jobs that visit pages as often as they change."""

    @property
    def known(self) -> Known:
        """For who decides whether it is used again."""
        checked = self.checked_ms or self.fetched_ms
        validators = Validators(self.etag, self.last_modified)
        rendered = self.engine == "browser"
        return Known(self.fetched_ms, checked, validators, self.interval_ms, self.unverified, rendered)

    @property
    def lenders(self) -> set[str]:
        """Other jobs whose archive has a part of it."""
        places = (self.archive, *(each.archive for each in self.captures))
        return {place.key.partition("/")[0] for place in places if place} - {self.job}

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


_PLAIN = tuple(each.name for each in fields(PageRow) if each.name not in ("archive", "captures", "notes"))
"""Fields of a page that are columns as they are."""
USUAL_COLUMNS = (
    "job", "fingerprint", "url", "host", "status", "depth", "attempt", "content_type", "charset", "size", "elapsed_ms",
    "fetched_ms", "redirect", "canonical", "archive_key", "archive_offset", "archive_length", "request_id", "hops",
    "received", "found_on", "etag", "last_modified",
)  # fmt: skip
"""All that there is to say of most pages: rows of these take SQLite a third of the time that whole ones take."""
_FURTHER = tuple(each for each in fields(PageRow) if each.name not in (*USUAL_COLUMNS, "archive"))
_further = attrgetter(*(each.name for each in _FURTHER))
_NOTHING_FURTHER = tuple(each.default for each in _FURTHER)
_PLACE = {"archive_key": "archive.key", "archive_offset": "archive.offset", "archive_length": "archive.length"}
_kept = attrgetter(*(_PLACE.get(name, name) for name in USUAL_COLUMNS))
_bare = attrgetter(*("archive" if name in _PLACE else name for name in USUAL_COLUMNS))
"""The archive of such a page is None, and so are all parts of its place there."""


@frozen
class FoundLinks:
    """Links of a page whose body is not kept."""

    job: str
    depth: int
    """Of the links, not of the page."""
    urls: tuple[str, ...]
    """Each a line of `core.tail`: what a spider sends along stands behind it."""
    fingerprint: int | None = None
    """Of the page."""


@frozen
class Outlinks:
    """All that a page leads to, packed."""

    job: str
    fingerprint: int
    found: bytes


@frozen
class CarriedOver:
    """A page whose row was made from that of an earlier job."""

    job: str
    fingerprint: int
    source: str
    """The earlier job: it must not have been given up when the row is written."""
    with_items: bool
    """Its items are those of the earlier page; else they were taken anew."""
    lenders: frozenset[str] = frozenset()
    """Jobs whose archive it lies in."""


@frozen
class Recrawled:
    """What is written beside the pages of jobs that know an earlier one."""

    outlinks: Sequence[Outlinks] = ()
    carried: Sequence[CarriedOver] = ()


@frozen
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
        "digest": row.digest,
        "callback": row.callback,
        "meta": row.meta,
        "etag": row.etag,
        "last_modified": row.last_modified,
        "checked_ms": row.checked_ms,
        "interval_ms": row.interval_ms,
        "reused": row.reused,
        "unverified": row.unverified,
        "body_hash": row.body_hash,
    }


def is_usual(row: PageRow) -> bool:
    """Is there no more to say of it than the usual columns do?"""
    return _further(row) == _NOTHING_FURTHER


def usual_values(row: PageRow) -> tuple[object, ...]:
    """The usual columns of a page, in their order."""
    return _bare(row) if row.archive is None else _kept(row)


def page_of(row: sa.RowMapping) -> PageRow:
    """The page that a row is about."""
    plain = {name: row[name] for name in _PLAIN}
    key = row["archive_key"]
    archive = None if key is None else ArchiveRef(key, row["archive_offset"], row["archive_length"])
    captures = tuple(map(_capture_of, orjson.loads(row["captures"]))) if row["captures"] else ()
    notes = orjson.loads(row["notes"]) if row["notes"] else None
    return PageRow(**plain, archive=archive, captures=captures, notes=notes)


def segments_of(connection: Connection, whose: sa.ColumnElement[bool]) -> set[str]:
    """Segments of the archive that these pages lie in; looks at all of them. A capture may lie in another one."""
    keys = connection.execute(sa.select(pages.c.archive_key).where(whose, pages.c.archive_key.is_not(None)).distinct())
    found: set[str] = set(keys.scalars())
    captured = sa.select(pages.c.captures).where(whose, pages.c.captures.is_not(None))
    for text in connection.execute(captured, execution_options={"yield_per": CAPTURES_AT_ONCE}).scalars():
        found.update(_capture_of(values).archive.key for values in orjson.loads(text))
    return found


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
    urls = isal_zlib.compress("\n".join(row.urls).encode(), 1)  # for a few of them zlib takes twenty times as long
    return {"job": row.job, "depth": row.depth, "urls": urls, "fingerprint": row.fingerprint}


def links_of(row: sa.RowMapping) -> FoundLinks:
    """The links that a row has."""
    urls = tuple(zlib.decompress(row["urls"]).decode().split("\n"))
    return FoundLinks(row["job"], row["depth"], urls, row["fingerprint"])


def letter_of(row: sa.RowMapping) -> DeadLetter:
    """The dead letter that a row is about."""
    return DeadLetter(**{name: row[name] for name in names_of(DeadLetter)})


def letter_values(letter: DeadLetter) -> dict[str, object]:
    """A dead letter as a row of its table."""
    return values_of(letter)
