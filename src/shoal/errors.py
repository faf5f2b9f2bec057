"""Every error that Shoal raises on purpose.

    ShoalError
    ├── InputError            the user gave something that cannot work; exit code 2
    │   ├── BadUrl            a URL that cannot be fetched
    │   └── BadSpec           a job that does not validate
    ├── NotFound              no such job, page, …
    ├── Unavailable           something that Shoal needs is down or full
    │   ├── RedisUnavailable
    │   ├── StoreUnavailable
    │   └── ArchiveUnavailable
    └── FetchError            one page could not be fetched; carries a stable reason

A class's docstring is its default message. A message says what happened, where, and what to do now.
"""

from __future__ import annotations

from datetime import timedelta


class ShoalError(Exception):
    """Something went wrong."""

    exit_code = 1

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or (type(self).__doc__ or "").strip())


class InputError(ShoalError):
    """The input cannot be used."""

    exit_code = 2


class BadUrl(InputError):
    """This is not a URL that can be fetched."""


class BadSpec(InputError):
    """The job is not valid."""


class NotFound(ShoalError):
    """There is no such thing."""


class Unavailable(ShoalError):
    """Something that Shoal needs cannot be reached."""


class RedisUnavailable(Unavailable):
    """Redis cannot be reached."""


class StoreUnavailable(Unavailable):
    """The database cannot be used."""


class ArchiveUnavailable(Unavailable):
    """The archive cannot be written."""


class FetchError(ShoalError):
    """The page could not be fetched."""

    def __init__(self, reason: str, detail: str = "", *, retry_after: timedelta | None = None) -> None:
        super().__init__(f"{reason}: {detail}" if detail else reason)
        self.reason = reason
        self.detail = detail
        self.retry_after = retry_after
