"""What a page says about itself: title, author, times and the like, from JSON-LD, OpenGraph and meta elements.

The more exact source wins: JSON-LD of an article before OpenGraph, that before plain elements. What is unsaid is None.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, cast

from dateutil.parser import parse as parse_date
from selectolax.lexbor import LexborHTMLParser

from shoal.core.json_text import read_json
from shoal.core.redact import encodable
from shoal.extract.markup import Join

NAMES = (
    *("title", "description", "author", "published", "modified", "language", "site_name", "image", "canonical"),
    *("keywords", "type"),
)
MAX_CHARS = 2_000
"""Of one value."""
MAX_TAGS = 200
"""`<meta>` elements that are read."""
MAX_LD = 20
"""JSON-LD scripts that are read."""
MAX_LD_CHARS = 200_000
"""Of one of them."""
MAX_LD_OBJECTS = 500
"""Objects in all of them."""
MAX_KEYWORDS = 100
_DATE_CHARS = 60
_DAYS = (datetime(2000, 1, 1), datetime(2001, 2, 2))
"""Two days of which nothing is the same."""

Said = Mapping[str, str]
"""Name or property of a meta element, lower case → content."""

_METAS = {
    "title": ("og:title", "twitter:title", "dc.title", "citation_title"),
    "description": ("og:description", "description", "twitter:description", "dc.description"),
    "author": ("author", "article:author", "dc.creator", "parsely-author", "byl", "citation_author"),
    "published": ("article:published_time", "og:published_time", "date", "dc.date", "dc.date.issued", "pubdate",
                  "parsely-pub-date", "citation_publication_date", "datepublished"),
    "modified": ("article:modified_time", "og:updated_time", "last-modified", "dcterms.modified", "datemodified"),
    "language": ("language", "content-language", "dc.language"),
    "site_name": ("og:site_name", "application-name", "apple-mobile-web-app-title"),
    "image": ("og:image:secure_url", "og:image", "og:image:url", "twitter:image", "twitter:image:src"),
    "keywords": ("keywords", "news_keywords", "parsely-tags"),
    "type": ("og:type",),
}  # fmt: skip
_LD = {
    "title": ("headline", "name"),
    "description": ("description",),
    "author": ("author", "creator"),
    "published": ("datePublished", "uploadDate"),
    "modified": ("dateModified",),
    "language": ("inLanguage",),
    "image": ("image", "thumbnailUrl"),
    "keywords": ("keywords",),
}
_CONTENT_TYPES = (
    *("article", "newsarticle", "blogposting", "report", "techarticle", "scholarlyarticle", "recipe", "product"),
    *("qapage", "discussionforumposting", "videoobject", "event", "book", "movie", "jobposting", "webpage"),
)
"""Kinds of JSON-LD objects that speak of the page's content, the most telling first."""


def metadata_of(tree: LexborHTMLParser, join: Join) -> dict[str, Any]:
    """Every name of NAMES with its value, None where the page says nothing; keywords are a list."""
    said, thing, objects = _metas(tree), dict[str, Any](), list(_objects(tree))
    ranked = [(_rank(each), each) for each in objects]
    if known := [pair for pair in ranked if pair[0] is not None]:
        thing = min(known, key=lambda pair: cast(int, pair[0]))[1]
    found: dict[str, Any] = {name: _text(_first(thing, _LD.get(name, ()))) or _meta(said, name) for name in NAMES}
    found["title"] = found["title"] or _text_at(tree, "title") or _text_at(tree, "h1")
    found["language"] = _language(tree) or found["language"] or _locale(said)
    found["site_name"] = _meta(said, "site_name") or _publisher(thing, objects)
    found["canonical"] = _absolute(
        _attribute(tree, 'link[rel~="canonical" i][href]', "href") or said.get("og:url"), join
    )
    found["image"] = _absolute(found["image"], join)
    found["published"] = date_of(found["published"] or _attribute(tree, "time[datetime]", "datetime"))
    found["modified"] = date_of(found["modified"])
    found["keywords"] = _keywords(_first(thing, ("keywords",)) or _meta(said, "keywords"))
    found["type"] = _kind(thing) or found["type"]
    return found


def date_of(text: str | None) -> str | None:
    """A time as ISO 8601, however a page writes it; None when it does not name a day."""
    text = (text or "").strip()[:_DATE_CHARS]
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return _read_date(text)
    return text


