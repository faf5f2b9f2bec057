"""In which manner a job fetches, and how it reads what came: each as a short digest, to be held against another job's.

A page is used again only by jobs that would have asked for it in the same manner. Secrets are part of the manner: what
one login was shown is not given to another. Read in the same way, the same bytes give the same items and links.
"""

from __future__ import annotations

import hashlib

from shoal.core.spec import TAKING, JobSpec

_FETCHING = {"engine", "browser", "proxies"}
_READING = {
    *(*TAKING, "nofollow", "noindex", "duplicates", "drop_tracking", "next", "since", "sitemaps"),
    *("engine", "browser"),
}


def manner_of(spec: JobSpec) -> str:
    """How it fetches."""
    sent = sorted((name.lower(), value) for name, value in spec.headers.items())
    trusted = sorted(spec.trusted) if spec.has_secrets else []
    return _digest(spec.model_dump_json(include=_FETCHING, exclude_defaults=True), repr(sent), repr(trusted))


def reading_of(spec: JobSpec) -> str:
    """How it reads."""
    return _digest(spec.model_dump_json(include=_READING, exclude_defaults=True), spec.noise)


def _digest(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
