"""A job's spider as a part of reading: what it is told of a page, and what it finds there.

Spiders are an operator's own code, which may take long: they run in the process apart, and the worker imports none.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from shoal.errors import BadSpec
from shoal.extract.brief import Brief
from shoal.extract.page import Html
from shoal.spiders.finder import find_spider
from shoal.spiders.page import Page
from shoal.spiders.run import SpiderFailed, run_spider

if TYPE_CHECKING:
    from shoal.extract.findings import Findings, Wanted


def with_spider(found: Findings, body: bytes, wanted: Wanted, html: Html | None) -> Findings:
    """What was found, and what the job's spider finds; when that fails, why."""
    try:
        made = run_spider(find_spider(wanted.extractor.spider), page_of(body, wanted, html))
    except (SpiderFailed, BadSpec) as exc:
        return replace(found, failed=str(exc))
    cut = tuple(dict.fromkeys((*found.cut, *made.cut)))
    return replace(found, items=(*found.items, *made.items), requests=made.requests, cut=cut)


def page_of(body: bytes, wanted: Wanted, html: Html | None = None) -> Page:
    """A page as its spider sees it."""
    brief = Brief.unpack(wanted.brief)
    page = Page(
        wanted.url,
        body,
        brief.status,
        _by_name(brief.headers),
        wanted.charset,
        brief.depth,
        json.loads(brief.meta) if brief.meta else {},
        wanted.extractor.params,
        brief.callback,
    )
    return page.parsed_as(html.tree) if html else page


def _by_name(lines: Iterable[tuple[str, str]]) -> dict[str, Any]:
    values: dict[str, list[str]] = {}
    for name, value in lines:
        values.setdefault(name, []).append(value)
    return {name: ", ".join(given) for name, given in values.items()}
