"""What is wanted of a page, and what was found in it: plain values, so that another process can do the reading.

Whoever reads, in place or apart, does it with `find`: the same page gives the same findings.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from functools import lru_cache

from shoal.core.frozen import frozen
from shoal.core.likeness import likeness_of
from shoal.core.noise import Noise, unpack_noise
from shoal.core.url import Base
from shoal.extract.allowance import Allowance
from shoal.extract.content import outline_of, text_of, title_of
from shoal.extract.document import Document
from shoal.extract.extractor import Extractor, Item, extractor_of
from shoal.extract.judging import Flaws, flaws_of
from shoal.extract.listing import is_packed, read_listing
from shoal.extract.main_text import main_content
from shoal.extract.next_page import next_links, rough_selector
from shoal.extract.page import META_NAMES, Html
from shoal.extract.plain import Plain, is_text, plain_html, plain_text, told_lines
from shoal.extract.shell import why_render
from shoal.extract.weight import LIGHT_BYTES, Query, Weight, is_light_tree, weigh
from shoal.fetch.decode import decode_text, shows_markup
from shoal.spiders.follow import FollowUp

QUICK_BYTES = 16 << 20
"""Of a body that is no text: so many are known by their digest in some 20 ms."""
_NO_NOISE = Noise()


@frozen
class Wanted:
    """What is to be read of a page, and how."""

    url: str
    charset: str
    drop_tracking: bool = False
    links: bool = False
    skip_nofollow: bool = False
    """Leave links out that are marked so."""
    directives: bool = False
    """What the page says to robots."""
    extraction: str = ""
    """Which items: `JobSpec.extraction`."""
    json: bool = False
    """Is it JSON, rather than markup?"""
    likeness: bool = False
    """By what the page is known again, should another say the same."""
    require: str | None = None
    """Is it asked whether the page needs a browser? Then this selector must be there, if it is any. None: it is not."""
    listing: str = ""
    """What kind of listing the document is (`listing.name_of`); empty: it is a page."""
    since_ms: int | None = None
    """Entries of a listing that are older than this are told apart."""
    next: str = ""
    """The selector of the link to the next page."""
    brief: str = ""
    """For the job's spider: `extract.spiders.Brief`."""
    markup: bool = True
    """Is it a page of HTML? Others are for spiders, and for a digest."""
    noise: str = ""
    """By which rules a digest of it is made (`core.noise`); empty: by none, it has no digest."""
    media_type: str = ""
    prose: bool = False
    """Is its text, for the digest, that of HTML?"""
    lines: int = 0
    """So many characters of the text that the digest is of are wanted, too."""

    @property
    def extractor(self) -> Extractor:
        """What takes the items."""
        return extractor_of(self.extraction)

    def weigh(self, body: bytes, *, scale: int = 1) -> Weight:
        """What it costs to read it, as far as its bytes tell; where nobody waits, it may be so many times larger."""
        if self.listing and is_packed(body):  # nobody can see what is in it
            return Weight.HEAVY
        asked = self.asked
        if asked.extractor.spider or asked.extractor.model:  # an operator's code, which may take however long
            return Weight.HEAVY
        if self.only_digest:
            most = LIGHT_BYTES * scale if is_text(self.media_type, body) else QUICK_BYTES
            return Weight.LIGHT if len(body) <= most else Weight.HEAVY
        if not shows_markup(self.charset) and len(body) <= LIGHT_BYTES * scale:
            body = decode_text(body, self.charset).encode("utf-8", "replace")
        weight = Weight.LIGHT if self.json else weigh(body, scale=scale, content=self.looks_at_all)
        plain = asked.plain and not self.json
        quick = plain or weight is Weight.HEAVY or asked.extractor.is_quick(body, json=self.json, scale=scale)
        return weight if quick else Weight.HEAVY

    def is_light_tree(self, html: Html, size: int, *, scale: int = 1) -> bool:
        """Can all that is asked be taken of a page of so many bytes, now that it is parsed?"""
        asked = self.asked
        if asked.plain and not (asked.queries or self.looks_at_all or self.noise):
            return True
        elements = len(html.tree.css("*"))
        light = is_light_tree(elements, asked.queries, scale=scale, content=self.looks_at_all)
        return light and (asked.plain or asked.extractor.has_quick_xpaths(elements, size, scale))

    @property
    def looks_at_all(self) -> bool:
        """Is the page looked at part by part?"""
        return self.likeness or self.asked.content

    @property
    def only_digest(self) -> bool:
        """Would nobody look at it but for its digest?"""
        return not (self.markup or self.json or self.listing or self.extractor.spider)

    @property
    def host(self) -> str:
        """That the page is of."""
        return self.url.split("/", 3)[2]

    @property
    def asked(self) -> Asked:
        """What the page is asked for in the job's own words."""
        return _asked_of(self.extraction, self.require or "", self.next, self.noise)

    @property
    def rules(self) -> Noise:
        """What of its text does not count."""
        return unpack_noise(self.noise) if self.noise else _NO_NOISE

    @property
    def base(self) -> Base:
        """Of the page's links, unless it names another."""
        return _base_of(self.url, self.drop_tracking)

    def base_with(self, href: str) -> Base:
        """The same, where the page names this one in a `<base>`, or none."""
        return self.base.rebase(href) if href else self.base


