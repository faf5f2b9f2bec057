"""Signatures of webhooks, by the Standard Webhooks convention: HMAC-SHA256 over `id.timestamp.body`.

A secret is `whsec_` and base64 of its bytes. While secrets rotate a message has a signature by each, and a receiver
takes it when it knows one of them.
"""

from __future__ import annotations

import base64
import hmac
import secrets as random
from collections.abc import Iterable

SECRET_PREFIX = "whsec_"
SECRET_BYTES = 32
SIGNATURE_VERSION = "v1"


def new_secret() -> str:
    """A secret that nobody has."""
    return SECRET_PREFIX + base64.b64encode(random.token_bytes(SECRET_BYTES)).decode()


def sign(secret: str, message: str, seconds: int, body: bytes) -> str:
    """One signature of a message: `v1,` and base64."""
    key = base64.b64decode(secret.removeprefix(SECRET_PREFIX))
    digest = hmac.digest(key, f"{message}.{seconds}.".encode() + body, "sha256")
    return f"{SIGNATURE_VERSION},{base64.b64encode(digest).decode()}"


def signed_headers(secrets: Iterable[str], message: str, seconds: int, body: bytes) -> dict[str, str]:
    """The three headers of the convention, with a signature by each secret."""
    return {
        "webhook-id": message,
        "webhook-timestamp": str(seconds),
        "webhook-signature": " ".join(sign(secret, message, seconds, body) for secret in secrets),
    }
