"""Does a run of a job look like the earlier ones? By how many items it has, how many of them are in quarantine, and how
often each field is filled and with what.

What earlier runs showed is a range; outside it, and by more than a margin, a run has drifted. The margin is twice the
standard deviation of the earlier runs, and never so small that chance alone would raise an alarm.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from statistics import pstdev

from shoal.core.frozen import frozen
from shoal.core.tally import Tally

RUNS = 10
"""Earlier runs that are looked at, the latest."""
FILL_MARGIN = 0.05
FIRST_FILL_MARGIN = 0.15
"""While there is just one earlier run."""
VOLUME_MARGIN = 0.2
FIRST_VOLUME_MARGIN = 0.5
MAX_DRIFTS = 50
DRIFTS = ("volume", "quarantine", "fill", "type")


@frozen
class Profile:
    """One run in numbers."""

    job: str
    items: int
    quarantined: int
    fill: dict[str, float]
    """Field → share of items that have it."""
    types: dict[str, str]
    """Field → its most frequent type."""

    @classmethod
    def of(cls, job: str, tally: Tally, quarantined: int) -> Profile:
        whole = tally.whole
        names = list(whole.fields)
        types = {name: each.main_type for name, each in whole.fields.items() if each.types}
        return cls(job, whole.items, quarantined, {name: whole.fill_rate(name) for name in names}, types)

    @property
    def invalid(self) -> float:
        """The share in quarantine."""
        total = self.items + self.quarantined
        return self.quarantined / total if total else 0.0


@frozen
class Drift:
    """One thing in which a run differs from the earlier ones."""

    what: str
    """`volume`, `quarantine`, `fill` or `type`."""
    field: str
    """Of a field; empty for the whole."""
    value: str
    expected: str
    runs: int
    """Earlier runs that were looked at."""

    @property
    def as_json(self) -> dict[str, str | int]:
        """For programs, and with the words for people."""
        return {**asdict(self), "detail": self.told}

    @property
    def told(self) -> str:
        """For people."""
        of = {"volume": "items", "quarantine": "in quarantine", "fill": "filled", "type": "type"}[self.what]
        subject = f"{self.field}: {of}" if self.field else of
        earlier = "the earlier run" if self.runs == 1 else f"{self.runs} earlier runs"
        return f"{subject} {self.value}; {earlier}: {self.expected}"


def find_drifts(run: Profile, earlier: Sequence[Profile]) -> tuple[Drift, ...]:
    """In what a run differs from these; nothing when there are none."""
    if not earlier:
        return ()
    return tuple(_drifts(run, earlier[:RUNS]))[:MAX_DRIFTS]


def _drifts(run: Profile, earlier: Sequence[Profile]) -> Iterable[Drift]:
    count = len(earlier)
    volumes = [float(each.items) for each in earlier]
    share = FIRST_VOLUME_MARGIN if count == 1 else VOLUME_MARGIN
    if _is_outside(float(run.items), volumes, share * sum(volumes) / count):
        yield Drift("volume", "", str(run.items), _span([str(each.items) for each in _edges(volumes, earlier)]), count)
    least = FIRST_FILL_MARGIN if count == 1 else FILL_MARGIN
    shares = [each.invalid for each in earlier]
    if run.invalid > max(shares) and _is_outside(run.invalid, shares, least):
        yield Drift("quarantine", "", _percent(run.invalid), _percents(shares), count)
    if run.items:  # else every field would say what the volume has said
        yield from _field_drifts(run, earlier, least)


def _field_drifts(run: Profile, earlier: Sequence[Profile], least: float) -> Iterable[Drift]:
    count = len(earlier)
    for name in dict.fromkeys(name for each in (*earlier, run) for name in each.fill):
        rates = [each.fill.get(name, 0.0) for each in earlier]
        rate = run.fill.get(name, 0.0)
        if _is_outside(rate, rates, least):
            yield Drift("fill", name, _percent(rate), _percents(rates), count)
        types = {each.types[name] for each in earlier if name in each.types}
        if name in run.types and types and run.types[name] not in _alike(types):
            yield Drift("type", name, run.types[name], ", ".join(sorted(types)), count)


def _alike(types: set[str]) -> set[str]:
    """A number that happens to be whole is no other type."""
    return types | {"integer", "number"} if types & {"integer", "number"} else types


def _is_outside(value: float, values: Sequence[float], least: float) -> bool:
    margin = max(least, 2 * pstdev(values))
    return value < min(values) - margin or value > max(values) + margin


def _edges(volumes: Sequence[float], earlier: Sequence[Profile]) -> tuple[Profile, Profile]:
    return earlier[volumes.index(min(volumes))], earlier[volumes.index(max(volumes))]


def _percent(share: float) -> str:
    return f"{share:.0%}" if share in (0.0, 1.0) else f"{share:.1%}"


def _percents(shares: Sequence[float]) -> str:
    return _span([_percent(min(shares)), _percent(max(shares))])


def _span(edges: Sequence[str]) -> str:
    return edges[0] if edges[0] == edges[1] else f"{edges[0]} to {edges[1]}"
