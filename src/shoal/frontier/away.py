"""Is Redis away, so that waiting helps, or does it refuse us for good?"""

from __future__ import annotations

import ssl
from collections.abc import Iterator

from redis import exceptions

from shoal.errors import RedisUnavailable
from shoal.frontier.scripts import translated_errors
from shoal.frontier.sentinel import UnknownService

_FOR_GOOD = (
    exceptions.AuthenticationError,
    exceptions.NoPermissionError,
    UnknownService,
    PermissionError,
    ssl.SSLCertVerificationError,
)
"""Passwords, rights, names and certificates do not become right by waiting."""


def is_away(error: RedisUnavailable) -> bool:
    """False when its configuration is wrong, or when Redis is the wrong one."""
    causes = list(_causes(error))
    return bool(causes) and not any(isinstance(cause, _FOR_GOOD) for cause in causes) and _passes(causes[0])


def _passes(cause: BaseException) -> bool:
    """Would the frontier take it for trouble that ends by itself?"""
    try:
        with translated_errors("start"):
            raise cause
    except RedisUnavailable:
        return True
    except exceptions.RedisError:
        return False


def _causes(error: BaseException) -> Iterator[BaseException]:
    """What it came from, the nearest first."""
    cause = error.__cause__ or error.__context__
    while cause is not None:
        yield cause
        cause = cause.__cause__ or cause.__context__
