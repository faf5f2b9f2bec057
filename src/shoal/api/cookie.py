"""The cookie of the dashboard, and the proof that a request was made by the dashboard's own pages.

A browser adds the cookie to whatever is asked of this host. What changes something must also bring, in a header, a text
that only a page of this origin can have read.
"""

from __future__ import annotations

import hmac
from datetime import timedelta
from hashlib import sha256

from flask import Response, request

COOKIE = "shoal_session"
PROOF = "X-CSRF-Token"
_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


def given_token() -> str | None:
    """Of the browser that asks."""
    return request.cookies.get(COOKIE) or None


def proof_of(token: str) -> str:
    """What goes with each change; the token itself no script can read."""
    return sha256(f"csrf {token}".encode()).hexdigest()


def is_proved(token: str) -> bool:
    """Does this request change nothing, or does it come from our own pages?"""
    if request.method in _SAFE_METHODS:
        return True
    return hmac.compare_digest(request.headers.get(PROOF, "").encode(), proof_of(token).encode())


def put_cookie(response: Response, token: str, lifetime: timedelta) -> None:
    """For this host alone, for no script, and for no request that another site has begun."""
    response.set_cookie(
        COOKIE, token, max_age=lifetime, path="/", secure=request.is_secure, httponly=True, samesite="Strict"
    )


def drop_cookie(response: Response) -> None:
    """The browser forgets it."""
    response.delete_cookie(COOKIE, path="/", secure=request.is_secure, httponly=True, samesite="Strict")
