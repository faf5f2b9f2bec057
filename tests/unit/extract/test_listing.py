from __future__ import annotations

import gzip
import time
import tracemalloc
from pathlib import Path

import pytest

from shoal.extract.elements import MAX_NESTED
from shoal.extract.findings import Findings, Wanted, find
from shoal.extract.listing import MAX_UNPACKED, Listing, name_of, read_listing
from shoal.extract.page import MAX_LINKS

X = "https://x.example/"
XMLNS = 'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'
SINCE_MS = 1_767_225_600_000
"""2026-01-01"""


def read(text: str | bytes, since_ms: int | None = None, media_type: str = "application/xml") -> Listing:
    body = text if isinstance(text, bytes) else text.encode()
    name = name_of(body, media_type)
    assert name
    return read_listing(body, "utf-8", name, since_ms)


def urlset(*entries: str) -> str:
    return (
        f'<?xml version="1.0" encoding="UTF-8"?>\n<urlset {XMLNS}>'
        + "".join(f"<url>{entry}</url>" for entry in entries)
        + "</urlset>"
    )


def test_a_sitemap_lists_its_pages_with_their_dates() -> None:
    listing = read(urlset(f"<loc> {X}a </loc><lastmod>2026-01-05</lastmod>", f"<loc>{X}b</loc>", f"<loc>{X}a</loc>"))
    assert (listing.kind, listing.hrefs, listing.dates) == ("sitemap", [X + "a", X + "b"], ["2026-01-05", ""])
    assert not listing.cut


def test_pictures_of_a_page_are_no_pages() -> None:
    entry = f"<loc>{X}a</loc><image:image><image:loc>{X}a.png</image:loc></image:image>"
    text = urlset(entry).replace("<urlset", '<urlset xmlns:image="http://www.google.com/schemas/sitemap-image/1.1"')
    assert read(text).hrefs == [X + "a"]


def test_an_index_leads_to_its_parts() -> None:
    text = (
        f"<sitemapindex {XMLNS}><sitemap><loc>{X}1.xml</loc><lastmod>2026-02-01T10:00:00Z</lastmod></sitemap>"
        f"<sitemap><loc>{X}2.xml.gz</loc><lastmod>2024-02</lastmod></sitemap></sitemapindex>"
    )
    listing = read(text, SINCE_MS)
    assert (listing.kind, listing.hrefs, listing.further, listing.stale) == (
        "index", [], [X + "1.xml"], [X + "2.xml.gz"],
    )  # fmt: skip


@pytest.mark.parametrize(
    ("date", "stale"),
    [
        ("2025-12-31", True),
        ("2026-01-01", False),
        ("2025-12-31T23:59:59Z", True),
        ("2026-01-01T00:30:00+01:00", True),
        ("2025", True),
        ("2026", False),
        ("Wed, 31 Dec 2025 23:00:00 GMT", True),
        ("Thu, 01 Jan 2026 01:00:00 +0000", False),
        ("yesterday", False),
        ("", False),
        ("9999-99-99", False),
    ],
)
def test_only_what_is_known_to_be_older_is_told_apart(date: str, stale: bool) -> None:
    listing = read(urlset(f"<loc>{X}a</loc><lastmod>{date}</lastmod>"), SINCE_MS)
    assert (listing.stale if stale else listing.hrefs) == [X + "a"]


def test_an_rss_feed_lists_the_links_of_its_items() -> None:
    text = (
        f'<rss version="2.0" xmlns:atom="http://www.w3.org/2005/Atom"><channel><link>{X}</link>'
        f'<atom:link rel="self" href="{X}feed"/><atom:link rel="next" href="{X}feed?page=2"/>'
        f"<item><title>A &nbsp; B</title><link>{X}a?x=1&y=2</link><pubDate>Mon, 05 Jan 2026 08:00:00 GMT</pubDate>"
        f"</item><item><guid>{X}b</guid></item><item><guid isPermaLink='false'>77</guid></item>"
        f"<item><link><![CDATA[{X}c?x=1&y=2]]></link></item></channel></rss>"
    )
    listing = read(text, media_type="application/rss+xml")
    assert (listing.kind, listing.hrefs) == ("feed", [X + "a?x=1&y=2", X + "b", X + "c?x=1&y=2"])
    assert listing.further == [X + "feed?page=2"]
    assert not listing.cut


def test_an_atom_feed_lists_its_entries() -> None:
    text = (
        f'<feed xmlns="http://www.w3.org/2005/Atom" xml:base="{X}blog/"><link rel="self" href="feed.atom"/>'
        f'<entry><link rel="enclosure" href="a.mp3"/><link href="a"/><updated>2026-01-05T08:00:00Z</updated></entry>'
        f'<entry><link rel="alternate" href="{X}b"/><published>2025-01-05T08:00:00Z</published></entry></feed>'
    )
    listing = read(text, SINCE_MS, "application/atom+xml")
    assert (listing.hrefs, listing.stale, listing.base) == (["a"], [X + "b"], X + "blog/")


