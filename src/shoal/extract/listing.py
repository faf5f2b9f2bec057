"""Documents that list URLs: sitemaps and their indexes, as XML or as text, packed or not; RSS, Atom and RDF feeds.

A listing is a page whose links are its entries. What it is, is told by its first bytes, since servers call such
documents by many names: the root element, or, of a plain text, a first line that is a URL. An entry may have a date.
One that is older than the job wants is told apart; one without a date, or with one that nobody understands, is kept.
"""

from __future__ import annotations

import re
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Mapping
from dataclasses import dataclass, field

from isal import isal_zlib

from shoal.core.frozen import frozen
from shoal.core.moment import latest_ms
from shoal.errors import FetchError
from shoal.extract.elements import Enough, walk
from shoal.extract.page import HTML_TYPES, MAX_HREF_CHARS, MAX_HREFS_CHARS, MAX_LINKS
from shoal.fetch.decode import decode_text, gunzip

LISTING_TYPES = HTML_TYPES | {
    *("text/plain", "application/rss+xml", "application/atom+xml", "application/rdf+xml", "application/x-rss+xml"),
    *("application/gzip", "application/x-gzip", "application/octet-stream", "binary/octet-stream"),
}
"""What servers call them."""
MAX_UNPACKED = 52_428_800
"""Bytes of a packed listing that are read: as many as the protocol allows."""
_HEAD = 8_192
"""Bytes by which a document is known."""
_PACKED_HEAD = 64 << 10
_GZIP = b"\x1f\x8b"
_NAME = re.compile(rb"<(?:[A-Za-z_][\w.-]{0,60}:)?([A-Za-z_][\w.-]{0,60})")
_FIRST_URL = re.compile(rb"https?://[^\s<>\"]{3,}[ \t]*(?:\r|\n|\Z)", re.IGNORECASE)

_HTML = re.compile(rb"\s{0,50}(?:<!doctype html>\s{0,50})?<html[\s>]", re.IGNORECASE)
"""How most pages begin, which list nothing."""

TEXT = "text"


@frozen
class _Shape:
    """How a kind of document looks."""

    kind: str
    """`sitemap`, `index` or `feed`."""
    entry: str
    hrefs: tuple[str, ...]
    """Elements that hold its URL, the best first."""
    dates: tuple[str, ...]


_SITEMAP = _Shape("sitemap", "url", ("loc",), ("lastmod",))
_ITEM = _Shape("feed", "item", ("link", "guid"), ("pubDate", "date", "updated", "modified"))
_SHAPES = {
    "urlset": _SITEMAP,
    "sitemapindex": _Shape("index", "sitemap", ("loc",), ("lastmod",)),
    "rss": _ITEM,
    "RDF": _ITEM,
    "feed": _Shape("feed", "entry", ("link",), ("updated", "modified", "published", "issued")),
}


@dataclass(slots=True)
class Listing:
    """What a document lists."""

    kind: str
    hrefs: list[str] = field(default_factory=list[str])
    dates: list[str] = field(default_factory=list[str])
    """When each was last changed, as the document says; empty where it does not."""
    further: list[str] = field(default_factory=list[str])
    """More such documents: the parts of an index, the next page of a feed."""
    stale: list[str] = field(default_factory=list[str])
    """Entries that are older than what is wanted."""
    base: str = ""
    cut: bool = False
    """Is there more than was read?"""


def name_of(body: bytes, media_type: str) -> str:
    """What a document is by its first bytes: the root of a listing, `text`, or nothing."""
    if media_type not in LISTING_TYPES or _HTML.match(body):
        return ""
    head = _head_of(body)
    if head[:1] == b"<":
        name = _root_of(head)
        return name if name in _SHAPES else ""
    return TEXT if media_type not in HTML_TYPES and _FIRST_URL.match(head) else ""


def is_packed(body: bytes) -> bool:
    """Must it be unpacked before it is read?"""
    return body[:2] == _GZIP


def read_listing(body: bytes, charset: str, name: str, since_ms: int | None = None) -> Listing:
    """All that a document of this name lists, up to the caps."""
    try:
        text = gunzip(body, MAX_UNPACKED + 1) if is_packed(body) else body
    except FetchError:
        return Listing(_SHAPES.get(name, _SITEMAP).kind, cut=True)
    cut = len(text) > MAX_UNPACKED
    if is_packed(body):
        charset = "utf-8"
    collector = _Collector(_SHAPES.get(name, _SITEMAP), since_ms)
    if name == TEXT:
        whole = collector.take_lines(decode_text(text[:MAX_UNPACKED], charset))
    else:
        whole = walk(text[:MAX_UNPACKED], charset, collector)
    listing = collector.listing
    listing.cut |= cut or not whole
    return listing


