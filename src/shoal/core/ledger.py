"""The ledger's entries: that a host was asked, and what held for it at that moment."""

from __future__ import annotations

import re

from shoal.core.frozen import frozen
from shoal.core.manners import LimitSource

MAX_URL_CHARS = 2_000
MAX_RULE_CHARS = 500

_USERINFO = re.compile(r"\A((?:[a-z][a-z0-9+.-]*:)?//)[^/\\?#]*@", re.IGNORECASE)


@frozen
class Ask:
    """One time that a host was asked for something."""

    at_ms: int
    host: str
    job: str
    """Empty when it was for no job in particular."""
    url: str
    status: int
    """0 when it did not answer."""
    reason: str = ""
    """Why there is no page, in Shoal's words."""
    rate: float = 0.0
    """The limit at that moment: requests a second; 0 was unlimited."""
    parallel: int = 0
    """Requests at once; 0 was unlimited."""
    source: LimitSource = LimitSource.DEFAULT
    """Whose word the rate was."""
    robots: str = ""
    """The version of robots.txt that held; empty when none was read."""
    rule: str = ""
    """Its line that decided."""


def plain_url(url: str) -> str:
    """A URL as the ledger keeps it: no user, no password, not too long."""
    if "@" in url:
        url = _USERINFO.sub(r"\1", url)
    return url[:MAX_URL_CHARS]


def plain_rule(rule: str) -> str:
    """A line of robots.txt as the ledger keeps it: nothing that a database refuses, not too long."""
    return rule.replace("\0", "")[:MAX_RULE_CHARS]
