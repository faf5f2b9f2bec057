"""Sites that are being served: where each begins, and when it was first asked for something."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Served:
    """Sites by their number of pages."""

    urls: Mapping[int, str]
    starts: Callable[[int], list[float]]
    """When the start page of a site was asked for, on the monotonic clock."""

    def __getitem__(self, pages: int) -> str:
        return self.urls[pages]

    def first_fetch(self, pages: int, since: float) -> float | None:
        """Return the seconds from a moment to the first request for the start page of a site after it."""
        later = [at for at in self.starts(pages) if at >= since]
        return min(later) - since if later else None
