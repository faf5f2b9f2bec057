"""Who is logged in at the dashboard: tokens of browsers, and the API key that each was given for.

Of a token only its SHA-256 is kept, as of a key. What is lost with Redis costs a log-in.
"""

# redis-py's hints leave gaps: what falls into them is unknown to the checker in this file only.
# pyright: reportUnknownMemberType=false
from __future__ import annotations

import secrets
from datetime import timedelta
from hashlib import sha256
from typing import cast

import redis

from shoal.frontier.scripts import connect, translated_errors

LIFETIME = timedelta(hours=12)
TOKEN_BYTES = 32


class Sessions:
    """Those of one frontier."""

    def __init__(self, client: redis.Redis, prefix: str) -> None:
        self._client = client
        self._prefix = prefix

    @classmethod
    def at(cls, url: str, prefix: str) -> Sessions:
        return cls(connect(url), prefix)

    def open(self, key: str) -> str:
        """A new token for whoever has this key, which is named by its public prefix."""
        token = secrets.token_urlsafe(TOKEN_BYTES)
        with translated_errors("session"):
            self._client.set(self._place(token), key, ex=LIFETIME)
        return token

    def find(self, token: str) -> str | None:
        """The prefix of the key; None when nobody is logged in with this token."""
        with translated_errors("session"):
            return cast("str | None", self._client.get(self._place(token)))

    def close(self, token: str) -> None:
        """It opens nothing any more."""
        with translated_errors("session"):
            self._client.delete(self._place(token))

    def _place(self, token: str) -> str:
        digest = sha256(token.encode("utf-8", "replace")).hexdigest()
        return f"{self._prefix}:session:{digest}"
