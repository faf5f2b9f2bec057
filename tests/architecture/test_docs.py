"""What the documentation lists, held against the source."""

from __future__ import annotations

import ast
import re
from collections.abc import Generator, Iterator
from datetime import timedelta
from inspect import signature
from itertools import pairwise
from pathlib import Path

import pytest
from flask import Flask
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from typer.core import TyperGroup
from typer.main import get_command

from shoal.api import auth, metrics, schemas, server, urllist
from shoal.api.app import SPARE_THREADS, make_api
from shoal.api.schemas import HostChangeBody, JobChange, ReplayBody, ScrapeBody
from shoal.api.scrape import MAX_SCRAPED
from shoal.cli.keys import create as create_key
from shoal.cli.main import app
from shoal.control import EDITABLE
from shoal.core.advice import QueueSample
from shoal.core.fleet import Load, QueueDepth, ShardFigures, WorkerBeat
from shoal.core.frozen import names_of
from shoal.core.host_status import HostStatus
from shoal.core.job_status import Counters
from shoal.core.model import Outcome
from shoal.core.retry import NOT_ASKED, RETRIED_REASONS, RetryPolicy
from shoal.core.reuse import REUSED
from shoal.core.spec import JobSpec
from shoal.core.trouble import Trouble
from shoal.core.url import MAX_URL_CHARS, parse
from shoal.frontier.frontier import Frontier
from shoal.frontier.keys import KEYS
from shoal.frontier.scripts import OPERATIONS, connect
from shoal.frontier.watch import Watch
from shoal.settings import SERVED_QUEUES, Settings
from shoal.staffing import Staffing
from shoal.store.tables import metadata
from shoal.wiring import Platform, no_ring, redis_urls
from tests.documents import MARKS, REPOSITORY, anchors, blocks, documents, links, plain, prose, table

SOURCE = REPOSITORY / "src" / "shoal"
LUA = SOURCE / "frontier" / "lua"
ARCHITECTURE = "docs/architecture.md"
JOB_FILE = "docs/guides/job-file.md"
WORKERS = "docs/guides/workers.md"
RESULTS = "docs/guides/results-and-archive.md"
ERRORS = "docs/guides/errors.md"
URLS = "docs/guides/urls.md"
API = "docs/guides/api.md"
METRICS = "docs/guides/metrics.md"
TRACING = "docs/guides/tracing.md"
NOBODY = "redis://127.0.0.1:1"
"""Where no Redis is: nothing here asks one."""


