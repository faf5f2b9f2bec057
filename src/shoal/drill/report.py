"""Verdicts for people, as tables, and for programs, as one document."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shoal.core.frozen import frozen
from shoal.drill.evidence import Evidence
from shoal.drill.verdict import Recovery, Verdict

Cells = tuple[str, ...]
SUMMARY: Cells = (
    *("seed", "faults", "URLs", "lost", "doubled", "refetched", "leased anew", "rates kept", "reconciles"),
    *("longest recovery", "time", "holds"),
)


@frozen
class Run:
    """A run that was judged."""

    evidence: Evidence
    verdict: Verdict

    @property
    def seconds(self) -> float:
        return self.evidence.ended - self.evidence.began


def fault_table(run: Run) -> str:
    """Each fault: its moment, what, and how long it was felt."""
    rows = [("moment", "progress", "fault", "lasted", "leased", "recovery", "")]
    rows += [_fault_row(run, recovery) for recovery in run.verdict.recoveries]
    return _aligned(rows)


def _fault_row(run: Run, recovery: Recovery) -> Cells:
    fault = recovery.fault
    whom = "" if fault.worker is None else f" {fault.worker + 1}"
    return (
        f"{fault.began - run.evidence.began:.1f} s",
        f"{fault.progress:.0%}",
        f"{fault.kind}{whom}",
        f"{fault.ended - fault.began:.1f} s",
        str(len(fault.held)),
        _seconds(recovery.seconds),
        fault.note,
    )


def verdict_table(run: Run) -> str:
    """What was promised, and what was found."""
    found, plan = run.verdict, run.evidence.plan
    worst = found.worst.describe() if found.worst else "nothing was asked"
    return _aligned(
        [
            ("URLs", str(found.urls), f"{plan.submitted} submitted, the others found by links"),
            ("stored", str(found.stored), f"{len(run.evidence.unreadable)} without their bytes"),
            ("lost", str(len(found.lost)), ""),
            ("doubled", str(len(found.doubled)), ""),
            ("refetched", str(found.refetched), _reasons(found)),
            ("rates kept", _yes(found.rates_kept), f"worst: {worst}"),
            ("reconciles", _yes(found.reconciles), ""),
            ("longest recovery", _seconds(found.longest_s), f"at most {plan.most_recovery_s:g} s"),
            ("late, refused", str(run.evidence.late), f"{run.evidence.reaped} leases ran out"),
        ]
    )


def _reasons(found: Verdict) -> str:
    anew, without = len(found.leased_anew), len(found.unexplained)
    return f"{found.leased} leased at a fault, {anew} leased again by an older Redis, {without} without a reason"


def summary_table(runs: Sequence[Run]) -> str:
    """A line for each run."""
    rows: list[Cells] = [SUMMARY]
    for run in runs:
        found = run.verdict
        rows.append(
            (
                str(run.evidence.plan.seed),
                str(len(run.evidence.faults)),
                str(found.urls),
                str(len(found.lost)),
                str(len(found.doubled)),
                str(found.refetched),
                str(len(found.leased_anew)),
                _yes(found.rates_kept),
                _yes(found.reconciles),
                _seconds(found.longest_s),
                f"{run.seconds:.0f} s",
                _yes(found.holds),
            )
        )
    return _aligned(rows)


def run_json(run: Run) -> dict[str, Any]:
    """The same for programs."""
    found, evidence = run.verdict, run.evidence
    return {
        "seed": evidence.plan.seed,
        "holds": found.holds,
        "problems": list(found.problems),
        "seconds": round(run.seconds, 2),
        "urls": found.urls,
        "stored": found.stored,
        "lost": list(found.lost),
        "doubled": list(found.doubled),
        "refetched": found.refetched,
        "leased_anew": list(found.leased_anew),
        "unexplained": list(found.unexplained),
        "rates_kept": found.rates_kept,
        "worst_excess": round(found.worst.excess, 3) if found.worst else None,
        "reconciles": found.reconciles,
        "longest_recovery_s": _rounded(found.longest_s),
        "late": evidence.late,
        "reaped": evidence.reaped,
        "unasked": list(evidence.unasked),
        "faults": [_fault_json(run, recovery) for recovery in found.recoveries],
    }


def _fault_json(run: Run, recovery: Recovery) -> dict[str, Any]:
    fault = recovery.fault
    return {
        "fault": fault.kind.value,
        "worker": None if fault.worker is None else fault.worker + 1,
        "at_s": round(fault.began - run.evidence.began, 2),
        "progress": round(fault.progress, 3),
        "lasted_s": round(fault.ended - fault.began, 2),
        "leased": len(fault.held),
        "recovery_s": _rounded(recovery.seconds),
        "note": fault.note,
    }


def _aligned(rows: Sequence[Cells]) -> str:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
    return "\n".join(f"  {line}".rstrip() for line in lines)


def _yes(holds: bool) -> str:
    return "yes" if holds else "NO"


def _seconds(seconds: float | None) -> str:
    return "never" if seconds is None else f"{seconds:.1f} s"


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 2)
