"""Time series: samples of sums, thinned out with their age, and charts made of them.

A sample has counters, which only grow, counters by reason, and gauges. What a counter grew by between two samples is
spread evenly over the time between them, so that a chart adds up to the sums whatever its steps are. A counter that has
fallen was begun anew, and has not grown. Between samples too far apart nobody looked: a chart has nothing there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from shoal.core.frozen import frozen
from shoal.core.job_status import JobStatus
from shoal.core.model import Outcome

MAX_REASONS = 40
"""Of one sample; the rare ones are left out."""
REASONS_SHOWN = 20
"""Of one point of a chart."""
MISSED = 3
"""So many samples that did not come make a gap."""
LEAST_GAP_MS = 90_000
_STEPS_S = (5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 14_400, 21_600, 43_200)
_DAY_S = 86_400
_OUTCOMES = frozenset(outcome.value for outcome in Outcome)
_PLACES = ("queued", "delayed", "leased")


@frozen
class Tier:
    """Samples of this step are kept for so long."""

    step_ms: int
    kept_ms: int


TIERS = (Tier(5_000, 3_600_000), Tier(60_000, 86_400_000), Tier(600_000, 7 * 86_400_000))
"""From fine to coarse."""
FINEST, COARSEST = TIERS[0], TIERS[-1]


@frozen
class Sample:
    """Sums at one moment."""

    at_ms: int
    counters: Mapping[str, int] = field(default_factory=dict[str, int])
    gauges: Mapping[str, int] = field(default_factory=dict[str, int])
    reasons: Mapping[str, int] = field(default_factory=dict[str, int])
    """Counters by outcome and reason."""
    end: bool = False
    """The last sums of a job that ended then."""


@frozen
class Window:
    """What a chart shows: whole steps, in multiples of the step since 1970."""

    from_ms: int
    to_ms: int
    step_ms: int

    @property
    def size(self) -> int:
        return (self.to_ms - self.from_ms) // self.step_ms

    @classmethod
    def of(cls, since_ms: int, until_ms: int, points: int) -> Window:
        """The finest one from here to there that has no more points than this."""
        for step_s in (*_STEPS_S, *(days * _DAY_S for days in range(1, 400))):
            step = step_s * 1_000
            window = cls(since_ms // step * step, max(-(-until_ms // step), since_ms // step + 1) * step, step)
            if window.size <= points:
                return window
        raise ValueError(f"no chart of {points} points is that long")


@frozen
class Point:
    """One step of a chart; None where nobody looked."""

    at_ms: int
    covered_ms: int
    """How much of the step is known: rates are over this time."""
    rates: Mapping[str, float] | None
    """A second."""
    reasons: Mapping[str, float]
    """Likewise, by outcome and reason: the most frequent."""
    last: Sample | None
    """The newest sums at its end."""


@dataclass(slots=True)
class _Step:
    covered_ms: float = 0.0
    grown: dict[str, float] = field(default_factory=dict[str, float])
    reasons: dict[str, float] = field(default_factory=dict[str, float])
    last: Sample | None = None


def tier_of(before_ms: int | None, at_ms: int) -> Tier:
    """How long a sample is worth keeping: the coarsest tier in whose step it is the first after the one before."""
    for tier in reversed(TIERS):
        if before_ms is None or before_ms // tier.step_ms != at_ms // tier.step_ms:
            return tier
    return FINEST


def spacing_ms(window: Window) -> int:
    """How far apart samples may be that make a chart of this window: those of finer tiers need not be read."""
    return max((tier.step_ms for tier in TIERS if tier.step_ms <= window.step_ms), default=FINEST.step_ms)


def chart(samples: Sequence[Sample], window: Window, now_ms: int) -> list[Point]:
    """The points of a window from samples in order of time, a few of which may lie before and behind it."""
    steps = [_Step() for _ in range(window.size)]
    for before, after in pairwise(samples):
        if not _is_gap(before, after, window, now_ms):
            _spread(before, after, window, steps)
    for sample in samples:
        at = (sample.at_ms - window.from_ms) // window.step_ms
        if 0 <= at < len(steps):
            steps[at].last = sample
    return list(_points(steps, samples, window))


def _is_gap(before: Sample, after: Sample, window: Window, now_ms: int) -> bool:
    if before.end:
        return False  # it was not alive: see _spread
    age = now_ms - before.at_ms
    expected = next((tier.step_ms for tier in TIERS if age <= tier.kept_ms), COARSEST.step_ms)
    return after.at_ms - before.at_ms > max(LEAST_GAP_MS, MISSED * max(expected, spacing_ms(window)))


def _spread(before: Sample, after: Sample, window: Window, steps: list[_Step]) -> None:
    """What a job has done after its end it has done since it was brought back, just now."""
    start = max(before.at_ms, after.at_ms - FINEST.step_ms) if before.end else before.at_ms
    length = after.at_ms - start
    if length <= 0:
        return
    grown, reasons = _growth(before.counters, after.counters), _growth(before.reasons, after.reasons)
    first, last = (max(0, (at - window.from_ms) // window.step_ms) for at in (start, after.at_ms - 1))
    for place in range(first, min(last, len(steps) - 1) + 1):
        opens = window.from_ms + place * window.step_ms
        covered = min(after.at_ms, opens + window.step_ms) - max(start, opens)
        step = steps[place]
        step.covered_ms += covered
        for sums, growth in ((step.grown, grown), (step.reasons, reasons)):
            for name, count in growth.items():
                sums[name] = sums.get(name, 0.0) + count * covered / length


def _growth(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, int]:
    return {name: max(0, count - before.get(name, 0)) for name, count in after.items()}


def _points(steps: Sequence[_Step], samples: Sequence[Sample], window: Window) -> Iterator[Point]:
    earlier = [sample for sample in samples if sample.at_ms < window.from_ms]
    last = earlier[-1] if earlier else None
    for place, step in enumerate(steps):
        last = step.last or last
        seconds = step.covered_ms / 1_000
        yield Point(
            window.from_ms + place * window.step_ms,
            round(step.covered_ms),
            {name: grown / seconds for name, grown in step.grown.items()} if seconds else None,
            {name: grown / seconds for name, grown in _most(step.reasons, REASONS_SHOWN)} if seconds else {},
            last if seconds or step.last else None,
        )


def _most(sums: Mapping[str, float], most: int) -> Iterable[tuple[str, float]]:
    grown = [(name, count) for name, count in sums.items() if count > 0]
    return sorted(grown, key=lambda each: (-each[1], each[0]))[:most]


# --- what is sampled -------------------------------------------------------------------------------------------------


def is_outcome(name: str) -> bool:
    """Of the sums over all jobs: is it about requests that were settled?"""
    return name.partition(":")[0] in _OUTCOMES


def sum_of(outcome: str, sums: Mapping[str, int]) -> int:
    """All requests with this outcome, whatever the reason."""
    return sum(count for name, count in sums.items() if name.partition(":")[0] == outcome)


def job_sample(status: JobStatus, items: int) -> Sample:
    """A job as it stands."""
    counters, robots = status.counters, sum_of("robots", status.reasons)
    return Sample(
        status.now_ms if status.ended_ms is None else status.ended_ms,
        {
            "pages": counters.done - status.redirects,
            "redirects": status.redirects,
            "errors": counters.dead,
            "retries": counters.retries,
            "robots": robots,
            "filtered": counters.filtered + max(0, counters.dropped - robots),
            "received": counters.received,
            "items": items,
        },
        {place: getattr(counters, place) for place in _PLACES},
        frequent(status.reasons),
        end=status.ended_ms is not None,
    )


def frequent(reasons: Mapping[str, int]) -> dict[str, int]:
    """The most frequent reasons: few enough for a sample."""
    most = sorted(reasons.items(), key=lambda each: (-each[1], each[0]))[:MAX_REASONS]
    return dict(most)
