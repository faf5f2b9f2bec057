"""What is measured: values that pass between the meter, the bars and the table."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a contender says of its own crawl: pages, and seconds from its first fetch to its last page."""

    pages: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Reading:
    """One crawl of one contender."""

    contender: str
    round: int
    kb: int
    """The size of its pages."""
    pages: int
    seconds: float
    cpu_seconds: float
    peak_bytes: int
    first_fetch_seconds: float | None
    """From the start of its command."""
    round_trips: int | None
    scripts: int | None
    commands: int | None
    redis_bytes: int | None

    @property
    def pages_per_second(self) -> float:
        return self.pages / self.seconds

    @property
    def cpu_seconds_per_1000(self) -> float:
        return self.cpu_seconds / self.pages * 1000

    @property
    def round_trips_a_page(self) -> float | None:
        return None if self.round_trips is None else self.round_trips / self.pages

    @property
    def redis_bytes_a_page(self) -> float | None:
        return None if self.redis_bytes is None else self.redis_bytes / self.pages


@dataclass(frozen=True, slots=True)
class Failure:
    """A crawl that did not come to its end, or left pages out."""

    contender: str
    round: int
    reason: str


@dataclass(frozen=True, slots=True)
class Row:
    """A figure that is no crawl, such as bytes of Redis a URL; `at_most` or `at_least` is its bar, where it has one."""

    name: str
    value: float
    unit: str
    note: str = ""
    at_most: float | None = None
    at_least: float | None = None


@dataclass(frozen=True, slots=True)
class Results:
    """All that one run measured."""

    readings: tuple[Reading, ...]
    failures: tuple[Failure, ...]
    sized: tuple[Reading, ...] = ()
    """Of pages of other sizes."""
    rows: tuple[Row, ...] = ()
    api_rows: tuple[Row, ...] = ()
    """Of the control plane."""
    polite_rows: tuple[Row, ...] = ()
    """Of politeness."""
    hostile_rows: tuple[Row, ...] = ()
    """Of a hostile web."""
    browser_rows: tuple[Row, ...] = ()
    """Of rendered pages."""
    data_rows: tuple[Row, ...] = ()
    """Of extraction and outputs."""
    time_rows: tuple[Row, ...] = ()
    """Of runs that know the one before."""

    def of(self, contender: str) -> list[Reading]:
        """Return the readings of one contender, by round."""
        return [reading for reading in self.readings if reading.contender == contender]