@frozen
class Asked:
    """What all pages of a job are asked for, as far as the cost goes."""

    extractor: Extractor
    queries: tuple[Query, ...]
    content: bool
    """Are they looked at as a whole?"""
    plain: bool
    """Is all that is taken from them found by CSS?"""


@lru_cache(maxsize=200)
def _asked_of(extraction: str, require: str, following: str, noise: str) -> Asked:
    extractor, rules = extractor_of(extraction), unpack_noise(noise) if noise else _NO_NOISE
    more = (require, rough_selector(following), rules.selector)
    queries = (*extractor.queries, *(Query(selector) for selector in more if selector))
    return Asked(extractor, queries, extractor.content is not None or rules.main, extractor.is_plain)


@lru_cache(maxsize=100)
def _base_of(url: str, drop_tracking: bool) -> Base:
    """It is needed before a page is read and after that."""
    return Base(url, drop_tracking=drop_tracking, canonical=True)


@frozen
class Findings:
    """What was read of a page."""

    base: str = ""
    """The href of its `<base>`."""
    canonical: str = ""
    metas: tuple[str, ...] = ()
    """What it says to robots."""
    hrefs: tuple[str, ...] = ()
    items: tuple[Item, ...] = ()
    """Records taken from it; one without any value is none."""
    cut: tuple[str, ...] = ()
    """Of what there was more than is read: links, metas, values."""
    incomplete: Mapping[str, int] = field(default_factory=dict[str, int])
    """Required fields that were missing, each with how many items were left out for it."""
    unconverted: Mapping[str, int] = field(default_factory=dict[str, int])
    """Fields with values that are none of their type, each with how many."""
    unreadable: bool = False
    """Is it no JSON, though it says so?"""
    render: str = ""
    """Why the page needs a browser; empty when it does not, or when nobody asks."""
    kind: str = ""
    """`sitemap`, `index` or `feed`; empty for any other page."""
    dates: tuple[str, ...] = ()
    """Of a listing's hrefs: when each was last changed, as it says."""
    further: tuple[str, ...] = ()
    """More of the same, at the same depth: parts of an index, the next page."""
    stale: tuple[str, ...] = ()
    """Entries of a listing that are older than what is wanted."""
    flaws: Flaws = ()
    """What breaks the job's contract."""
    requests: tuple[FollowUp, ...] = ()
    """Of the job's spider."""
    failed: str = ""
    """Why the job's spider found nothing."""
    likeness: tuple[int, ...] = ()
    """A hash of all its words, and its simhash; nothing when it has too few, or when nobody asks."""
    digest: int | None = None
    """Of its text without noise; None when nobody asks."""
    lines: tuple[str, ...] | None = None
    """That text, if it is wanted; None when it is none."""


NOTHING = Findings()


class _HeavyTree(Exception):
    pass


def find(body: bytes, wanted: Wanted) -> Findings:
    """Read a page here and now."""
    return _judged(_find(body, wanted), wanted)


def find_light(body: bytes, wanted: Wanted, *, weight: Weight | None = None, scale: int = 1) -> Findings | None:
    """Read a page if it is light; None when it is not, by its bytes or by what a parser makes of them.

    `weight`: that of its bytes, if that is known.
    """
    weight = weight or wanted.weigh(body, scale=scale)
    if weight is Weight.HEAVY:
        return None
    try:
        return _judged(_find(body, wanted, bare=weight is Weight.BARE, scale=scale), wanted)
    except _HeavyTree:
        return None


