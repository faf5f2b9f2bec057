"""What the documentation lists, held against the source."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from pydantic.fields import FieldInfo

from shoal.cli.main import app
from shoal.core.model import ALL_QUEUES, Counters, Outcome
from shoal.core.retry import RETRIED_REASONS, RetryPolicy
from shoal.core.spec import JobSpec
from shoal.core.url import parse
from shoal.frontier.keys import KEYS
from shoal.frontier.scripts import OPERATIONS
from shoal.settings import Settings
from shoal.store.tables import metadata
from tests.documents import REPOSITORY, anchors, blocks, documents, links, plain, table

SOURCE = REPOSITORY / "src" / "shoal"
LUA = SOURCE / "frontier" / "lua"
ARCHITECTURE = "docs/architecture.md"
JOB_FILE = "docs/guides/job-file.md"
WORKERS = "docs/guides/workers.md"
RESULTS = "docs/guides/results-and-archive.md"
ERRORS = "docs/guides/errors.md"
URLS = "docs/guides/urls.md"


def _default(field: FieldInfo) -> str:
    """A default as the tables write it."""
    value = field.get_default(call_default_factory=True, validated_data={})
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return "[]"
    return '""' if value == "" else str(value)


def test_the_job_file_guide_has_every_setting_with_its_default() -> None:
    written = {plain(row[0]): plain(row[1]) for row in table(JOB_FILE, "setting", "default")}
    assert written == {name: _default(field) for name, field in JobSpec.model_fields.items()}


def test_the_workers_guide_has_every_variable_with_its_default() -> None:
    written = {plain(row[0]): plain(row[1]) for row in table(WORKERS, "variable", "default")}
    unset = {"null": "none", '""': "none"}
    defaults = {f"SHOAL_{name.upper()}": _default(field) for name, field in Settings.model_fields.items()}
    assert written == {name: unset.get(default, default) for name, default in defaults.items()}


def test_the_workers_guide_has_every_queue() -> None:
    assert tuple(plain(row[0]) for row in table(WORKERS, "queue", "for")) == ALL_QUEUES


def test_the_architecture_has_every_key() -> None:
    written = table(ARCHITECTURE, "key", "type", "holds", "lives")
    assert written == [(f"`{key.pattern}`", key.type, key.holds, key.lifetime) for key in KEYS]


def test_the_architecture_has_every_operation() -> None:
    assert sorted(plain(row[0]) for row in table(ARCHITECTURE, "operation", "does")) == list(OPERATIONS)


def test_the_architecture_draws_the_tree_as_it_is() -> None:
    (tree,) = (block.text for block in blocks(REPOSITORY / ARCHITECTURE) if block.text.startswith("src/shoal/\n"))
    modules = {path.relative_to(SOURCE) for path in SOURCE.rglob("*.py") if path.name != "__init__.py"}
    shown = {Path(path) for path in _drawn(tree)}
    assert {path for path in shown if path.suffix} == {p for p in modules if "migrations" not in p.parts}
    assert {path for path in shown if not path.suffix} <= {p.parent.relative_to(SOURCE) for p in SOURCE.rglob("*")}


def _drawn(tree: str) -> Iterator[str]:
    folder = ""
    for line in tree.splitlines()[1:]:
        name = line.split()[0]
        inner = line.startswith("    ")
        folder = folder if inner else ""
        yield folder + name.rstrip("/")
        if name.endswith("/") and not inner:
            folder = name


def test_the_results_guide_has_every_table_and_column() -> None:
    written = {plain(row[0]): re.findall(r"`(\w+)`", row[1]) for row in table(RESULTS, "table", "columns")}
    assert written == {each.name: [column.name for column in each.columns] for each in metadata.sorted_tables}


def test_the_results_guide_has_every_counter() -> None:
    written = [name for row in table(RESULTS, "counter") for name in re.findall(r"`(\w+)`", row[0])]
    assert sorted(written) == sorted(Counters.__slots__)


def test_the_urls_guide_tells_the_truth() -> None:
    for written, canonical in table(URLS, "written", "canonical"):
        assert str(parse(plain(written))) == plain(canonical)


# --- reasons --------------------------------------------------------------------------------------------------------


def _known_reasons() -> set[str]:
    """Every reason that the source can give; those with a status as `http_`."""
    found = set(RETRIED_REASONS) | {name for text in _lua() for name in re.findall(r"reasons\['(\w+)'\]", text)}
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            for place in _places(node):
                found |= {text for text in _texts(place) if re.fullmatch(r"[a-z]+(_[a-z]*)*", text)}
    found.remove("redirect_")
    return found | {f"redirect_{reason}" for reason in _refusals()}


def _lua() -> list[str]:
    return [path.read_text(encoding="utf-8") for path in LUA.glob("*.lua")]


def _places(node: ast.AST) -> Iterator[ast.expr]:
    """Where a reason can stand: the first argument of FetchError, the second of Rejected, `reason=`, `_REASONS`."""
    if isinstance(node, ast.Call):
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        position = {"FetchError": 0, "Rejected": 1}.get(name)
        if position is not None and len(node.args) > position:
            yield node.args[position]
        yield from (keyword.value for keyword in node.keywords if keyword.arg == "reason")
    elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id == "_REASONS":
        yield from ([node.value] if node.value else [])
    elif isinstance(node, ast.FunctionDef) and node.name.endswith(("_reason", "refuses")):
        yield from (each.value for each in ast.walk(node) if isinstance(each, ast.Return) and each.value)


def _texts(node: ast.expr) -> set[str]:
    return {each.value for each in ast.walk(node) if isinstance(each, ast.Constant) and isinstance(each.value, str)}


def _refusals() -> set[str]:
    tree = ast.parse((SOURCE / "core" / "scope.py").read_text(encoding="utf-8"))
    (refuses,) = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == "refuses")
    return {text for place in _places(refuses) for text in _texts(place)}


def _written_reasons() -> list[str]:
    return [plain(row[0]) for row in table(ERRORS, "reason")]


def test_the_errors_guide_has_every_reason_once() -> None:
    written = _written_reasons()
    assert len(set(written)) == len(written)
    assert {"http_" if reason.startswith("http_") else reason for reason in written} == _known_reasons()


def test_the_errors_guide_says_what_is_retried() -> None:
    for reason, retried, *_ in table(ERRORS, "reason", "retried"):
        example = plain(reason).replace("4xx", "404").replace("3xx", "304").replace("5xx", "500")
        outcome = RetryPolicy().decide(example, attempt=0).outcome
        assert retried == ("yes" if outcome is Outcome.RETRY else "no"), reason


def test_the_errors_guide_lists_the_statuses_that_differ_from_their_kind() -> None:
    written = set(_written_reasons())
    policy = RetryPolicy()
    for status in range(400, 600):
        kind = Outcome.RETRY if status >= 500 else Outcome.DEAD
        differs = policy.decide(f"http_{status}", attempt=0).outcome is not kind
        assert (f"http_{status}" in written) == differs


# --- the whole ------------------------------------------------------------------------------------------------------


def test_every_command_is_mentioned() -> None:
    commands = [command.name or getattr(command.callback, "__name__", "") for command in app.registered_commands]
    text = "\n".join(path.read_text(encoding="utf-8") for path in documents())
    assert "crawl" in commands
    assert [name for name in commands if f"shoal {name}" not in text] == []


@pytest.mark.parametrize("path", documents(), ids=lambda path: str(path.relative_to(REPOSITORY)))
def test_relative_links_resolve(path: Path) -> None:
    for link in links(path):
        if re.match(r"https?://", link):
            continue
        file, _, anchor = link.partition("#")
        target = (path.parent / file).resolve() if file else path
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


def test_every_page_can_be_reached_from_the_index() -> None:
    index = REPOSITORY / "docs" / "README.md"
    linked = {(index.parent / link.partition("#")[0]).resolve() for link in links(index)}
    assert {path for path in documents() if "docs" in path.relative_to(REPOSITORY).parts} - linked == {index}


def test_decisions_are_numbered_without_a_gap_and_have_their_three_parts() -> None:
    decisions = sorted((REPOSITORY / "docs" / "adr").glob("*.md"))
    numbers = [int(path.name[:4]) for path in decisions]
    assert numbers[0] == 1
    assert all(after == before + 1 for before, after in pairwise(numbers))
    for path in decisions:
        assert {"context", "decision", "consequences"} <= anchors(path)


def test_the_picture_fetches_nothing_from_the_web() -> None:
    svg = (REPOSITORY / "docs" / "progress.svg").read_text(encoding="utf-8")
    assert "@font-face" not in svg
    assert re.findall(r"https?://[^\"]+", svg) == ["http://www.w3.org/2000/svg"]
    assert all(target.startswith("#") for target in re.findall(r"url\(([^)]*)\)", svg))
