"""`shoal hosts audit`: the ledger of one host, added up for people, or entry by entry for programs."""

from __future__ import annotations

import sys
import time
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from math import isclose
from pathlib import Path
from typing import Any

from shoal.cli.output import open_writer
from shoal.cli.talk import counted
from shoal.core.frozen import frozen
from shoal.core.host_name import asked_host
from shoal.core.manners import most_within
from shoal.core.redact import visible
from shoal.core.values import read_moment
from shoal.errors import InputError
from shoal.home import make_home
from shoal.settings import read_settings
from shoal.store.export import ASK_COLUMNS, Record, ask_record, iso, limit
from shoal.store.ledger import Entry, Ledger, LimitInForce, Span, Summary
from shoal.upgrades import open_store

SHOWN_ENTRIES = 20
SHOWN_HOURS = 24
_ENDINGS = {".csv": "csv", ".jsonl": "jsonl", ".json": "json"}


@frozen
class Period:
    """From when to before when; None is open."""

    since_ms: int | None = None
    until_ms: int | None = None

    def __str__(self) -> str:
        since = f"since {iso(self.since_ms)}" if self.since_ms is not None else "since the ledger begins"
        return since if self.until_ms is None else f"{since} until {iso(self.until_ms)}"


def read_period(since: str | None, until: str | None) -> Period:
    """The times that were given, as ages or as dates."""
    period = Period(_read_time("--since", since), _read_time("--until", until))
    if period.since_ms is not None and period.until_ms is not None and period.since_ms >= period.until_ms:
        raise InputError(f"--since {since} is not before --until {until}")
    return period


def _read_time(flag: str, text: str | None) -> int | None:
    if text is None:
        return None
    try:
        return read_moment(text, time.time())
    except (ValueError, OverflowError) as exc:
        raise InputError(f"{flag} {text!r}: write an age such as 2h, or a time such as 2026-11-01T08:00") from exc


def read_kind(given: str | None, output: str, *, json: bool) -> str:
    """How to write it: as the flags say, else by the ending of the file."""
    if json and given not in (None, "json"):
        raise InputError(f"--json and --format {given}: give one of the two")
    return "json" if json else given or _kind_of(output)


def audit(host: str, period: Period, most: int | None, kind: str, output: str) -> None:
    """Print the ledger of a host."""
    name = asked_host(host)
    with _open_ledger() as ledger:
        if kind in ("csv", "jsonl"):
            with open_writer(output, kind, ASK_COLUMNS) as writer:
                writer.write(_records(_entries(ledger, name, period, most)))
            return
        summary = ledger.summary(name, period.since_ms, period.until_ms)
        last = ledger.newest(name, period.since_ms, period.until_ms, most or SHOWN_ENTRIES)
    if kind == "json":
        with open_writer(output, "jsonl", ()) as writer:
            writer.write([_summary_json(name, period, summary, last)])
    else:
        _write_text(output, _lines(name, period, summary, last))


@contextmanager
def _open_ledger() -> Generator[Ledger]:
    """The database is all that this needs: a complaint can be answered while Redis is down."""
    settings = read_settings()
    make_home(settings.home)
    engine = open_store(settings)
    try:
        yield Ledger(engine)
    finally:
        engine.dispose()


def _kind_of(output: str) -> str:
    return next((kind for ending, kind in _ENDINGS.items() if output.lower().endswith(ending)), "table")


def _entries(ledger: Ledger, host: str, period: Period, most: int | None) -> Iterator[Entry]:
    if most is not None:
        yield from ledger.newest(host, period.since_ms, period.until_ms, most)
        return
    for entries in ledger.batches(host, period.since_ms, period.until_ms):
        yield from entries


def _records(entries: Iterable[Entry]) -> Iterator[Record]:
    return (ask_record(entry.ask) for entry in entries)


def _write_text(output: str, lines: Sequence[str]) -> None:
    text = "\n".join(map(visible, lines)) + "\n"
    if output == "-":
        sys.stdout.write(text)
        return
    try:
        Path(output).expanduser().write_text(text, encoding="utf-8")
    except OSError as exc:
        raise InputError(f"cannot write {output}: {exc.strerror or exc}") from exc


# --- for people ------------------------------------------------------------------------------------------------------


