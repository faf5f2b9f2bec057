"""The pages of guarantees and of security name what proves them: it must be there."""

from __future__ import annotations

import ast
import re

import pytest

from shoal.drill.kind import Kind
from tests.documents import REPOSITORY, plain, table

PAGE = "docs/guarantees.md"
SECURITY = "SECURITY.md"
PROMISES = [(PAGE, "guarantee", "fault"), (SECURITY, "promise", "against")]


def _tests() -> set[str]:
    return {
        node.name
        for path in (REPOSITORY / "tests").rglob("test_*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef)
    }


@pytest.mark.parametrize("head", PROMISES, ids=[page for page, *_ in PROMISES])
def test_every_test_that_is_named_exists(head: tuple[str, ...]) -> None:
    named = {name for *_, proof in table(*head) for name in re.findall(r"`(test_\w+)`", proof)}
    assert named
    assert named - _tests() == set()


@pytest.mark.parametrize("head", PROMISES, ids=[page for page, *_ in PROMISES])
def test_every_guarantee_has_its_proof(head: tuple[str, ...]) -> None:
    for guarantee, fault, proof in table(*head, "shown by"):
        assert guarantee.endswith(".")
        assert fault
        assert "drill: " in proof or "`test_" in proof, guarantee


def test_every_fault_of_the_drill_is_explained() -> None:
    assert [plain(row[0]) for row in table(PAGE, "fault", "what happens")] == [kind.value for kind in Kind]