def _judged(found: Findings, wanted: Wanted) -> Findings:
    flaws = flaws_of(wanted.extraction, found.items)
    return replace(found, flaws=flaws) if flaws else found


def _find(body: bytes, wanted: Wanted, *, bare: bool = False, scale: int = 0) -> Findings:
    """`bare`: it has no `<base>`; `scale`: of what is light, 0 where all is read."""
    if wanted.listing:
        return _with_digest(_find_listed(body, wanted), body, wanted, None)
    html = None
    if wanted.markup and not wanted.json:
        html = Html.parse(body, wanted.charset, wanted.base, bare=bare)
        if scale and not wanted.is_light_tree(html, len(body), scale=scale):
            raise _HeavyTree
    found = _of_json(body, wanted) if wanted.json else _of_markup(html, body, wanted) if html else Findings()
    if wanted.noise and not found.render:
        found = _with_digest(found, body, wanted, html)
    if not wanted.extractor.spider or found.render:
        return found
    from shoal.extract.spiders import with_spider  # with all that it needs, which most pages do not

    return with_spider(found, body, wanted, html)


def _with_digest(found: Findings, body: bytes, wanted: Wanted, html: Html | None) -> Findings:
    """With what the page says, for who compares it with what it said before."""
    if not wanted.noise:
        return found
    if html is not None and wanted.prose:
        said = plain_html(html, wanted.rules)
    else:
        said = plain_text(body, wanted.charset, wanted.media_type, wanted.rules)
    told = _told(said, wanted.lines) if wanted.lines else None
    return replace(found, digest=said.digest, lines=told)


def _told(said: Plain, chars: int) -> tuple[str, ...] | None:
    if said.lines is None:
        return None
    kept: list[str] = []
    for line in told_lines(said.lines):
        chars -= len(line) + 1
        if chars < 0:
            break
        kept.append(line)
    return tuple(kept)


def _of_json(body: bytes, wanted: Wanted) -> Findings:
    document = Document.parse(body, wanted.charset, wanted.base)
    return _with_notes(Findings(items=wanted.extractor.take(document)), document.allowance)


def _of_markup(html: Html, body: bytes, wanted: Wanted) -> Findings:
    if wanted.require is not None and (why := why_render(html.tree, wanted.require)):
        return Findings(render=why)
    hrefs = html.hrefs(skip_nofollow=wanted.skip_nofollow) if wanted.links else ()
    metas = html.metas(META_NAMES) if wanted.directives else ()
    items = wanted.extractor.take(html)
    alike = _likeness(html) if wanted.likeness else ()
    further = next_links(html, body, wanted.charset, wanted.next) if wanted.next else ()
    canonical = html.canonical
    found = Findings(html.base_href, canonical, tuple(metas), tuple(hrefs), items, further=further, likeness=alike)
    return _with_notes(found, html.allowance)


def _with_notes(found: Findings, allowance: Allowance) -> Findings:
    if allowance.unreadable:
        return replace(found, unreadable=True)
    if not (allowance.cut or allowance.incomplete or allowance.unconverted):
        return found
    notes = {"incomplete": dict(allowance.incomplete), "unconverted": dict(allowance.unconverted)}
    return replace(found, cut=tuple(allowance.cut), **notes)


def _find_listed(body: bytes, wanted: Wanted) -> Findings:
    listing = read_listing(body, wanted.charset, wanted.listing, wanted.since_ms)
    cut = ("links",) if listing.cut else ()
    if not wanted.links:
        return Findings(kind=listing.kind, cut=cut)
    return Findings(
        listing.base,
        hrefs=tuple(listing.hrefs),
        cut=cut,
        kind=listing.kind,
        dates=tuple(listing.dates),
        further=tuple(listing.further),
        stale=tuple(listing.stale),
    )


def _likeness(html: Html) -> tuple[int, ...]:
    """Of its main content: pages of a site share the rest."""
    found = likeness_of(text_of(main_content(outline_of(html), title_of(html.tree))))
    return (found.content, found.simhash) if found else ()