def _lines(host: str, period: Period, summary: Summary, last: Sequence[Entry]) -> list[str]:
    if not summary.requests or summary.first_ms is None or summary.last_ms is None:
        return [f"{host} was not asked for anything {period}"]
    return [
        f"{host}: {counted(summary.requests, 'request')} {period}",
        f"  first, last       {iso(summary.first_ms)}, {iso(summary.last_ms)}",
        f"  most in a second  {summary.busiest_second}; the highest limit in force was {_bound(summary.limits)}",
        f"  most in a minute  {summary.busiest_minute}",
        f"  answers           {', '.join(f'{_status(s)} × {n}' for s, n in summary.statuses.items())}",
        *_section("limits in force", [(_limit(each), each.span) for each in summary.limits]),
        *_section("robots.txt", [(each.version or "none", each.span) for each in summary.robots]),
        *_section("jobs", [(each.job or "no job", each.span) for each in summary.jobs]),
        *_hours(summary.hours),
        f"the last {len(last)}" if len(last) > 1 else "the last one",
        *(_entry_line(entry) for entry in last),
    ]


def _section(title: str, found: Sequence[tuple[str, Span]]) -> list[str]:
    width = max((len(what) for what, _ in found), default=0)
    return [
        title,
        *(
            f"  {what:<{width}}  {counted(s.requests, 'request')}, {iso(s.first_ms)} to {iso(s.last_ms)}"
            for what, s in found
        ),
    ]


def _hours(hours: dict[int, int]) -> list[str]:
    shown = list(hours.items())[-SHOWN_HOURS:]
    return ["by the hour", *(f"  {iso(ms)[:13]}:00  {count}" for ms, count in shown)]


def _limit(each: LimitInForce) -> str:
    return f"{human_rate(each.rate)}, {limit(each.parallel)} at once ({each.source.value})"


def _highest(limits: Sequence[LimitInForce]) -> float:
    """The loosest rate that requests were made under."""
    rates = [each.rate for each in limits]
    return 0.0 if 0 in rates else max(rates, default=0.0)


def _bound(limits: Sequence[LimitInForce]) -> str:
    """That rate, and how many requests it allows within any second, where it allows but so many."""
    rate = _highest(limits)
    return f"{human_rate(rate)}, which allows {most_within(1, rate)}" if rate else human_rate(rate)


def human_rate(rate: float) -> str:
    """As people say it: 0.5 is 30/m, and 0 is unlimited. Three digits, in the first unit in which they are exact."""
    if rate == 0:
        return "unlimited"
    units = ((rate, "s"), (rate * 60, "m"), (rate * 3600, "h"))
    fitting = [(count, unit) for count, unit in units if count >= 1 - 1e-9] or [units[-1]]
    exact = [(count, unit) for count, unit in fitting if isclose(count, _three_digits(count))]
    count, unit = (exact or fitting)[0]
    return f"{_three_digits(count):g}/{unit}"


def _three_digits(number: float) -> float:
    return float(f"{number:.3g}")


def _entry_line(entry: Entry) -> str:
    ask = entry.ask
    reason = f"  {ask.reason}" if ask.reason else ""
    return f"  {iso(ask.at_ms)}  {_status(ask.status):>9}  {ask.job or '-'}  {ask.url}{reason}"


def _status(status: int) -> str:
    return str(status) if status else "no answer"


# --- for programs ----------------------------------------------------------------------------------------------------


def _summary_json(host: str, period: Period, summary: Summary, last: Sequence[Entry]) -> Record:
    return {
        "host": host,
        "since": _when(period.since_ms),
        "until": _when(period.until_ms),
        "requests": summary.requests,
        "first_at": _when(summary.first_ms),
        "last_at": _when(summary.last_ms),
        "busiest_second": summary.busiest_second,
        "allowed_in_a_second": most_within(1, rate) if (rate := _highest(summary.limits)) else None,
        "busiest_minute": summary.busiest_minute,
        "statuses": {str(status): count for status, count in summary.statuses.items()},
        "hours": {iso(ms): count for ms, count in summary.hours.items()},
        "limits": [
            {"rate": limit(e.rate), "parallel": limit(e.parallel), "source": e.source.value, **_span_json(e.span)}
            for e in summary.limits
        ],
        "robots": [{"version": each.version, **_span_json(each.span)} for each in summary.robots],
        "jobs": [{"job": each.job, **_span_json(each.span)} for each in summary.jobs],
        "entries": list(_records(last)),
    }


def _span_json(span: Span) -> dict[str, Any]:
    return {"requests": span.requests, "first_at": iso(span.first_ms), "last_at": iso(span.last_ms)}


def _when(ms: int | None) -> str | None:
    return None if ms is None else iso(ms)