def _read_date(text: str) -> str | None:
    """What it leaves open would be taken from somewhere: then it is no date."""
    try:
        first, second = (parse_date(text, default=day, tzinfos=lambda _name, offset: offset) for day in _DAYS)
    except (ValueError, OverflowError, TypeError):
        return None
    if first != second:
        return None
    plain = not (first.hour or first.minute or first.second or first.tzinfo)
    return first.date().isoformat() if plain else first.isoformat()


def _metas(tree: LexborHTMLParser) -> dict[str, str]:
    """The first content of each name."""
    said: dict[str, str] = {}
    for node in tree.css("meta[content]")[:MAX_TAGS]:
        given = node.attributes
        name = given.get("property") or given.get("name") or given.get("itemprop") or given.get("http-equiv") or ""
        content = (given.get("content") or "").strip()
        if name and content:
            said.setdefault(name.lower()[:100], content[:MAX_CHARS])
    return said


def _meta(said: Said, name: str) -> str | None:
    return next((said[each] for each in _METAS.get(name, ()) if each in said), None)


def _objects(tree: LexborHTMLParser) -> Iterator[dict[str, Any]]:
    """JSON-LD objects, also those within a graph or a list."""
    left = MAX_LD_OBJECTS
    for node in tree.css('script[type="application/ld+json" i]')[:MAX_LD]:
        text = node.text()
        try:
            stack: list[Any] = [read_json(text)] if len(text) <= MAX_LD_CHARS else []
        except ValueError:
            continue
        while stack and left > 0:
            left -= 1
            top: Any = stack.pop()
            if isinstance(top, list):
                stack.extend(reversed(cast("list[Any]", top)[:MAX_LD_OBJECTS]))
            elif isinstance(top, dict):
                thing = cast("dict[str, Any]", top)
                yield thing
                stack.extend(thing[name] for name in ("mainEntity", "@graph") if name in thing)


def _rank(thing: Mapping[str, Any]) -> int | None:
    kinds = [kind.lower() for kind in _kinds(thing)]
    return min((_CONTENT_TYPES.index(kind) for kind in kinds if kind in _CONTENT_TYPES), default=None)


def _kinds(thing: Mapping[str, Any]) -> list[str]:
    given: Any = thing.get("@type")
    many = cast("list[Any]", given) if isinstance(given, list) else [given]
    return [kind.rpartition("/")[2] for kind in many if isinstance(kind, str)]


def _kind(thing: Mapping[str, Any]) -> str | None:
    return next(iter(_kinds(thing)), None)


def _first(thing: Mapping[str, Any], names: tuple[str, ...]) -> Any:
    return next((thing[name] for name in names if thing.get(name)), None)


def _text(value: Any, depth: int = 0) -> str | None:
    """A value of JSON-LD in words: a text, the name or URL of an object, or those of a list."""
    if isinstance(value, str):
        return " ".join(encodable(value[: 2 * MAX_CHARS]).split())[:MAX_CHARS] or None
    if depth > 2:
        return None
    if isinstance(value, dict):
        thing = cast("dict[str, Any]", value)
        return _text(thing.get("name") or thing.get("url") or thing.get("@id"), depth + 1)
    if isinstance(value, list):
        texts = [text for each in cast("list[Any]", value)[:20] if (text := _text(each, depth + 1))]
        return (texts[0] if texts and texts[0].startswith("http") else ", ".join(texts)[:MAX_CHARS]) or None
    return None


def _publisher(thing: Mapping[str, Any], objects: list[dict[str, Any]]) -> str | None:
    site = next((each for each in objects if "WebSite" in _kinds(each)), dict[str, Any]())
    return _text(thing.get("publisher")) or _text(site.get("name"))


def _keywords(value: Any) -> list[str]:
    words = value.split(",") if isinstance(value, str) else cast("list[Any]", value) if isinstance(value, list) else []
    texts = [_text(word[:200]) for word in words[:MAX_KEYWORDS] if isinstance(word, str)]
    return [text for text in dict.fromkeys(texts) if text]


def _language(tree: LexborHTMLParser) -> str | None:
    root = tree.root
    return ((root.attributes.get("lang") if root else None) or "").strip()[:40] or None


def _locale(said: Said) -> str | None:
    return said["og:locale"][:40].replace("_", "-") if "og:locale" in said else None


def _text_at(tree: LexborHTMLParser, selector: str) -> str | None:
    node = tree.css_first(selector)
    return " ".join(node.text().split())[:MAX_CHARS] or None if node else None


def _attribute(tree: LexborHTMLParser, selector: str, name: str) -> str | None:
    node = tree.css_first(selector)
    return (node.attributes.get(name) or "").strip()[:MAX_CHARS] or None if node else None


def _absolute(href: str | None, join: Join) -> str | None:
    return join(href) if href else None
