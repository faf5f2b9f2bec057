"""What Shoal is measured against knows nothing of Shoal: only what belongs to a stack is measured with it."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.launch import SCRIPTS

OURS = {"shoal", "benchmarks", "tests"}


def _imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (name.name.partition(".")[0] for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield "benchmarks" if node.level else (node.module or "").partition(".")[0]


def test_there_are_contenders() -> None:
    assert len([*SCRIPTS.glob("*.py")]) > 5


@pytest.mark.parametrize("path", sorted(SCRIPTS.glob("*.py")), ids=lambda path: path.name)
def test_a_contender_imports_neither_shoal_nor_the_meter(path: Path) -> None:
    assert OURS.isdisjoint(_imported(path))