class _Collector:
    """Told of a document's elements, or lines, it collects the entries."""

    def __init__(self, shape: _Shape, since_ms: int | None) -> None:
        self.listing = Listing(shape.kind)
        self._shape = shape
        self._since_ms = since_ms
        self._entry: dict[str, str] | None = None
        self._level = 0
        self._known: set[str] = set()
        self._room = MAX_HREFS_CHARS

    def begin(self, path: list[str], attributes: Mapping[str, str]) -> bool:
        name = path[-1]
        if len(path) == 1:
            self.listing.base = attributes.get("xml:base", "")[:MAX_HREF_CHARS]
        if self._entry is None:
            if name == self._shape.entry:
                self._entry, self._level = {}, len(path)
            elif name == "link" and attributes.get("rel") == "next" and self._shape.kind == "feed":
                self._add(self.listing.further, attributes.get("href", ""))
            return False
        if len(path) != self._level + 1:
            return False
        if name == "link" and "href" in attributes:
            if attributes.get("rel", "alternate") == "alternate":
                self._entry.setdefault(name, attributes["href"])
            return False
        if name == "guid" and attributes.get("isPermaLink", "true").lower() == "false":
            return False
        return name in self._shape.hrefs or name in self._shape.dates

    def end(self, path: list[str], text: str) -> None:
        if self._entry is None:
            return
        if len(path) == self._level:
            self._close(self._entry)
            self._entry = None
        elif len(path) == self._level + 1 and text.strip():
            self._entry.setdefault(path[-1], text.strip())

    def take_lines(self, text: str) -> bool:
        for line in text.splitlines():
            if line.strip():
                try:
                    self._close({"loc": line.strip()})
                except Enough:
                    return False
        return True

    def _close(self, entry: dict[str, str]) -> None:
        href = next((entry[name] for name in self._shape.hrefs if name in entry), "").replace("&amp;", "&")
        if not href.lower().startswith(("http://", "https://")) and self._shape.kind != "feed":
            return
        date = next((entry[name] for name in self._shape.dates if name in entry), "")
        listing = self.listing
        if self._is_stale(date):
            self._add(listing.stale, href)
        elif listing.kind == "index":
            self._add(listing.further, href)
        elif self._add(listing.hrefs, href):
            listing.dates.append(date[:40])

    def _is_stale(self, date: str) -> bool:
        if self._since_ms is None or not date:
            return False
        at = latest_ms(date)
        return at is not None and at < self._since_ms

    def _add(self, to: list[str], href: str) -> bool:
        """Each once; those that are too long are left out, and of too many the rest."""
        if not href or href in self._known:
            return False
        if len(href) > MAX_HREF_CHARS:
            self.listing.cut = True
            return False
        self._room -= len(href)
        if len(self._known) >= MAX_LINKS or self._room < 0:
            raise Enough
        self._known.add(href)
        to.append(href)
        return True


def _head_of(body: bytes) -> bytes:
    head = body[:_HEAD]
    if is_packed(body):
        try:
            head = isal_zlib.decompressobj(31).decompress(body[:_PACKED_HEAD], _HEAD)
        except isal_zlib.error:
            return b""
    if head.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
        head = head.decode("utf-16", "ignore").encode()
    return head.removeprefix(BOM_UTF8).lstrip()


def _root_of(head: bytes) -> str:
    """The name of the first element, behind declarations and comments."""
    at = 0
    while at < len(head):
        if head.startswith(b"<?", at):
            end, step = head.find(b"?>", at), 2
        elif head.startswith(b"<!--", at):
            end, step = head.find(b"-->", at), 3
        elif head.startswith(b"<!", at):
            end, step = _end_of_doctype(head, at), 1
        else:
            found = _NAME.match(head, at)
            return found[1].decode("ascii", "replace") if found else ""
        if end < 0:
            return ""
        at = end + step
        while head[at : at + 1].isspace():
            at += 1
    return ""


def _end_of_doctype(head: bytes, at: int) -> int:
    inner, end = head.find(b"[", at), head.find(b">", at)
    if inner < 0 or inner > end:
        return end
    closing = head.find(b"]", inner)
    return head.find(b">", closing) if closing >= 0 else -1
