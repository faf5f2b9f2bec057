"""A newspaper whose pages are found by sitemaps, feeds and lists; its front page links to none of them but lists.

| what | where |
|---|---|
| robots.txt | announces `/maps/index.xml` |
| an index | `/maps/index.xml`: `recent.xml`, `packed.xml.gz`, and `old.xml`, last changed in 2024 |
| sitemaps | 10 articles of 2026 and 10 of 2025; 10 without a date, packed; 10 of 2024 |
| a text | `/maps/plain.txt`: 5 articles |
| feeds | `/feed.rss`, `/feed.atom`: 5 stories each |
| a list | `/list`, `/list?page=2` … 12, linked by `a.next`, each with 3 articles of its own |
"""

from __future__ import annotations

import gzip

from tests.site.reply import NOT_FOUND, Reply, page, plain, redirect

RECENT = tuple(f"/2026/{number}" for number in range(1, 11))
LAST_YEARS = tuple(f"/2025/{number}" for number in range(1, 11))
UNDATED = tuple(f"/undated/{number}" for number in range(1, 11))
OLD = tuple(f"/2024/{number}" for number in range(1, 11))
PLAIN = tuple(f"/plain/{number}" for number in range(1, 6))
STORIES = {kind: tuple(f"/{kind}/{number}" for number in range(1, 6)) for kind in ("rss", "atom")}
LISTS = 12
LISTED = {number: tuple(f"/listed/{number}/{each}" for each in "abc") for number in range(1, LISTS + 1)}
MAPS = ("/maps/index.xml", "/maps/recent.xml", "/maps/packed.xml.gz")
"""That are read by who wants what changed since 2026."""
_ARTICLES = {
    target for part in (RECENT, LAST_YEARS, UNDATED, OLD, PLAIN, *STORIES.values(), *LISTED.values()) for target in part
}


class Gazette:
    """Its addresses are absolute, as sitemaps want them."""

    def __init__(self, *, announces: bool = True, guess: str = "", delay: float = 0.0) -> None:
        """`guess`: what is at /sitemap.xml: nothing, `html`, or `sitemap`."""
        self._announces = announces
        self._guess = guess
        self._delay = delay

    def at(self, origin: str) -> _Office:
        return _Office(origin, self._announces, self._guess, self._delay)

    def respond(self, target: str, hits: int) -> Reply:
        return self.at("http://127.0.0.1").respond(target, hits)


class _Office:
    def __init__(self, origin: str, announces: bool, guess: str, delay: float) -> None:
        self._origin = origin
        self._delay = delay
        announced = f"Sitemap: {origin}/maps/index.xml\n" if announces else ""
        self._replies: dict[str, Reply] = {
            "/": page('<!doctype html><title>Gazette</title><h1>Gazette</h1><a href="/list">Lists</a>'),
            "/robots.txt": plain(f"User-agent: *\nDisallow: /2026/10\n{announced}"),
            "/maps/index.xml": _xml(self._index()),
            "/maps/recent.xml": _xml(self._map(RECENT, "2026-02-03") + self._map(LAST_YEARS, "2025-02-03")),
            "/maps/packed.xml.gz": Reply(
                200, (("Content-Type", "application/x-gzip"),), gzip.compress(_urlset(self._map(UNDATED)), mtime=0)
            ),
            "/maps/old.xml": _xml(self._map(OLD, "2024-02-03")),
            "/maps/plain.txt": plain("".join(f"{origin}{target}\n" for target in PLAIN)),
            "/feed.rss": _typed("application/rss+xml", self._rss()),
            "/feed.atom": _typed("application/atom+xml", self._atom()),
            "/old-map.xml": redirect("/maps/recent.xml", 301),
        }
        if guess == "html":
            self._replies["/sitemap.xml"] = page("<!doctype html><h1>Nothing here</h1><a href='/trap'>Home</a>")
        elif guess == "sitemap":
            self._replies["/sitemap.xml"] = _xml(self._map(RECENT))

    def respond(self, target: str, _hits: int) -> Reply:
        if (known := self._replies.get(target)) is not None:
            return known
        if target == "/list" or target.startswith("/list?page="):
            return self._list(int(target.partition("=")[2] or 1))
        if target in _ARTICLES:
            return page(f'<!doctype html><h1>{target}</h1><a href="/">Front page</a>', delay=self._delay)
        return NOT_FOUND

    def _list(self, number: int) -> Reply:
        if number not in LISTED:
            return NOT_FOUND
        links = "".join(f'<a href="{target}">{target}</a>' for target in LISTED[number])
        more = f'<a class="next" rel="next" href="/list?page={number + 1}">Next</a>' if number < LISTS else ""
        return page(f"<!doctype html><h1>List {number}</h1>{links}{more}", delay=self._delay)

    def _map(self, targets: tuple[str, ...], date: str = "") -> str:
        dated = f"<lastmod>{date}</lastmod>" if date else ""
        return "".join(f"<url><loc>{self._origin}{target}</loc>{dated}</url>" for target in targets)

    def _index(self) -> str:
        parts = (("recent.xml", "2026-02-03"), ("packed.xml.gz", ""), ("old.xml", "2024-02-03"))
        return "<sitemapindex>" + "".join(
            f"<sitemap><loc>{self._origin}/maps/{name}</loc>{f'<lastmod>{date}</lastmod>' if date else ''}</sitemap>"
            for name, date in parts
        )

    def _rss(self) -> str:
        dates = ("Tue, 03 Feb 2026 08:00:00 GMT", "Mon, 03 Feb 2025 08:00:00 GMT")
        items = (
            f"<item><link>{self._origin}{target}</link><pubDate>{dates[number > 2]}</pubDate></item>"
            for number, target in enumerate(STORIES["rss"])
        )
        return f"<rss version='2.0'><channel><link>{self._origin}/</link>{''.join(items)}</channel></rss>"

    def _atom(self) -> str:
        entries = "".join(f'<entry><link href="{target}"/></entry>' for target in STORIES["atom"])
        return f'<feed xmlns="http://www.w3.org/2005/Atom">{entries}</feed>'


def _urlset(inner: str) -> bytes:
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<urlset>{inner}</urlset>'.encode()


def _xml(inner: str) -> Reply:
    if inner.startswith("<sitemapindex>"):
        return _typed("application/xml", inner + "</sitemapindex>")
    return Reply(200, (("Content-Type", "text/xml"),), _urlset(inner))


def _typed(media_type: str, text: str) -> Reply:
    return Reply(200, (("Content-Type", media_type),), text.encode())
