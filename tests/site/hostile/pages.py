"""Pages that are correct enough to be parsed, and very large, very deep or very odd."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from tests.site.hostile.case import PAGE, Act, Case, Visit, answers

NESTED = 100_000
LINKS = 1_000_000
_MEGABYTE = 1_000_000
_START = "<!doctype html><title>Large</title><h1>Large</h1>"


def _holds(make: Callable[[], str]) -> Act:
    """Made when it is first asked for."""
    made = cache(lambda: (_START + make()).encode())

    async def act(visit: Visit) -> None:
        await answers(made())(visit)

    return act


def _page(name: str, make: Callable[[], str]) -> Case:
    return Case(name, _holds(make), (PAGE, "too_large", "too_complex"))


CASES = (
    _page("nested", lambda: "<div>" * NESTED),
    _page("nested-and-closed", lambda: "<div>" * NESTED + "</div>" * NESTED),
    _page("nested-formatting", lambda: "<b><i><u><a href=x>" * (NESTED // 4)),
    _page("nested-tables", lambda: "<table><tr><td>" * 20_000),
    _page("nested-lists", lambda: "<ul><li>" * (NESTED // 2)),
    _page("unclosed-formatting", lambda: "<p><b><i><u><font color=red>" * 2_000),
    _page("links", lambda: "".join(f"<a href={n}>" for n in range(LINKS // 2)) + "<a href=x>" * (LINKS // 2)),
    _page("entities", lambda: "&amp;&notit;&#xD800;&#0;&" * 200_000),
    _page("entity-declarations", lambda: '<!DOCTYPE a [<!ENTITY a "ha"><!ENTITY b "&a;&a;">]>' + "&b;" * 100_000),
    _page("attribute-of-a-megabyte", lambda: f'<a href="/{"x" * _MEGABYTE}">far</a>'),
    _page("attributes-100000", lambda: f"<p {' '.join(f'a{n}=1' for n in range(100_000))}>"),
    _page("title-of-a-megabyte", lambda: f"<title>{'t' * _MEGABYTE}</title><h1>{'h' * _MEGABYTE}</h1>"),
    _page("comment-unclosed", lambda: "<!--" + "-- >" * 250_000),
    _page("script-unclosed", lambda: "<script>" + "<!--<script>" * 100_000),
    _page("tag-unclosed", lambda: "<a href=" * 100_000),
    _page("bases", lambda: '<base href="//[">' * 10_000 + '<base href="javascript:x"><a href=x>'),
)