def _default(field: FieldInfo) -> str:
    """A default as the tables write it."""
    if field.is_required():
        return ""
    value = field.get_default(call_default_factory=True, validated_data={})
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return "[]"
    if value == {}:
        return "{}"
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
    assert tuple(plain(row[0]) for row in table(WORKERS, "queue", "for")) == SERVED_QUEUES


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
    folders: list[str] = []
    for line in tree.splitlines()[1:]:
        name = line.split()[0]
        folders = folders[: (len(line) - len(line.lstrip())) // 2 - 1]
        yield "".join(folders) + name.rstrip("/")
        if name.endswith("/"):
            folders.append(name)


def test_the_results_guide_has_every_table_and_column() -> None:
    written = {plain(row[0]): re.findall(r"`(\w+)`", row[1]) for row in table(RESULTS, "table", "columns")}
    assert written == {each.name: [column.name for column in each.columns] for each in metadata.sorted_tables}


def test_the_results_guide_has_every_counter() -> None:
    written = [name for row in table(RESULTS, "counter") for name in re.findall(r"`(\w+)`", row[0])]
    assert sorted(written) == sorted(names_of(Counters))


def test_the_urls_guide_tells_the_truth() -> None:
    for written, canonical in table(URLS, "written", "canonical"):
        assert str(parse(plain(written))) == plain(canonical)


# --- reasons --------------------------------------------------------------------------------------------------------


def _known_reasons() -> set[str]:
    """Every reason that the source can give; those with a status as `http_`."""
    found = {*RETRIED_REASONS, *NOT_ASKED, *REUSED}
    found |= {name for text in _lua() for name in re.findall(r"'(?:filtered:)?(over_\w+)'", text)}
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            for place in _places(node):
                found |= {text for text in _texts(place) if re.fullmatch(r"[a-z]+(_[a-z]*)*", text)}
    found.remove("redirect_")
    return found | {f"redirect_{reason}" for reason in _refusals()}


def _lua() -> list[str]:
    return [path.read_text(encoding="utf-8") for path in LUA.rglob("*.lua")]


def _places(node: ast.AST) -> Iterator[ast.expr]:
    """Where a reason can stand: an argument of these calls, `reason=`, `_REASONS`."""
    if isinstance(node, ast.Call):
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        position = {"FetchError": 0, "Rejected": 1, "put_off": 1, "handed_over": 1, "Settlement": 2}.get(name)
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


# --- the API --------------------------------------------------------------------------------------------------------

ASSETS = {"openapi.static", "swagger.static", "swagger.oauth2-redirect"}
"""Parts of a page, which nobody asks for by hand."""


@pytest.fixture
def api(tmp_path: Path) -> Generator[Flask]:
    """The application, without a server that it could ask."""
    settings = Settings(home=tmp_path, redis_url=NOBODY)
    platform = Platform.open(settings, Frontier.at(redis_urls(settings).frontier), no_ring)
    yield make_api(platform)
    platform.close()


def test_the_api_guide_has_every_route_with_its_scope(api: Flask) -> None:
    written = [(plain(method), plain(route), plain(scope)) for method, route, scope, _ in table(API, "method", "route")]
    rules = [rule for rule in api.url_map.iter_rules() if rule.endpoint not in ASSETS]
    served = [
        (method, rule.rule, _scope(rule.endpoint))
        for rule in rules
        for method in sorted((rule.methods or set()) - {"HEAD", "OPTIONS"})
    ]
    assert sorted(written) == sorted(served)
    assert {rule.endpoint for rule in rules} == {*auth.RULES, *auth.OPEN} - ASSETS


def _scope(endpoint: str) -> str:
    if endpoint in auth.OPEN:
        return "none"
    needed = auth.RULES[endpoint]
    return (needed.value if needed else "any") + (", fleet" if endpoint in auth.OF_ALL_TENANTS else "")


def test_the_api_guide_explains_every_status_that_the_api_describes(api: Flask) -> None:
    written = {row[0] for row in table(API, "status", "means")}
    described = api.test_client().get("/openapi/openapi.json").get_json()
    statuses = {
        status
        for path in described["paths"].values()
        for operation in path.values()
        for status in operation["responses"]
    }
    assert {status for status in statuses if int(status) >= 400} <= written


@pytest.mark.parametrize(
    ("head", "model"),
    [("setting of a scrape", ScrapeBody), ("setting of a host", HostChangeBody)],
    ids=["scrape", "host"],
)
def test_the_api_guide_has_every_field_of_a_body_with_its_default(head: str, model: type[BaseModel]) -> None:
    written = {plain(row[0]): plain(row[1]) for row in table(API, head, "default")}
    assert written == {name: _default(field) for name, field in model.model_fields.items()}


def test_the_api_guide_has_everything_that_can_be_changed() -> None:
    written = [plain(row[0]) for row in table(API, "can be changed")]
    assert sorted(written) == sorted(EDITABLE) == sorted(JobChange.model_fields)


def _fixed_limits() -> dict[str, object]:
    """Limits that no variable sets."""
    return {
        "characters of a URL": MAX_URL_CHARS,
        "bytes of a streamed line": urllist.MAX_LINE_BYTES,
        "labels of a job": _longest(JobSpec, "labels"),
        "rows of one answer": schemas.MAX_LIMIT,
        "items in the answer to a scrape": MAX_SCRAPED,
        "ids of one replay": _longest(ReplayBody, "ids"),
        "of these kept free of listeners": SPARE_THREADS,
        "requests a second of one key": signature(create_key).parameters["rate"].default,
        "bytes of the request line, and of a header": server.MAX_LINE_BYTES,
        "headers": server.MAX_HEADERS,
        "seconds of silence in the middle of a request": server.STALLED_S,
        "seconds for the request line and the headers": server.HEAD_S,
        "seconds for a body that is not streamed, and one more for each 16 KB that has come": server.BODY_S,
    }


def _longest(model: type[BaseModel], name: str) -> int:
    (longest,) = (each.max_length for each in model.model_fields[name].metadata if hasattr(each, "max_length"))
    return longest


def test_the_api_guide_has_the_limits_as_they_are() -> None:
    rows = table(API, "limit", "value", "set by")
    set_by = {plain(row[2]): plain(row[1]) for row in rows if row[2].startswith("`SHOAL_")}
    defaults = {f"SHOAL_{name.upper()}": _default(field) for name, field in Settings.model_fields.items()}
    assert set_by == {name: defaults[name] for name in set_by}
    wanted = [name for name in defaults if re.match(r"SHOAL_(FRONTIER|API)_(?!HOST|PORT|WORKERS)", name)]
    assert sorted(set_by) == sorted(wanted)
    fixed = {row[0]: plain(row[1]) for row in rows if not row[2].startswith("`SHOAL_")}
    assert fixed == {name: str(value) for name, value in _fixed_limits().items()}


class StillWatch(Watch):
    """A frontier with something of everything, and no Redis."""

    def load(self) -> Load:
        return Load(1, 1, 0)

    def shards(self) -> list[ShardFigures]:
        return [ShardFigures("a", 16, 1)]

    def queues(self) -> list[QueueDepth]:
        return [QueueDepth("http.high", 1, 1, 1, 1)]

    def counted(self) -> dict[str, int]:
        return {"done": 1, "dead:http_404": 1, "repaired:leases": 1, "outage:database": 1, "runs:skipped:missed": 1}

    def expired_leases(self) -> int:
        return 0

    def overdue(self) -> dict[str, timedelta]:
        return {"http.high": timedelta(seconds=1)}

    def samples(self, at_most: int = 1) -> list[QueueSample]:
        return []

    def living_jobs(self) -> int:
        return 1

    def workers(self) -> list[WorkerBeat]:
        return []

    def troubles(self) -> tuple[Trouble, ...]:
        return ()

    def hosts(self, limit: int, before: tuple[int, str] | None = None) -> list[HostStatus]:
        rest = timedelta(seconds=1)
        return [HostStatus("books.example", None, None, False, rest, rest, 0, None, 0, 0)]


def test_the_metrics_guide_has_every_metric_with_its_labels() -> None:
    metrics.note("GET", "/", 200, 0.0)
    schedules = metrics.ScheduleFigures(lambda: {"active": 1}, lambda: 1.0)
    watch, staffing = StillWatch(connect(NOBODY)), Staffing(0)
    frontier = metrics.FrontierCollector(watch, 1, lambda: 1.0, schedules, lambda: (1, 1.0), staffing.look)
    families = [*metrics.REQUESTS.collect(), *metrics.LATENCY.collect(), *frontier.collect()]
    measured = {
        (family.name + ("_total" if family.type == "counter" else ""), family.type): {
            label for sample in family.samples for label in sample.labels if label != "le"
        }
        for family in families
    }
    written = {
        (plain(name), kind): set(re.findall(r"`(\w+)`", labels))
        for name, kind, labels, _ in table(METRICS, "metric", "type")
    }
    assert written == measured


# --- log lines ------------------------------------------------------------------------------------------------------


def _logged() -> Iterator[tuple[str, set[str]]]:
    """(event, its fields) of every line that the source logs."""
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and _is_log(node.func):
                (event,) = (text.value for text in node.args if isinstance(text, ast.Constant))
                yield str(event), {keyword.arg for keyword in node.keywords if keyword.arg} - {"exc_info"}


def _is_log(function: ast.expr) -> bool:
    return (
        isinstance(function, ast.Attribute)
        and function.attr in ("debug", "info", "warning", "error", "exception", "log")
        and isinstance(function.value, ast.Name)
        and function.value.id == "log"
    )


def test_the_tracing_guide_has_every_event_with_its_fields() -> None:
    written = {
        plain(row[0]): set(re.findall(r"`(\w+)`", row[2])) for row in table(TRACING, "event", "logged by", "fields")
    }
    logged = dict[str, set[str]]()
    for event, fields in _logged():
        logged[event] = logged.get(event, set()) | fields
    assert sorted(written) == sorted(logged)
    assert {event: fields - written[event] for event, fields in logged.items() if fields - written[event]} == {}


# --- the whole ------------------------------------------------------------------------------------------------------


def _commands(group: TyperGroup, start: str = "shoal") -> Iterator[str]:
    for name, command in group.commands.items():
        yield f"{start} {name}"
        if isinstance(command, TyperGroup):
            yield from _commands(command, f"{start} {name}")


def test_every_command_is_mentioned() -> None:
    group = get_command(app)
    assert isinstance(group, TyperGroup)
    commands = list(_commands(group))
    text = "\n".join(path.read_text(encoding="utf-8") for path in documents())
    assert {"shoal crawl", "shoal keys create"} <= set(commands)
    assert [name for name in commands if name not in text] == []


def test_every_mark_is_one_that_the_tests_know() -> None:
    """A misspelt one would leave its block out."""
    for path in documents():
        marks = {line for line in prose(path) if line.startswith("<!--") and "run" in line}
        assert marks <= set(MARKS), path


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
