"""The bars: what a run has to show. Ratios are taken within a round, and then their median."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import median

from benchmarks.result import Reading, Results

BASE = "shoal-1"


@dataclass(frozen=True, slots=True)
class Bar:
    """A figure and the bound that it must keep; `measure` returns nothing when a contender was left out."""

    name: str
    wanted: str
    measure: Callable[[Results], float | None]
    keeps: Callable[[float], bool]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a bar."""

    name: str
    wanted: str
    measured: float | None
    met: bool | None

    @property
    def word(self) -> str:
        return {True: "met", False: "not met", None: "not measured"}[self.met]


def ratio(
    results: Results, contender: str, against: str, of: Callable[[Reading], float] = lambda one: one.pages_per_second
) -> float | None:
    """Return how many times as fast one contender is as another: the median over the rounds of both."""
    others = {reading.round: of(reading) for reading in results.of(against)}
    pairs = [of(reading) / others[reading.round] for reading in results.of(contender) if reading.round in others]
    return median(pairs) if pairs else None


def judge(results: Results) -> list[Verdict]:
    """Hold the results against all bars; those of crawls only when there were any."""
    bars = BARS if results.readings else ()
    return [*(_verdict(bar, results) for bar in bars), *_row_verdicts(results)]


def _verdict(bar: Bar, results: Results) -> Verdict:
    measured = bar.measure(results)
    return Verdict(bar.name, bar.wanted, measured, None if measured is None else bar.keeps(measured))


def _row_verdicts(results: Results) -> Iterator[Verdict]:
    figures = (
        results.rows,
        results.api_rows,
        results.polite_rows,
        results.hostile_rows,
        results.browser_rows,
        results.data_rows,
        results.time_rows,
    )
    for row in (row for rows in figures for row in rows):
        if row.at_most is not None:
            yield Verdict(row.name, f"≤ {row.at_most:g} {row.unit}", row.value, row.value <= row.at_most)
        if row.at_least is not None:
            yield Verdict(row.name, f"≥ {row.at_least:g} {row.unit}", row.value, row.value >= row.at_least)


def _faster(contender: str, times: float, against: str) -> Bar:
    return Bar(
        f"{contender} against {against}",
        f"≥ {times:g} ×",
        lambda results: ratio(results, contender, against),
        lambda measured: measured >= times,
    )


def _lighter(contender: str, against: str) -> Bar:
    return Bar(
        f"{contender}: peak memory against {against}",
        "< 1 ×",
        lambda results: ratio(results, contender, against, lambda reading: reading.peak_bytes),
        lambda measured: measured < 1,
    )


def _calls_a_page(results: Results) -> float | None:
    found = [reading.round_trips_a_page for reading in results.of(BASE) if reading.round_trips_a_page is not None]
    return median(found) if found else None


OTHERS = {"scrapy": 20, "scrapy-tuned": 5, "crawlee": 15, "scrapy-redis": 40, "tutorial": 35}
"""How many times as fast Shoal has to be with one worker process, and with less memory."""
MAX_CALLS = 0.4
BARS = (
    _faster(BASE, 0.8, "raw"),
    _faster("shoal-1-archive", 0.6, "raw"),
    *(_faster(BASE, times, other) for other, times in OTHERS.items()),
    _faster("shoal-2", 1.7, BASE),
    _faster("shoal-2-shared", 1.7, "shoal-1-shared"),
    *(_lighter(BASE, other) for other in OTHERS),
    Bar(f"{BASE}: Redis calls a page", f"≤ {MAX_CALLS:g}", _calls_a_page, lambda measured: measured <= MAX_CALLS),
)
