"""Rules of the source tree that no other tool checks."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parent.parent.parent / "src" / "shoal"
ENVIRONMENT_READERS = {"settings.py", "cli/children.py", "cli/forked.py", "api/serve.py"}
"""Settings reads the variables; a command hands them on to its children; Prometheus' client knows no other way."""


def _files() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(SOURCE.rglob("*.py")):
        yield str(path.relative_to(SOURCE)), ast.parse(path.read_text())


def _uses(tree: ast.Module, module: str, name: str) -> bool:
    return any(
        isinstance(node, ast.Attribute)
        and node.attr == name
        and isinstance(node.value, ast.Name)
        and node.value.id == module
        for node in ast.walk(tree)
    )


def test_only_settings_read_the_environment() -> None:
    assert {name for name, tree in _files() if _uses(tree, "os", "environ")} == ENVIRONMENT_READERS


def test_async_lives_in_the_slice_and_the_fetchers_only() -> None:
    found = {
        name.split("/")[0]
        for name, tree in _files()
        if any(isinstance(node, ast.AsyncFunctionDef) for node in ast.walk(tree))
    }
    assert found == {"fetch", "render", "webhooks", "worker"}  # webhooks ask the web as well, many at once


def test_nobody_waits_with_a_call_that_swallows_cancellations() -> None:
    assert [name for name, tree in _files() if "wait_for" in {_called(node) for node in ast.walk(tree)}] == []


def _called(node: ast.AST) -> str:
    return node.func.attr if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else ""


def test_threads_that_use_an_object_store_first_at_the_same_time_find_its_library_whole() -> None:
    """It is broken for the second of two threads that import its parts, unless they wait for a module of ours."""
    importers = {
        name
        for name, tree in _files()
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        and not _is_for_types(tree, node)
        and "obstore" in _imported(node)
    }
    assert importers == {"store/obstore_whole.py"}


def _imported(node: ast.Import | ast.ImportFrom) -> set[str]:
    names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
    return {name.partition(".")[0] for name in names}


def _is_for_types(tree: ast.Module, node: ast.stmt) -> bool:
    guards = [each for each in tree.body if isinstance(each, ast.If) and ast.unparse(each.test) == "TYPE_CHECKING"]
    return any(node in guard.body for guard in guards)


def test_every_module_says_what_it_is() -> None:
    assert [name for name, tree in _files() if not ast.get_docstring(tree)] == []


def test_no_function_has_become_the_place_where_everything_lands() -> None:
    long = [
        f"{name}:{node.lineno} {node.name}"
        for name, tree in _files()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and (node.end_lineno or 0) - node.lineno > 60
    ]
    assert long == []
