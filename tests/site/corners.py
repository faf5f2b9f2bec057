"""The irregular pages: redirects, failures, slow pages, odd charsets and encodings, forbidden rooms.

All of them hang off `/corners`. Each group adds its routes and returns the links that lead to them, so
that a route and the link to it are written down side by side.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable
from typing import Any, cast

import brotli
import zstandard

from tests.site import markup
from tests.site.markup import link, paragraph
from tests.site.reply import DROPPED, HTML, NOT_FOUND, Reply, page, plain
from tests.site.routes import Fate, Route, Routes

ELSEWHERE = "http://elsewhere.invalid/"
EXTERNAL = (ELSEWHERE + "friends?of=ours", "https://elsewhere.invalid/")
ROBOTS = "User-agent: *\nDisallow: /private/\n"

_Compress = Callable[[bytes], bytes]
_UNFETCHABLE = (
    "mailto:hello@elsewhere.invalid",
    "javascript:void(window.print())",
    "tel:+441632960123",
    "data:text/html,<a href='/ghosts/data'>no</a>",
    "ftp://elsewhere.invalid/catalogue",
    "http://[not-an-address/",
    "#top",
    "",
)
# Addresses in comments and scripts are not links; a crawler that scans text would ask for these.
_GHOSTS = (
    '<!-- <a href="/ghosts/comment">Old stock room</a> -->\n'
    "<script>const shelf = '<a href=\"/ghosts/script\">Shelf</a>';</script>\n"
)


def add_corners(routes: Routes, slow_seconds: float) -> None:
    groups = (
        _add_leaflets(routes),
        _add_redirects(routes),
        _add_failures(routes),
        _add_slow(routes, slow_seconds),
        _add_charsets(routes),
        _add_encodings(routes),
        _add_base(routes),
        _add_files(routes),
        _add_forbidden(routes),
        [link(href, "Not for crawling") for href in (*_UNFETCHABLE, *EXTERNAL)],
    )
    routes.page("/corners", "Odd corners", "".join(map(markup.bullets, groups)) + _GHOSTS)
    routes.add("/robots.txt", Route(Fate.UNLINKED, (plain(ROBOTS),)))


def _add_leaflets(routes: Routes) -> list[str]:
    routes.page("/about", "About us", paragraph("A shop of two floors, one cat and no hurry."))
    routes.page("/contact", "Contact", paragraph("Write to us; we like stamps."))
    routes.page("/delivery", "Delivery", paragraph("By van to the valley, by post beyond it."))
    routes.page("/readers/zo%C3%AB", "Zoë's reading list", paragraph("Twelve short books for long evenings."))
    # The same address spelt raw and percent-encoded.
    spellings = ("/readers/zoë", "/readers/zo%C3%AB")
    return [link(to, "Leaflet") for to in ("/about", "/contact", "/delivery", *spellings)]


def _add_redirects(routes: Routes) -> list[str]:
    routes.redirect("/go/1", "/go/2")
    routes.redirect("/go/2", routes.origin + "/go/3")
    routes.redirect("/go/3", "/sale/winter")
    routes.page("/sale/winter", "Winter sale", paragraph("You have followed three signs to get here."))
    routes.redirect("/loop/a", "/loop/b", fate=Fate.LOOP)
    routes.redirect("/loop/b", "/loop/a", fate=Fate.LOOP)
    routes.redirect("/out/partner", ELSEWHERE, fate=Fate.LEAVING)
    routes.redirect("/about/", "/about", status=301)
    # robots.txt has a say over every hop, not only over the address that was linked.
    routes.redirect("/go/staff", "/private/staff?view=rota")
    starts = ("/go/1", "/loop/a", "/out/partner", "/about/", "/go/staff")
    return [link(start, "This way") for start in starts]


def _add_failures(routes: Routes) -> list[str]:
    broken = {
        "/books/the-lost-folio": ("404", NOT_FOUND),
        "/books/the-burnt-quarto": ("404", NOT_FOUND),
        "/events/2019": ("410", page("<h1>Gone</h1>", status=410)),
        "/reports/stock": ("500", page("<h1>Out of order</h1>", status=500)),
        "/reports/till": ("dropped", DROPPED),
    }
    for target, (reason, reply) in broken.items():
        routes.dead(target, reason, reply)
    busy = Reply(503, (("Content-Type", HTML), ("Retry-After", "1")), b"<h1>One moment</h1>")
    ready = page(markup.document("Busy desk", markup.titled("Busy desk", paragraph("Thank you for waiting."))))
    routes.add("/desk/busy", Route(Fate.PAGE, (busy, ready), "Busy desk"))
    return [link(target, "Perhaps") for target in (*broken, "/desk/busy")]


def _add_slow(routes: Routes, seconds: float) -> list[str]:
    targets = [f"/slow/{number}" for number in (1, 2, 3)]
    for target in targets:
        heading = f"Slow reading {target[-1]}"
        text = markup.document(heading, markup.titled(heading, paragraph("Take your time.")))
        routes.add(target, Route(Fate.PAGE, (page(text, delay=seconds),), heading))
    return [link(target, "No hurry") for target in targets]


def _add_charsets(routes: Routes) -> list[str]:
    """One charset is declared only inside the page, the other only in the header."""
    western = _charset_page("windows-1252", "Café “Œuvre” – €5", "text/html", '<meta charset="windows-1252">')
    japanese = _charset_page("shift_jis", "表紙の美しい本", "text/html; charset=shift_jis", "")
    routes.add("/foreign/cafe", western)
    routes.add("/foreign/hyoshi", japanese)
    return [link(target, "Foreign books") for target in ("/foreign/cafe", "/foreign/hyoshi")]


def _charset_page(codec: str, heading: str, content_type: str, head: str) -> Route:
    # The breadcrumb arrow of other pages is in neither charset, hence plain paragraphs only.
    text = markup.document(heading, markup.titled(heading, paragraph(heading)), head=head)
    reply = Reply(200, (("Content-Type", content_type),), text.encode(codec))
    return Route(Fate.PAGE, (reply,), heading)


def _add_encodings(routes: Routes) -> list[str]:
    """Behind each compressed page stands another, which is lost if the first cannot be decoded."""
    codecs: dict[str, _Compress] = {"gzip": _gzip, "br": _brotli, "zstd": zstandard.ZstdCompressor().compress}
    for name, compress in codecs.items():
        heading, inner = f"Packed in {name}", f"/packed/{name}/inside"
        text = markup.document(heading, markup.titled(heading, markup.bullets([link(inner, "Unpack")])))
        headers = (("Content-Type", HTML), ("Content-Encoding", name))
        routes.add(f"/packed/{name}", Route(Fate.PAGE, (Reply(200, headers, compress(text.encode())),), heading))
        routes.page(inner, f"Unpacked from {name}", paragraph("Nothing was lost on the way."))
    return [link(f"/packed/{name}", "Packed") for name in codecs]


def _gzip(data: bytes) -> bytes:
    return gzip.compress(data, mtime=0)  # the site is deterministic, so no time stamp


def _brotli(data: bytes) -> bytes:
    return cast("Any", brotli).compress(data)


def _add_base(routes: Routes) -> list[str]:
    """Without the base element its relative links would resolve below /window/, where nothing is."""
    items = markup.bullets([link("first", "First item"), link("../annexe/second#here", "Second item")])
    text = markup.document("Window display", markup.titled("Window display", items), head='<base href="/annexe/">')
    routes.add("/window/display", Route(Fate.PAGE, (page(text),), "Window display"))
    routes.page("/annexe/first", "First item", paragraph("An inkwell."))
    routes.page("/annexe/second", "Second item", paragraph("A paper knife."))
    return [link("/window/display", "Window display")]


def _add_files(routes: Routes) -> list[str]:
    pdf = b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n" + bytes(range(256)) * 4 + b"\n%%EOF\n"
    files = {
        "/files/opening-hours.txt": plain("Monday to Saturday, nine to six.\nSee /ghosts/text for Sundays.\n"),
        "/files/catalogue.pdf": Reply(200, (("Content-Type", "application/pdf"),), pdf),
    }
    for target, reply in files.items():
        kind = (reply.header("Content-Type") or "").partition(";")[0]
        routes.add(target, Route(Fate.FILE, (reply,), detail=kind))
    return [link(target, "Download") for target in files]


def _add_forbidden(routes: Routes) -> list[str]:
    """Blocked pages do answer, and lead further in, so that a trespass shows in the access log."""
    deeper = markup.bullets([link("/vault", "The vault")])
    for target in ("/private/account", "/private/ledger", "/private/staff?view=rota"):
        routes.page(target, "Staff only", deeper, Fate.BLOCKED)
    routes.page("/vault", "The vault", paragraph("You should not be here."), Fate.UNLINKED)
    routes.page("/sponsored/pens", "Fine pens", paragraph("An advertisement."), Fate.NOFOLLOW)
    routes.page("/sponsored/ink", "Fine inks", paragraph("An advertisement."), Fate.NOFOLLOW)
    return [
        link("/private/ledger", "Ledger"),
        link("/private/staff?view=rota", "Staff"),
        link("/sponsored/pens", "Fine pens", rel="nofollow"),
        link("/sponsored/ink", "Fine inks", rel="sponsored nofollow noopener"),
        link("/delivery", "Delivery", rel="nofollow"),  # also linked without, so it is reachable
    ]
