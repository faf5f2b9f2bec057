"""Every error that Shoal raises on purpose.

    ShoalError
    ├── InputError            the user gave something that cannot work; exit code 2
    │   ├── BadUrl            a URL that cannot be fetched
    │   │   └── BadUrls       a list with such URLs; carries their places
    │   └── BadSpec           a job that does not validate
    ├── NotFound              no such job, page, …
    ├── Conflict              the thing is not in a state for this
    ├── Busy                  full for now; carries when to come again
    ├── Unavailable           something that Shoal needs is down or full
    │   ├── RedisUnavailable
    │   ├── BrokerUnavailable a broker of its own answers, and does not let us be its worker
    │   ├── Unfinished        a submission is recorded, but not under way yet; carries the job
    │   ├── StoreUnavailable
    │   ├── ArchiveUnavailable
    │   └── PlaceUnavailable  where results are delivered to: a folder, an object store, a table
    ├── RowRefused            the database works, and will never take this row
    ├── Undelivered           a message did not reach whom it is for; carries the answer's code
    ├── LenderGone            a job whose pages were to be used again was given up; carries which
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

    def __init__(self, message: str | None = None, field: str = "") -> None:
        super().__init__(message)
        self.field = field
        """The part of the input that it is about."""


class BadUrl(InputError):
    """This is not a URL that can be fetched."""


class BadUrls(BadUrl):
    """A list has URLs that cannot be fetched."""

    def __init__(self, message: str, problems: tuple[tuple[int, str], ...]) -> None:
        super().__init__(message)
        self.problems = problems
        """(place in the list, counted from 0; what is wrong)"""


class BadSpec(InputError):
    """The job is not valid."""


class NotFound(ShoalError):
    """There is no such thing."""


class Conflict(ShoalError):
    """The thing is not in a state in which this can be done."""


class Busy(ShoalError):
    """There is no room for more at the moment."""

    def __init__(self, message: str | None = None, retry_after: timedelta = timedelta(seconds=5)) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class Unavailable(ShoalError):
    """Something that Shoal needs cannot be reached."""


class RedisUnavailable(Unavailable):
    """Redis cannot be reached."""


class BrokerUnavailable(Unavailable):
    """The broker does not let us in."""


class Unfinished(Unavailable):
    """The submission is recorded, and will be carried out when what it needs is back."""

    def __init__(self, job: str, cause: Unavailable) -> None:
        super().__init__(f"job {job} is recorded and starts as soon as it can: {cause}")
        self.job = job


class StoreUnavailable(Unavailable):
    """The database cannot be used."""


class ArchiveUnavailable(Unavailable):
    """The archive cannot be written."""


class PlaceUnavailable(Unavailable):
    """Results cannot be put where they are wanted."""


class RowRefused(ShoalError):
    """The database does not take this row."""


class Undelivered(ShoalError):
    """The message did not arrive."""

    def __init__(self, message: str, code: int = 0) -> None:
        super().__init__(message)
        self.code = code
        """What the other side answered; 0 when it did not."""


class LenderGone(ShoalError):
    """An earlier job, whose pages were to be used again, has been given up."""

    def __init__(self, jobs: frozenset[str]) -> None:
        super().__init__()
        self.jobs = jobs


class FetchError(ShoalError):
    """The page could not be fetched."""

    def __init__(
        self, reason: str, detail: str = "", *, retry_after: timedelta | None = None, received: int = 0
    ) -> None:
        super().__init__(f"{reason}: {detail}" if detail else reason)
        self.reason = reason
        self.detail = detail
        self.retry_after = retry_after
        self.received = received
        """Bytes of a body that came all the same."""
