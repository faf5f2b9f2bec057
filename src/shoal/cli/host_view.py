"""What the commands about hosts do: list, show, set, take back."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from shoal.cli.host_audit import human_rate
from shoal.cli.talk import cells, human_seconds, print_json, say, show
from shoal.core.flaws import flaws_of
from shoal.core.frozen import frozen
from shoal.core.host_status import Decision, HostStatus
from shoal.core.robots import parse
from shoal.core.spec import Parallel, Rate
from shoal.errors import InputError
from shoal.frontier.host_change import KEEP, HostChange
from shoal.hosts import Before, HostReport
from shoal.settings import read_settings
from shoal.store.export import iso, limit
from shoal.store.host_limits import HostLimit
from shoal.store.robots import RobotsStore
from shoal.wiring import Platform, open_platform

AT_ONCE = 1_000
NONE = "none"
"""What takes a single limit back."""


def list_hosts(state: str | None, limit: int, *, json: bool) -> None:
    """List hosts, the last used first."""
    with open_platform(read_settings()) as platform:
        reports = _find(platform, state, limit)
    if json:
        print_json([report_json(report) for report in reports])
    elif reports:
        _print_table(reports)
    elif state:
        say(f"no host is {state}")
    else:
        say("no host was asked lately, and nothing is set for any")


def _find(platform: Platform, state: str | None, limit: int) -> list[HostReport]:
    found: list[HostReport] = []
    place: Before | None = None
    while len(found) < limit:
        listing = platform.hosts.list(min(AT_ONCE, limit - len(found)), place, state)
        found += listing.reports
        place = listing.place
        if not listing.more:
            break
    return found


def show_host(host: str, *, json: bool) -> None:
    """Show all that is known of a host."""
    settings = read_settings()
    with open_platform(settings) as platform:
        report = platform.hosts.show(host)
        robots = robots_of(platform, report.status.host)
    if json:
        print_json({**report_json(report), "robots": robots})
    else:
        show("\n".join([*_lines(report, settings.hosts_file), *_robots_lines(robots)]))


def set_limits(host: str, change: HostChange, note: str | None, *, json: bool) -> None:
    """An operator's word on a host."""
    if change == HostChange() and note is None:
        raise InputError("nothing to set; for example: shoal hosts set shop.example --rate 30/m --parallel 1")
    with open_platform(read_settings()) as platform:
        report = platform.hosts.set(host, change, note)
    _tell(report, json=json)


def unset(host: str, *, json: bool) -> None:
    """Take the operator's word back."""
    with open_platform(read_settings()) as platform:
        report = platform.hosts.clear(host)
    _tell(report, json=json)


class Limits(BaseModel):
    """What can be set, as it is written; `none` takes a limit back."""

    model_config = ConfigDict(extra="forbid")

    rate: Rate | None = None
    parallel: Parallel | None = None


def read_change(rate: str | None, parallel: str | None, paused: bool | None, hold: float | None) -> HostChange:
    """The flags of `set` as a change; what is not given stays."""
    given = {"rate": rate, "parallel": parallel}
    values = {name: None if text == NONE else text for name, text in given.items() if text is not None}
    try:
        limits = Limits.model_validate(values)
    except ValidationError as exc:
        raise InputError(
            "\n".join(f"--{flaw.place}: {flaw.message}" for flaw in flaws_of(exc, values, Limits))
        ) from exc
    return HostChange(
        rate=(0.0 if limits.rate == "unlimited" else limits.rate) if "rate" in values else KEEP,
        parallel=(0 if limits.parallel == "unlimited" else limits.parallel) if "parallel" in values else KEEP,
        paused=KEEP if paused is None else paused,
        hold=KEEP if hold is None else timedelta(seconds=hold),
    )


# --- robots.txt ------------------------------------------------------------------------------------------------------


def robots_of(platform: Platform, host: str) -> list[dict[str, Any]]:
    """What is kept of the host's robots.txt, for each of its origins."""
    store = RobotsStore(platform.engine)
    copies = [copy for scheme in ("https", "http") if (copy := store.load(f"{scheme}://{host}")) is not None]
    return [
        {
            "origin": copy.origin,
            "status": copy.status,
            "version": copy.version,
            "fetched_at": iso(copy.fetched_ms),
            "sitemaps": list(parse(copy.body).sitemaps),
        }
        for copy in copies
    ]


def _robots_lines(robots: Sequence[dict[str, Any]]) -> list[str]:
    lines: list[str] = []
    for each in robots:
        lines.append(f"  robots.txt    {each['origin']}: {_robots_version(each)}, read {each['fetched_at']}")
        lines += [f"    sitemap     {url}" for url in each["sitemaps"]]
    return lines


