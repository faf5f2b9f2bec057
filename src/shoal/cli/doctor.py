"""The command that looks for what is wrong: findings by area, each with what it means and the command that mends it."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlsplit

import typer

from shoal.cli import options as opt
from shoal.cli.talk import counted, print_json, show
from shoal.doctor.environment import read_what_is_valid

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from shoal.doctor.finding import Finding

Site = Annotated[
    str | None,
    typer.Argument(help="A site that you want to crawl: is it found, and may it be asked?", show_default=False),
]
All = Annotated[bool, typer.Option("--all", envvar="SHOAL_DOCTOR_ALL", help="Show also what is well.")]
SIGNS = {"ok": "✓", "note": "·", "warning": "!", "error": "✗"}


def doctor(site: Site = None, show_all: All = False, json: opt.Json = False) -> None:
    """Look for what is wrong: settings, Redis, broker, workers, database, disks, browser, network, clocks.

    Each finding comes with what it means and the command that mends it. Nothing is changed and nothing started. The
    exit code is 1 when something does not work.

    shoal doctor https://books.example/ --json
    """
    from shoal.doctor.checkup import check_up
    from shoal.doctor.ground import Ground

    findings = check_up(Ground.of(read_what_is_valid(), _flag_variables, _host_of(site or "")))
    if json:
        print_json({"well": not _has(findings, "error"), "findings": [finding.record for finding in findings]})
    else:
        show("\n".join(_lines(findings, everything=show_all)))
    raise typer.Exit(1 if _has(findings, "error") else 0)


def _host_of(site: str) -> str:
    """The host of a URL, or the host itself."""
    return urlsplit(site if "://" in site else f"//{site}").hostname or ""


def _flag_variables() -> frozenset[str]:
    """The twins of all flags of all commands."""
    from shoal.cli.commands import PANELS, load

    found = set[str]()
    commands: list[Any] = [load(entry) for entries in PANELS.values() for entry in entries]
    while commands:
        command = commands.pop()
        commands += getattr(command, "commands", {}).values()
        for parameter in command.params:
            twins = parameter.envvar or ()
            found.update([twins] if isinstance(twins, str) else twins)
    return frozenset(found)


def _has(findings: Iterable[Finding], level: str) -> bool:
    return any(finding.level == level for finding in findings)


def _lines(findings: list[Finding], *, everything: bool) -> Iterator[str]:
    for area, group in groupby(findings, key=lambda finding: finding.area):
        found = list(group)
        bad = [finding for finding in found if finding.level in ("warning", "error")]
        worst = max(bad, key=_weight, default=found[0])
        yield f"{SIGNS[worst.level]} {area.value}"
        for finding in found if everything or not bad else bad:
            yield from _told(finding)
    yield ""
    errors, warnings = (sum(finding.level == level for finding in findings) for level in ("error", "warning"))
    yield f"{counted(errors, 'error')}, {counted(warnings, 'warning')}"


def _weight(finding: Finding) -> int:
    return list(SIGNS).index(finding.level)


def _told(finding: Finding) -> Iterator[str]:
    yield f"  {SIGNS[finding.level]} {finding.what}"
    if finding.means:
        yield f"    {finding.means}"
    if finding.mend:
        yield f"    → {finding.mend}"
