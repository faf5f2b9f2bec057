"""What people call a host, as the one name that the frontier knows it by."""

from __future__ import annotations

import re

from shoal.core.url import parse
from shoal.errors import BadUrl, InputError

DOMAIN = "@"
"""Stands before a registrable domain whose hosts share one bucket."""

_NO_HOST = re.compile(r"[\s/\\?#@]")
_LABELS = re.compile(r"([a-z0-9_-]+\.)*[a-z][a-z0-9_-]*")  # the last one has a letter first: else it is an address


def host_name(text: str) -> str:
    """The canonical name of a host, of `@domain`, or of the host in a URL."""
    given = text.strip()
    if given.startswith(DOMAIN):
        return DOMAIN + _domain(given)
    if "://" in given:
        return parse(given).host
    try:
        if _NO_HOST.search(given):
            raise BadUrl
        return parse(f"http://{given}/").host
    except BadUrl as exc:
        message = f"{text[:100]!r} is not a host, such as shop.example or shop.example:8080"
        raise InputError(message, field="host") from exc


def asked_host(text: str) -> str:
    """The name of a host that can be asked, and has entries in the ledger: a domain's bucket has none."""
    name = host_name(text)
    if name.startswith(DOMAIN):
        raise InputError(f"{name} is no host: the ledger has each host by itself, such as www.{name[1:]}", field="host")
    return name


def _domain(given: str) -> str:
    name = host_name(given.removeprefix(DOMAIN)) if not given.startswith(DOMAIN * 2) else ""
    if not _LABELS.fullmatch(name):
        message = f"{given[:100]!r} is not a domain, such as @example.org; it has no port, and is no address"
        raise InputError(message, field="host")
    return name
