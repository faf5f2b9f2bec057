"""For tests of spiders: pages from files and from the archive, and a spider run on them. Nothing is fetched.

from shoal.testing import page_from_file, run_spider

def test_a_book_has_a_price() -> None:
    page = page_from_file("book.html", url="https://books.example/books/1", meta={"shelf": "Poetry"})
    assert run_spider("books", page).items == [{"title": "…", "price": 9.5}]
"""

from __future__ import annotations

import json
import mimetypes
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from shoal.errors import NotFound
from shoal.extract.brief import Brief, header_lines
from shoal.extract.findings import Wanted
from shoal.extract.spiders import page_of
from shoal.fetch.decode import find_charset
from shoal.spiders import run
from shoal.spiders.finder import find_spider
from shoal.spiders.follow import Follow, FollowUp
from shoal.spiders.page import Page as Page
from shoal.spiders.registry import PARSE, Spider, spiders
from shoal.spiders.run import SpiderFailed as SpiderFailed

_PRIORITIES = ("first", "normal", "last")


@dataclass(frozen=True, slots=True)
class Made:
    """What a spider has made of a page."""

    items: list[Mapping[str, Any]]
    """As they are stored: JSON values."""
    requests: list[Follow]
    """With absolute URLs."""
    cut: tuple[str, ...] = ()
    """Of what there was more than is taken from a page."""


def page_from_file(
    path: str | Path,
    *,
    url: str,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
    meta: Mapping[str, Any] | None = None,
    params: Mapping[str, Any] | None = None,
    depth: int = 0,
    callback: str = "",
) -> Page:
    """A page from a file, as if it had been fetched from this URL; its type is that of the file's name."""
    body = Path(path).read_bytes()
    kind = mimetypes.guess_type(str(path))[0] or "text/html"
    given = {"content-type": kind, **{name.lower(): value for name, value in (headers or {}).items()}}
    charset = find_charset(given["content-type"], body)
    return Page(url, body, status, given, charset, depth, meta or {}, params or {}, callback)


def page_from_archive(job: str, url: str, *, params: Mapping[str, Any] | None = None) -> Page:
    """A page that a job has stored, with what its spider was told; the platform is that of the settings (SHOAL_HOME).

    `params` in place of the job's. A page that a browser has rendered is its document after all scripts.
    """
    from shoal.settings import read_settings
    from shoal.wiring import open_platform

    with open_platform(read_settings(), rings=False) as platform:
        row = platform.control.page(platform.control.find(job), url)
        if row.archive is None:
            raise NotFound(f"the body of {row.url} was not kept (the job ran without the archive)")
        spec = platform.control.job(row.job).spec
        answer = platform.archive.read(row.archive)
        document = row.capture("document")
        body = platform.archive.read_attachment(document.archive) if document else answer.unpacked(spec.max_body)
    brief = Brief(answer.status, header_lines(answer.headers), row.depth, row.callback, row.meta or "")
    charset = "utf-8" if document else row.charset
    page = page_of(body, Wanted(row.url, charset, brief=brief.pack(), extraction=spec.extraction))
    return replace(page, params=params) if params is not None else page


def run_spider(spider: str | Callable[..., Any], page: Page, *, callback: str = "") -> Made:
    """Everything that a spider yields for a page; raises SpiderFailed as the page of a job would.

    `spider`: a name, or what was registered: a class, or a function, which then is the callback. `callback` in place of
    the page's.
    """
    chosen, its_own = (find_spider(spider), "") if isinstance(spider, str) else _registered(spider)
    page = replace(page, callback=callback or its_own or page.callback)
    made = run.run_spider(chosen, page)
    return Made(list(made.items), [_asked(page, each) for each in made.requests], made.cut)


def _registered(given: Callable[..., Any]) -> tuple[Spider, str]:
    """The spider that a class is, or that a function is a callback of."""
    for each in spiders().values():
        for name, callback in each.callbacks.items():
            if callback is given:
                return each, name
            if type(getattr(callback, "__self__", None)) is given:
                return each, ""
    return Spider(given.__name__, {PARSE: given}), PARSE


def _asked(page: Page, request: FollowUp) -> Follow:
    meta: dict[str, Any] = json.loads(request.meta) if request.meta else {}
    priority = _PRIORITIES[request.level]
    return Follow(page.urljoin(request.url), request.callback, priority, request.depth, meta)
