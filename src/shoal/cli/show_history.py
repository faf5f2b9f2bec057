"""What history does: a small chart of each thing, errors by reason, and a table of a few steps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime

from shoal.api.charts import fleet_chart, job_chart
from shoal.cli.host_audit import Period
from shoal.cli.outage import slow_is_said
from shoal.cli.show import WAITED_FOR, opened_platform
from shoal.cli.spark import number, spark
from shoal.cli.talk import human_bytes, human_seconds, print_json, say, show
from shoal.core.history import Point
from shoal.core.redact import visible
from shoal.errors import InputError
from shoal.history import Chart
from shoal.store.job_rows import JobRow
from shoal.wiring import Platform

COLUMNS = 60
"""Of a chart: with its name and its numbers it fits on a terminal."""
POINTS = 120
"""For programs, as over the API."""
ROWS = 12
REASONS = 10
RATES = ("pages", "errors", "retries", "robots", "items", "received")
PLACES = ("queued", "delayed", "leased")
OF_THE_FLEET = ("jobs", "workers", "redis_memory_bytes")
_NO_ERRORS = ("done",)
_BYTES = ("received", "redis_memory_bytes")


def show_history(job: str | None, period: Period, points: int | None, *, json: bool) -> None:
    """Print charts of a job, or of everything."""
    with opened_platform() as platform, slow_is_said(WAITED_FOR):
        row = platform.control.job(platform.control.find(job)) if job is not None else None
        _check(platform, period)
        chart = _look(platform, row, period, points or (POINTS if json else COLUMNS))
    if json:
        print_json(job_chart(row.id, chart) if row else fleet_chart(chart))
    else:
        title = f"job {row.id} ({row.state.value})" if row else "everything together"
        show("\n".join(drawn(title, chart, PLACES if row else (*PLACES, *OF_THE_FLEET))))
    if not _is_known(chart):
        say("nobody looked in this time: a worker that serves control takes samples (shoal up), and so does a crawl")


def _check(platform: Platform, period: Period) -> None:
    """`read_period` has seen to the rest."""
    if period.until_ms is None and period.since_ms is not None and period.since_ms >= platform.history.now_ms():
        raise InputError("--since must be before now: write an age such as 2h, or a time in UTC")


def _look(platform: Platform, row: JobRow | None, period: Period, points: int) -> Chart:
    history, since, until = platform.history, period.since_ms, period.until_ms
    return history.job(row, since, until, points) if row else history.fleet(since, until, points)


# --- for people ------------------------------------------------------------------------------------------------------


def drawn(title: str, chart: Chart, gauges: Iterable[str]) -> Iterator[str]:
    """A chart of each thing, with numbers; nothing of a time in which nobody looked."""
    window = chart.window
    step = human_seconds(window.step_ms / 1_000, whole=True)
    yield f"{title}, {_when(window.from_ms)} to {_when(window.to_ms)} UTC, in steps of {step}"
    if not _is_known(chart):
        return
    yield ""
    yield from _rate_lines(chart.points)
    yield from _gauge_lines(chart.points, gauges)
    yield from _reason_lines(chart.points)
    yield from _table(list(_put_together(chart.points)))


def _rate_lines(points: Sequence[Point]) -> Iterator[str]:
    for name in RATES:
        values = [None if point.rates is None else point.rates.get(name, 0.0) for point in points]
        if name not in ("pages", "errors") and not any(values):
            continue
        told = _told(name)
        numbers = (
            f"most {told(_most(values))}, last {told(_last(values))}, in all {told(float(round(_grown(points, name))))}"
        )
        yield f"  {name + '/s':<13}{spark(values)}  {numbers}"


def _gauge_lines(points: Sequence[Point], names: Iterable[str]) -> Iterator[str]:
    for name in names:
        values = [None if point.last is None else float(point.last.gauges.get(name, 0)) for point in points]
        told = _told(name)
        shown = "redis memory" if name == "redis_memory_bytes" else name
        yield f"  {shown:<13}{spark(values)}  most {told(_most(values))}, last {told(_last(values))}"


def _reason_lines(points: Sequence[Point]) -> Iterator[str]:
    """What became of requests other than pages, the most frequent first."""
    sums: dict[str, float] = {}
    for point in points:
        for name, rate in point.reasons.items():
            if name.partition(":")[0] not in _NO_ERRORS:
                sums[name] = sums.get(name, 0.0) + rate * point.covered_ms / 1_000
    if not sums:
        return
    yield ""
    yield "by reason"
    for name in sorted(sums, key=lambda each: (-sums[each], each))[:REASONS]:
        values = [None if point.rates is None else point.reasons.get(name, 0.0) for point in points]
        yield f"  {visible(name):<28} {number(float(round(sums[name]))):>9}  {spark(values)}"
    if len(sums) > REASONS:
        yield f"  and {len(sums) - REASONS} rarer ones: --json has them"


def _table(points: Sequence[Point]) -> Iterator[str]:
    """As it was in each step, and stood at its end; steps in which nobody looked are left out."""
    heads = ("pages/s", "errors/s", "retries/s", *PLACES, "pages", "errors")
    yield ""
    yield "  ".join([f"{'from':<19}", *(f"{head:>9}" for head in heads)])
    for point in filter(_is_seen, points):
        rates = [None if point.rates is None else point.rates.get(name, 0.0) for name in ("pages", "errors", "retries")]
        last = point.last
        gauges = [None if last is None else last.gauges.get(name, 0) for name in PLACES]
        totals = [None if last is None else last.counters.get(name, 0) for name in ("pages", "errors")]
        cells = [f"{number(value):>9}" for value in (*rates, *gauges, *totals)]
        yield "  ".join([_when(point.at_ms), *cells])


def _put_together(points: Sequence[Point]) -> Iterator[Point]:
    """Several steps as one, so that there are few."""
    size = -(-len(points) // ROWS)
    for start in range(0, len(points), size):
        some = points[start : start + size]
        covered = sum(point.covered_ms for point in some)
        grown = {name: _grown(some, name) for name in RATES}
        rates = {name: count * 1_000 / covered for name, count in grown.items()} if covered else None
        last = next((point.last for point in reversed(some) if point.last), None)
        yield Point(some[0].at_ms, covered, rates, {}, last)


def _is_known(chart: Chart) -> bool:
    return any(map(_is_seen, chart.points))


def _is_seen(point: Point) -> bool:
    """Did anybody look?"""
    return point.rates is not None or point.last is not None


def _told(name: str) -> Callable[[float | None], str]:
    return (lambda value: "-" if value is None else human_bytes(value)) if name in _BYTES else number


def _grown(points: Sequence[Point], name: str) -> float:
    return sum(point.rates.get(name, 0.0) * point.covered_ms / 1_000 for point in points if point.rates)


def _most(values: Sequence[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


def _last(values: Sequence[float | None]) -> float | None:
    return next((value for value in reversed(values) if value is not None), None)


def _when(at_ms: int) -> str:
    return f"{datetime.fromtimestamp(at_ms / 1_000, UTC):%Y-%m-%d %H:%M:%S}"
