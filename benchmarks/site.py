"""The site that is crawled: static pages, the same bytes on every machine.

A site of N pages is `/index.html` (page 0) and `/p/1.html` … `/p/{N-1}.html`. Page n links to its children
3n+1, 3n+2 and 3n+3, so every page is reachable in log3 N steps; navigation and random links make up the rest.
Pages come in three sizes, of 5, 25 and 250 KB, with about 20, 80 and 200 links.
"""

import os
import random
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from benchmarks.launch import PAGE_KB

FORMAT = 1
"""Part of the cache's name: raise it when the pages change."""

CHILDREN = 3
SENTENCE = 62
"""Words."""

TEXT = """
anchor atlas basin beacon berth bight boom bow brine buoy cable canvas cape channel chart coast compass
coral course cove crew current deck delta depth dock draught drift ebb estuary fathom fjord fleet flood
gale gulf gust harbour haven heading helm hold horizon hull inlet island jetty keel knot lagoon landing
lantern ledge lee line log lookout mast mooring narrows oar passage pier pilot point port quay raft
range reef rigging rope rudder sail sand sea shelf shoal shore signal slack sound stern strait stream
surf swell tack tide timber trade vessel voyage wake watch wave wharf wind and of the in on to with from
by at as is
"""
WORDS = TEXT.split()


@dataclass(frozen=True, slots=True)
class Measures:
    """What a page of some size is made of."""

    sections: int
    """Links of the navigation."""
    paragraphs: int
    """In each of them is a link."""
    sentences: int
    """In a paragraph, behind its link."""
    related: int


SIZES = {5: Measures(6, 4, 1, 3), PAGE_KB: Measures(12, 24, 1, 39), 250: Measures(12, 100, 5, 81)}
"""By kilobytes."""


@dataclass(frozen=True, slots=True)
class Site:
    """A generated site on disk."""

    root: Path
    pages: int


def build(pages: int, kb: int = PAGE_KB) -> Site:
    """Return the site of so many pages of a size, from the cache or newly written."""
    root = _cache() / f"site-{FORMAT}-{kb}k-{pages}"
    if not root.is_dir():
        _write_whole(root, pages, SIZES[kb])
    return Site(root, pages)


def warm(site: Site) -> None:
    """Read every page once, so that no contender pays for a cold disk."""
    for folder in (site.root, site.root / "p"):
        for path in folder.glob("*.html"):
            path.read_bytes()


def render(page: int, pages: int, prose: list[str], measures: Measures) -> str:
    """Write one page."""
    pick = random.Random(page)
    title = " ".join(pick.choices(WORDS, k=4)).title()
    body = "\n".join(
        f"<p>{paragraph % _anchor(pick.randrange(pages), pick)}</p>"
        for paragraph in pick.choices(prose, k=measures.paragraphs)
    )
    related = "\n".join(_teaser(pick.randrange(pages), pick) for _ in range(measures.related))
    sections = range(min(measures.sections, pages))
    return PAGE.format(
        title=title,
        number=page,
        nav="\n".join(f'<li><a href="{_path(n)}">Section {n}</a></li>' for n in sections),
        trail=" / ".join(_anchor(n, pick) for n in _trail(page)),
        body=body,
        related=related,
        children="\n".join(_teaser(n, pick) for n in _children(page, pages)),
        previous=_path(max(page - 1, 0)),
        following=_path(min(page + 1, pages - 1)),
    )


def prose(measures: Measures) -> list[str]:
    """Return a stock of paragraphs, each with one place for a link."""
    pick = random.Random(0)
    return [
        " ".join([_sentence(pick), "See %s.", *(_sentence(pick) for _ in range(measures.sentences))])
        for _ in range(500)
    ]


def _cache() -> Path:
    """Return our own folder in the system's temporary folder; nobody else may write to it."""
    folder = Path(tempfile.gettempdir()) / f"shoal-bench-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.stat().st_uid != os.getuid():
        raise PermissionError(f"{folder} belongs to somebody else")
    return folder


def _write_whole(root: Path, pages: int, measures: Measures) -> None:
    """Write the site beside its place and move it there, so that a broken run leaves no half site."""
    partial = root.with_name(f"{root.name}.{os.getpid()}")
    try:
        (partial / "p").mkdir(parents=True)
        stock = prose(measures)
        for page in range(pages):
            (partial / _path(page)[1:]).write_text(render(page, pages, stock, measures), encoding="utf-8")
        partial.rename(root)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _sentence(pick: random.Random) -> str:
    return " ".join(pick.choices(WORDS, k=SENTENCE)).capitalize() + "."


def _path(page: int) -> str:
    return f"/p/{page}.html" if page else "/index.html"


def _children(page: int, pages: int) -> range:
    return range(min(CHILDREN * page + 1, pages), min(CHILDREN * page + CHILDREN + 1, pages))


def _trail(page: int) -> list[int]:
    """Return the two pages above this one; the index is its own parent."""
    parent = (page - 1) // CHILDREN if page else 0
    return [(parent - 1) // CHILDREN if parent else 0, parent]


def _anchor(page: int, pick: random.Random) -> str:
    return f'<a href="{_path(page)}">{" ".join(pick.choices(WORDS, k=3))}</a>'


def _teaser(page: int, pick: random.Random) -> str:
    words = " ".join(pick.choices(WORDS, k=8))
    return f'<li class="teaser"><h3>{_anchor(page, pick)}</h3><span class="meta">{words}</span></li>'


PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<meta name="description" content="Page {number} of the benchmark site: {title}">
<link rel="stylesheet" href="/static/site.css">
<script>window.page = {{"number": {number}, "loaded": Date.now()}};</script>
</head>
<body class="page">
<header class="top"><nav><ul>
{nav}
</ul></nav></header>
<div class="trail">{trail}</div>
<main><article id="article-{number}">
<h1>{title}</h1>
{body}
</article>
<section class="children"><ul>
{children}
</ul></section></main>
<aside><h2>Related</h2><ul>
{related}
</ul></aside>
<footer><a rel="prev" href="{previous}">Previous</a> <a rel="next" href="{following}">Next</a></footer>
</body>
</html>
"""
