"""The tables of a drill stay within a terminal's width, whatever has come."""

from __future__ import annotations

from dataclasses import replace

from shoal.drill.evidence import Injected
from shoal.drill.kind import Kind
from shoal.drill.report import Run, fault_table, summary_table, verdict_table
from shoal.drill.verdict import judge
from tests.unit.drill.test_verdict import GOOD

WIDTH = 120


def test_the_tables_fit_on_a_terminal() -> None:
    worker = {kind: 63 if kind.has_victim else None for kind in Kind}
    faults = tuple(
        Injected(kind, worker[kind], 100.0, 1_100.0, frozenset(), 0.99, 0, "exit code 143 after 1000.0 s")
        for kind in Kind
    )
    run = Run(evidence := replace(GOOD, faults=faults), judge(evidence))
    tables = f"{fault_table(run)}\n{verdict_table(run)}\n{summary_table([run])}"
    for kind in Kind:
        assert kind in tables
    assert max(map(len, tables.splitlines())) <= WIDTH
