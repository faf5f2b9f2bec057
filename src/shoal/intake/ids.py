"""Names for what comes in: of a job, and of a submission with all that comes of it."""

from __future__ import annotations

import secrets

_ID_ALPHABET = "abcdefghjkmnpqrstuvwxyz23456789"


def new_job_id() -> str:
    """Short enough to type, random enough for a fleet."""
    return "".join(secrets.choice(_ID_ALPHABET) for _ in range(10))


def new_request_id() -> str:
    """Marks everything that comes of one submission."""
    return secrets.token_hex(8)
