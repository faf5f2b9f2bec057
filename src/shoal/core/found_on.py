"""The page that first led to a request, in twelve characters: a mark, and the page's fingerprint.

It waits in Redis with each request that was found, so it is short; no number and no URL begins with its mark. The links
of one page are written, and later leased, one after the other: most are known from the one before.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from functools import lru_cache

MARK = "~"
REMEMBERED = 1_000
"""Pages; of these a process has requests in its hands."""


@lru_cache(maxsize=REMEMBERED)
def write_found_on(fingerprint: int | None) -> str:
    """The mark and what stands behind it; empty for a request that was not found on a page."""
    if fingerprint is None:
        return ""
    return MARK + urlsafe_b64encode(fingerprint.to_bytes(8, "big", signed=True)).decode().rstrip("=")


@lru_cache(maxsize=REMEMBERED)
def read_found_on(behind_mark: str) -> int | None:
    """The fingerprint of what stands behind the mark; None for nothing."""
    return int.from_bytes(urlsafe_b64decode(f"{behind_mark}="), "big", signed=True) if behind_mark else None
