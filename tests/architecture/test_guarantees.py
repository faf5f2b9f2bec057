"""The page of guarantees names what proves them: it must be there."""

from __future__ import annotations

import ast
import re

from shoal.drill.kind import Kind
from tests.documents import REPOSITORY, plain, table

PAGE = "docs/guarantees.md"


def _tests() -> set[str]:
    return {
        node.name
        for path in (REPOSITORY / "tests").rglob("test_*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef)
    }


def test_every_test_that_is_named_exists() -> None:
    named = {name for *_, proof in table(PAGE, "guarantee", "fault") for name in re.findall(r"`(test_\w+)`", proof)}
    assert named
    assert named - _tests() == set()


def test_every_guarantee_has_its_proof() -> None:
    for guarantee, fault, proof in table(PAGE, "guarantee", "fault", "shown by"):
        assert guarantee.endswith(".")
        assert fault
        assert "drill: " in proof or "`test_" in proof, guarantee


def test_every_fault_of_the_drill_is_explained() -> None:
    assert [plain(row[0]) for row in table(PAGE, "fault", "what happens")] == [kind.value for kind in Kind]
