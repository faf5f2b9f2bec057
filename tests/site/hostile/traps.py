"""Sites without end, and redirects that lead nowhere."""

from __future__ import annotations

import re
from itertools import count

from tests.site.hostile.case import PAGE, REDIRECT, Act, Case, Visit, answers

HOPS = 100
_STEP = re.compile(r"/(\d+)$")
_sessions = count(1)


def _page(title: str, *hrefs: str) -> Act:
    links = "".join(f'<a href="{href}">{href}</a>\n' for href in hrefs)
    return answers(f"<!doctype html><title>{title}</title><h1>{title}</h1>\n{links}".encode())


def _step(visit: Visit) -> int:
    found = _STEP.search(visit.target.partition("?")[0])
    return int(found[1]) if found else 0


async def _calendar(visit: Visit) -> None:
    """Every month has a next and a last one."""
    month = _step(visit)
    await _page(f"Month {month}", f"/calendar/{month + 1}", f"/calendar/{month + 1}?view=week")(visit)


async def _depth(visit: Visit) -> None:
    """Relative links that make the path longer with each page."""
    await _page("Deeper", "deeper/", "deeper/still/")(visit)


async def _session(visit: Visit) -> None:
    """The same three pages, under a new address each time."""
    number = next(_sessions)
    await _page("Welcome", *(f"/page/{page}?sid={number:08x}" for page in range(3)))(visit)


def _to(location: str) -> Act:
    return answers(b"", f"Location: {location}", status="302 Found")


def _circle(length: int) -> Act:
    """Around and around."""

    async def act(visit: Visit) -> None:
        await _to(f"/hop/{(_step(visit) + 1) % length}")(visit)

    return act


async def _chain(visit: Visit) -> None:
    step = _step(visit)
    await (_page("The end") if step >= HOPS else _to(f"/hop/{step + 1}"))(visit)


async def _growing(visit: Visit) -> None:
    """No address comes twice, so that nobody can call it a loop."""
    await _to(f"{visit.target}x")(visit)


def _odd(name: str, location: str) -> Case:
    return Case(f"redirect-{name}", _to(location), ("bad_redirect",))


ENDLESS = (
    Case("calendar", _calendar, (PAGE,)),
    Case("endless-depth", _depth, (PAGE,)),
    Case("session-ids", _session, (PAGE,)),
)
"""For crawls; a request that follows nothing gets a page."""

REDIRECTS = (
    Case("redirect-to-itself", _circle(1), ("redirect_loop",)),
    Case("redirect-loop-of-2", _circle(2), (REDIRECT,)),
    Case("redirect-loop-of-3", _circle(3), (REDIRECT,)),
    Case("redirect-chain", _chain, ("too_many_redirects",)),
    Case("redirect-growing", _growing, ("too_many_redirects",)),
    _odd("to-a-file", "file:///etc/passwd"),
    _odd("to-ftp", "ftp://127.0.0.1/"),
    _odd("to-gopher", "gopher://127.0.0.1:6379/_FLUSHALL"),
    _odd("to-data", "data:text/html,<h1>Hello</h1>"),
    _odd("to-script", "javascript:alert(1)"),
    _odd("to-nonsense", "http://[::1"),
    _odd("to-a-login", "http://joe:secret@127.0.0.1/"),
    Case("redirect-to-nothing", answers(b"", status="302 Found"), ("http_302",)),
    Case("redirect-very-far", _to("/" + "x" * 30_000), ("bad_redirect",)),
)

CASES = (*ENDLESS, *REDIRECTS)
