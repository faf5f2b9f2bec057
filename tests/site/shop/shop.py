"""The shop as a site: what each address answers."""

from __future__ import annotations

import gzip
import json
from urllib.parse import parse_qs, urlsplit

from tests.site.reply import DROPPED, HTML, NOT_FOUND, Reply, page, plain, redirect
from tests.site.shop import goods, pages
from tests.site.shop.goods import PAGES, PRODUCTS

__all__ = ["PAGES", "PRODUCTS", "Shop"]

PRIVATE = "http://10.0.0.1/secret"
"""Where a page goes that should not."""
_NEVER_S = 600.0
_GIF = bytes.fromhex("47494638396101000100800000000000ffffff2c00000000010001000002024401003b")
_JSON = (("Content-Type", "application/json"),)
_SCRIPT = (("Content-Type", "text/javascript"),)

_TABLE: dict[str, Reply] = {
    "/": page(
        pages.page(
            "Shop",
            "<nav></nav>",
            "document.querySelector('nav').innerHTML = ['products?page=1', 'endless', 'search', 'login', 'app']"
            ".map((each) => `<a href='/${each}'>${each}</a>`).join(' ');",
        )
    ),
    "/endless": page(pages.endless(PAGES)),
    "/search": page(pages.SEARCH),
    "/login": page(pages.LOGIN),
    "/session": Reply(303, (("Location", "/account"), ("Set-Cookie", "user=ada; Path=/"))),
    "/account": page(pages.ACCOUNT),
    "/app": page(pages.APP),
    "/wall": page(pages.COOKIE_WALL),
    "/shadow": page(pages.SHADOW),
    "/leaks": page(pages.LEAKS),
    "/eats": page(pages.EATS),
    "/spins": page(pages.SPINS),
    "/spins-later": page(pages.SPINS_LATER),
    "/opens": page(pages.OPENS),
    "/opened?by=link": page(pages.page("Opened", "<p>a window</p>")),
    "/opened?by=script": page(pages.page("Opened", "<p>a window</p>")),
    "/to-private": page(pages.leaves(PRIVATE)),
    "/to-product": page(pages.leaves("/product/1")),
    "/to-product-later": page(pages.LEAVES_LATER),
    "/refreshes": page(pages.refreshes("/product/1")),
    "/reloads": page(pages.ALWAYS_RELOADS),
    "/sends": page(pages.SENDS_ITSELF),
    "/redirects": redirect("/product/1", 301),
    "/redirects-away": redirect(PRIVATE),
    "/downloads": page(pages.DOWNLOADS),
    "/files": page(pages.LINKS_A_FILE),
    "/file.zip": Reply(
        200, (("Content-Type", "application/zip"), ("Content-Disposition", "attachment; filename=file.zip")), b"PK" * 50
    ),
    "/worker": page(pages.SERVICE_WORKER),
    "/sw.js": Reply(200, _SCRIPT, b"addEventListener('fetch', () => {});"),
    "/errors": page(pages.ERRORS),
    "/heavy": page(pages.HEAVY),
    "/app.js": Reply(200, _SCRIPT, b"window.ready = true;"),
    "/shop.css": Reply(200, (("Content-Type", "text/css"),), b"h1{color:teal}"),
    "/a.png": Reply(200, (("Content-Type", "image/gif"),), _GIF),
    "/b.png": Reply(200, (("Content-Type", "image/gif"),), _GIF),
    "/many": page(pages.MANY),
    "/hangs": page(pages.NEVER_LOADED),
    "/never.js": Reply(200, _SCRIPT, b"", delay=_NEVER_S),
    "/never": Reply(200, (), b"", delay=_NEVER_S),
    "/tampers": page(pages.TAMPERS),
    "/long": page(pages.LONG),
    "/data.json": Reply(200, _JSON, json.dumps({"products": PRODUCTS}).encode()),
    "/packed.json": Reply(200, (*_JSON, ("Content-Encoding", "gzip")), gzip.compress(b'{"packed": true}')),
    "/packed": Reply(
        200,
        (("Content-Type", "text/html; charset=utf-8"), ("Content-Encoding", "gzip")),
        gzip.compress(pages.page("Packed", "<p>unpacked</p>").encode()),
    ),
    "/big": page(pages.page("Big", "x" * 300_000)),
    "/big-packed": Reply(
        200, (("Content-Type", "text/html"), ("Content-Encoding", "gzip")), gzip.compress(b"<p>" + b"x" * 3_000_000)
    ),
    "/empty": Reply(204),
    "/gone": DROPPED,
    "/refused": Reply(403, (("Content-Type", HTML), ("X-Shoal-Reason", "blocked_address")), b"<p>said so</p>"),
    "/floods": page(pages.FLOODS),
    "/to-blank": page(pages.leaves("about:blank")),
    "/to-file": page(pages.leaves("file:///etc/passwd")),
    "/works": page(pages.WORKS),
    "/busy": page(pages.page("Busy", "<p>later</p>"), status=503),
    "/robots.txt": plain("User-agent: *\nDisallow: /private/\n"),
}


class Shop:
    """A `Responder`."""

    def respond(self, target: str, _hits: int) -> Reply:
        return _TABLE.get(target) or goods.answer(target) or self._generated(target) or NOT_FOUND

    def _generated(self, target: str) -> Reply | None:
        parts = urlsplit(target)
        if parts.path == "/products":
            number = int(parse_qs(parts.query).get("page", ["1"])[0])
            return page(pages.products(number, PAGES)) if 1 <= number <= PAGES else None
        number = parts.path.removeprefix("/product/")
        if number.isdigit() and 1 <= int(number) <= PRODUCTS:
            name = goods.name_of(int(number))
            return page(
                pages.page("Product", '<h2 id="name"></h2>', f"document.querySelector('#name').textContent = '{name}';")
            )
        return None