def _robots_version(copy: Mapping[str, Any]) -> str:
    if copy["version"]:
        return f"version {copy['version']}"
    return f"{'an empty' if copy['status'] < 300 else 'no'} robots.txt ({copy['status']})"


# --- for people ------------------------------------------------------------------------------------------------------


def _tell(report: HostReport, *, json: bool) -> None:
    if json:
        print_json(report_json(report))
        return
    status = report.status
    say(f"{status.host}: {_limits(report)}; {status.state}")
    if report.filed and not report.filed.says_nothing:
        say(f"  the file of hosts says: {_word(report.filed)}")


def _print_table(reports: Sequence[HostReport]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD)
    for column in ("host", "state", "limits", "in flight", "latency", "lane", "reason"):
        table.add_column(
            column,
            overflow="fold",
            justify="right" if column in ("in flight", "latency") else "left",
            no_wrap=column == "host",
        )
    for report in reports:
        table.add_row(*cells(_cells(report)))
    Console().print(table)


def _cells(report: HostReport) -> tuple[str, ...]:
    status = report.status
    latency = "" if status.latency_ms is None else f"{status.latency_ms} ms"
    lane = status.lane.value if status.lane else ""
    why = f"{status.reason} ({_age(status.decisions[0])} ago)" if status.decisions else ""
    reason = "; ".join(filter(None, (report.note, why)))
    return (status.host, status.state, _limits(report), str(status.in_flight), latency, lane, reason)


def _limits(report: HostReport) -> str:
    """The limits that are known, and whose word they are; those of each job stand with the job."""
    status = report.status
    by_source: dict[str, list[str]] = {}
    if status.rate is not None:
        by_source.setdefault(report.rate_source, []).append(human_rate(status.rate))
    elif status.crawl_delay:
        by_source.setdefault(report.rate_source, []).append(f"one in {status.crawl_delay:g} s")
    if status.parallel is not None:
        by_source.setdefault(report.parallel_source, []).append(f"{limit(status.parallel)} at once")
    if status.pace is not None:
        by_source["throttle"] = [f"at most {human_rate(status.pace)}"]
    return ", ".join(f"{', '.join(limits)} ({source})" for source, limits in by_source.items()) or "as the jobs say"


def _word(said: HostLimit) -> str:
    parts = [
        "" if said.rate is None else human_rate(said.rate),
        "" if said.parallel is None else f"{limit(said.parallel)} at once",
        "paused" if said.paused else "",
        f"“{said.note}”" if said.note else "",
    ]
    return ", ".join(filter(None, parts)) or "nothing"


def _lines(report: HostReport, file: Path | None) -> list[str]:
    status = report.status
    facts = [_Fact("state", status.state), _Fact("limits", _limits(report))]
    for name, said, where in (("set", report.said, ""), ("in the file", report.filed, f" ({file})")):
        if said:
            facts.append(_Fact(name, f"{_word(said)}; since {iso(said.set_ms)}{where}"))
    facts += _treatment(status)
    decisions = [f"  {iso(each.at_ms)}  {each.what:<9}  {each.reason}" for each in status.decisions]
    return [
        status.host,
        *(f"  {fact.name:<13} {fact.value}" for fact in facts if fact.value),
        *(["decisions, the newest first", *decisions] if decisions else []),
    ]


@frozen
class _Fact:
    """A line of a description; without a value it is left out."""

    name: str
    value: str


def _treatment(status: HostStatus) -> list[_Fact]:
    """How the host is treated at this moment."""
    probe = f"{status.breaker.value}; next probe in {human_seconds(status.probe_in.total_seconds())}"
    return [
        _Fact("in flight", str(status.in_flight)),
        _Fact("latency", "" if status.latency_ms is None else f"{status.latency_ms} ms"),
        _Fact("lane", status.lane.value if status.lane else ""),
        _Fact("held for", human_seconds(status.hold.total_seconds()) if status.hold else ""),
        _Fact("next slot in", human_seconds(status.next_slot.total_seconds()) if status.next_slot else ""),
        _Fact("breaker", probe if status.breaker.value != "closed" else ""),
        _Fact("crawl delay", f"{status.crawl_delay:g} s" if status.crawl_delay else ""),
        _Fact("jobs at cap", str(status.waiting_jobs) if status.waiting_jobs else ""),
        _Fact("shares with", status.group),
        _Fact("address", status.address),
        _Fact("last used", iso(status.seen_ms) if status.seen_ms else ""),
    ]


def _age(decision: Decision) -> str:
    return human_seconds(max(0.0, time.time() - decision.at_ms / 1000))


# --- for programs ----------------------------------------------------------------------------------------------------


def report_json(report: HostReport) -> dict[str, Any]:
    """A host for programs: what the API says of it."""
    from shoal.api.present import host

    return host(report)