def test_an_rdf_feed_lists_its_items() -> None:
    text = (
        '<?xml version="1.0" encoding="ISO-8859-1"?><!-- old --><!DOCTYPE rdf:RDF [<!ENTITY x "y">]>'
        '<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns="http://purl.org/rss/1.0/" '
        'xmlns:dc="http://purl.org/dc/elements/1.1/">'
        f"<channel><link>{X}</link></channel><item><link>{X}a</link><dc:date>2026-01-05</dc:date></item></rdf:RDF>"
    )
    listing = read(text)
    assert (listing.hrefs, listing.dates) == ([X + "a"], ["2026-01-05"])


def test_a_text_of_urls_is_a_sitemap_and_another_is_not() -> None:
    listing = read(f"\ufeff{X}a\r\n\r\n{X}b\nhello\n", media_type="text/plain")
    assert listing.hrefs == [X + "a", X + "b"]
    assert name_of(b"Monday to Saturday", "text/plain") == ""
    assert name_of(f"{X}a is our page".encode(), "text/plain") == ""


def test_a_packed_sitemap_is_unpacked() -> None:
    packed = gzip.compress(urlset(f"<loc>{X}a</loc>").encode())
    assert read(packed, media_type="application/x-gzip").hrefs == [X + "a"]
    assert read(packed, media_type="application/octet-stream").hrefs == [X + "a"]
    assert name_of(gzip.compress(b"a folder of files"), "application/gzip") == ""


def test_other_documents_are_no_listings() -> None:
    assert name_of(b"<!doctype html><html><urlset>", "text/html") == ""
    assert name_of(b'<?xml version="1.0"?><html xmlns="http://www.w3.org/1999/xhtml">', "application/xhtml+xml") == ""
    assert name_of(b"<urlset>", "image/svg+xml") == ""
    assert name_of(b"\x1f\x8bnonsense", "application/gzip") == ""


def test_other_charsets_are_read() -> None:
    text = urlset(f"<loc>{X}caf\u00e9</loc>")
    body = text.encode("utf-16")
    assert read_listing(body, "utf-16", name_of(body, "text/xml")).hrefs == [X + "caf\u00e9"]
    western = text.replace("UTF-8", "windows-1252").encode("windows-1252")
    assert read_listing(western, "windows-1252", "urlset").hrefs == [X + "caf\u00e9"]


# --- hostile -------------------------------------------------------------------------------------------------------


def test_entities_are_never_expanded() -> None:
    levels = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 12))
    text = f'<!DOCTYPE urlset [<!ENTITY l0 "lol">{levels}]><urlset><url><loc>{X}&l11;</loc></url></urlset>'
    tracemalloc.start()
    started = time.process_time()
    listing = read(text)
    assert time.process_time() - started < 1
    assert tracemalloc.get_traced_memory()[1] < 5_000_000
    tracemalloc.stop()
    assert listing.hrefs == [X + "&l11;"]


def test_no_file_of_ours_gets_into_a_url(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("canary-7461")
    for declaration in (f'<!ENTITY x SYSTEM "file://{secret}">', f'<!ENTITY % x SYSTEM "file://{secret}"> %x;'):
        text = f"<!DOCTYPE urlset [{declaration}]><urlset><url><loc>{X}?&x;</loc></url></urlset>"
        assert "canary" not in str(read(text))


def test_a_million_pages_are_cut_at_the_protocols_limit() -> None:
    text = urlset(*(f"<loc>{X}{number}</loc>" for number in range(1_000_000)))
    started = time.process_time()
    listing = read(text)
    assert time.process_time() - started < 3
    assert len(listing.hrefs) == MAX_LINKS
    assert listing.cut


def test_deep_nesting_ends_the_reading() -> None:
    listing = read(f"<urlset><url><loc>{X}a</loc></url>" + "<a>" * 1_000_000)
    assert listing.hrefs == [X + "a"]
    assert listing.cut
    assert MAX_NESTED < 1_000


def test_a_bomb_is_unpacked_up_to_the_cap() -> None:
    body = gzip.compress(f"<urlset><url><loc>{X}a</loc></url>".encode() + b" " * (3 * MAX_UNPACKED))
    listing = read(body, media_type="application/gzip")
    assert listing.hrefs == [X + "a"]
    assert listing.cut


def test_what_is_broken_is_read_up_to_there() -> None:
    assert read(f"<urlset><url><loc>{X}a</loc></url><url><loc>{X}b</url>").hrefs == [X + "a"]
    assert read(b"<urlset>\x00<url><loc>" + X.encode() + b"\xff\x01</loc></url></urlset>").hrefs == [X + "\ufffd"]


def test_a_page_and_a_listing_are_found_by_the_same_function() -> None:
    body = urlset(f"<loc>{X}a</loc>").encode()
    found = find(body, Wanted(X, "utf-8", links=True, listing=name_of(body, "text/xml")))
    assert found == Findings(hrefs=(X + "a",), dates=("",), kind="sitemap")
    assert find(body, Wanted(X, "utf-8", listing="urlset")) == Findings(kind="sitemap")
