"""What a page says to robots about itself, in headers and in its markup."""

from __future__ import annotations

import pytest

from shoal.core.url import Base
from shoal.extract.directives import SILENT, Directives, read_directives
from shoal.extract.page import META_NAMES, Html

NOFOLLOW = Directives(nofollow=True)
NOINDEX = Directives(noindex=True)
BOTH = Directives(nofollow=True, noindex=True)


def of_headers(*values: str) -> Directives:
    return read_directives([(b"X-Robots-Tag", value.encode()) for value in values])


def of_page(markup: str) -> Directives:
    return read_directives((), Html.parse(markup.encode(), "utf-8", Base("http://h.example/")).metas(META_NAMES))


@pytest.mark.parametrize(
    ("values", "directives"),
    [
        ((), SILENT),
        (("",), SILENT),
        (("noindex",), NOINDEX),
        (("NoFollow",), NOFOLLOW),
        (("noindex, nofollow",), BOTH),
        (("noindex,nofollow",), BOTH),
        (("noindex", "nofollow"), BOTH),
        (("none",), BOTH),
        (("all",), SILENT),
        (("index, follow",), SILENT),
        (("noarchive, nosnippet",), SILENT),
        (("nofollowing, noindexed",), SILENT),
        (("shoal: noindex",), NOINDEX),
        (("Shoal : none",), BOTH),
        (("*: nofollow",), NOFOLLOW),
        (("googlebot: noindex, nofollow",), SILENT),
        (("googlebot: noindex", "nofollow"), NOFOLLOW),
        (("nofollow, googlebot: noindex",), NOFOLLOW),
        (("googlebot: nofollow, shoal: noindex",), NOINDEX),
        (("otherbot: noindex, nofollow, Shoal: nofollow",), NOFOLLOW),
        (("unavailable_after: 25 Jun 2010 15:00:00 PST",), SILENT),
        (("unavailable_after: Friday, 25-Jun-10 15:00:00 PST, noindex",), NOINDEX),
        (("noindex, unavailable_after: 25 Jun 2010 15:00:00 PST",), NOINDEX),
        (("max-snippet: 20, nofollow",), NOFOLLOW),
        (("max-image-preview:none",), SILENT),
        (("googlebot: unavailable_after: 25 Jun 2010 15:00:00 PST, noindex",), SILENT),
    ],
)
def test_headers_are_understood(values: tuple[str, ...], directives: Directives) -> None:
    assert of_headers(*values) == directives


def test_the_name_of_the_header_may_be_written_in_any_way_and_others_do_not_count() -> None:
    headers = [(b"x-ROBOTS-tag", b"noindex"), (b"X-Robots-Tags", b"nofollow"), (b"Content-Type", b"nofollow")]
    assert read_directives(headers) == NOINDEX
    assert read_directives([(b"X-Robots-Tag", b"\xff, nofollow")]) == NOFOLLOW


@pytest.mark.parametrize(
    ("markup", "directives"),
    [
        ("<p>noindex", SILENT),
        ("<meta name=robots content=noindex>", NOINDEX),
        ("<META NAME='ROBOTS' CONTENT='NOINDEX, NOFOLLOW'>", BOTH),
        ("<meta name=robots content='noindex;nofollow'>", BOTH),
        ("<meta name=robots content='noindex nofollow'>", BOTH),
        ("<meta name=robots content=none>", BOTH),
        ("<meta name=shoal content=nofollow>", NOFOLLOW),
        ("<meta name=Shoal content=nofollow><meta name=robots content=noindex>", BOTH),
        ("<meta name=googlebot content=none>", SILENT),
        ("<meta name=robots content='index,follow'>", SILENT),
        ("<meta name=robots>", SILENT),
        ("<meta name=robots content>", SILENT),
        ("<meta property=robots content=noindex>", SILENT),
        ("<p>broken head<meta name=robots content=nofollow>", NOFOLLOW),
        ("<!-- <meta name=robots content=none> -->", SILENT),
    ],
)
def test_markup_is_understood(markup: str, directives: Directives) -> None:
    assert of_page(markup) == directives


def test_headers_and_markup_add_up() -> None:
    html = Html.parse(b"<meta name=robots content='noindex'>", "utf-8", Base("http://h.example/"))
    assert read_directives([(b"X-Robots-Tag", b"nofollow")], html.metas(META_NAMES)) == BOTH
