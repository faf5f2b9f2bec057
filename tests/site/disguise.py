"""Many spellings of one address.

Invariant: every form in `FORMS` of a canonical target, resolved against any page of the site and then
canonicalised, is that target again. Canonical means: fragment and tracking parameters dropped, no empty
query, dot segments resolved, scheme and host in lower case, no default or zero-padded port, white space
around the address trimmed. The order of parameters is part of the address.
"""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urljoin, urlsplit

TRACKING = ("utm_source", "utm_medium", "utm_campaign", "gclid", "fbclid")


def disguise(origin: str, target: str, turn: int) -> str:
    """The form number `turn` (round and round) of the address of `target`."""
    return FORMS[turn % len(FORMS)](origin, target)


def canonical(target: str) -> str:
    """The target that any spelling which reached the server stands for."""
    path, _, query = target.partition("#")[0].partition("?")
    if "/." in path:
        path = urlsplit(urljoin("http://site/", path)).path
    kept = [pair for pair in query.split("&") if pair and pair.partition("=")[0] not in TRACKING]
    return f"{path}?{'&'.join(kept)}" if kept else path


def _plain(_origin: str, target: str) -> str:
    return target


def _fragment(_origin: str, target: str) -> str:
    return f"{target}#reviews"


def _tracked(_origin: str, target: str) -> str:
    path, _, query = target.partition("?")
    return f"{path}?utm_source=newsletter&utm_medium=email{'&' if query else ''}{query}"


def _clicked(_origin: str, target: str) -> str:
    return f"{target}{'&' if '?' in target else '?'}gclid=Cj0KCQ&fbclid=IwAR2"


def _absolute(origin: str, target: str) -> str:
    return origin + target


def _shouted(origin: str, target: str) -> str:
    return origin.upper() + target


def _ported(origin: str, target: str) -> str:
    """The default port spelt out; a site on another port has that one padded with a zero instead."""
    scheme, _, authority = origin.partition("://")
    host, _, port = authority.partition(":")
    default = {"http": "80", "https": "443"}[scheme]
    return f"{scheme}://{host}:{'0' + port if port else default}{target}"


def _schemeless(origin: str, target: str) -> str:
    return origin.partition(":")[2] + target


def _dotted(_origin: str, target: str) -> str:
    return f"/shelf/../.{target}"


def _spaced(_origin: str, target: str) -> str:
    return f"\n  {target}\t"


def _dangling(_origin: str, target: str) -> str:
    return f"{target}#" if "?" in target else f"{target}?"


FORMS: tuple[Callable[[str, str], str], ...] = (
    _plain,
    _fragment,
    _tracked,
    _clicked,
    _absolute,
    _shouted,
    _ported,
    _schemeless,
    _dotted,
    _spaced,
    _dangling,
)
