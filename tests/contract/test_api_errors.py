"""What goes wrong is told as a problem, never as a stack trace, and every answer carries what it must."""

from __future__ import annotations

from collections.abc import Callable, Generator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import structlog
from flask import Response, abort

from shoal import errors
from shoal.api import auth
from shoal.core.access import Permission
from shoal.core.flaws import Flaw
from shoal.core.spec import JobSpec
from shoal.intake.intake import Full
from tests.contract.api import Desk, a_desk, refused, told


@pytest.fixture
def desk(valkey_url: str, tmp_path: Path) -> Generator[Desk]:
    with a_desk(valkey_url, tmp_path) as desk:
        yield desk


@pytest.fixture
def failing(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> Callable[[Exception], Any]:
    """An answer of a view that fails with this."""
    raised: list[Exception] = []

    def view() -> Response:
        raise raised[-1]

    desk.app.add_url_rule("/failing", "failing", view)
    monkeypatch.setitem(auth.RULES, "failing", Permission.READ)

    def ask(exc: Exception) -> Any:
        raised.append(exc)
        return desk.get("/failing")

    return ask


@pytest.mark.parametrize(
    "path", ["/nothing", "/api", "/api/v1", "/api/v2/jobs", "/v1/jobs", "/api/v1/jobs/x/y/z", "/%ff"]
)
def test_what_is_not_there_is_told_as_a_problem(desk: Desk, path: str) -> None:
    problem = refused(desk.get(path), 404)
    assert problem["type"] == "about:blank"
    assert "/openapi/" in problem["detail"]


def test_a_method_that_is_not_possible_names_those_that_are(desk: Desk) -> None:
    answer = desk.ask("PUT", "jobs")
    problem = refused(answer, 405)
    assert {"GET", "POST"} <= set(answer.headers["Allow"].split(", "))
    assert "POST" in problem["detail"]
    for method in ("TRACE", "PROPFIND", "CONNECT", "X"):
        refused(desk.ask(method, "/healthz"), 405)


def test_a_mistake_of_our_own_tells_nothing_but_where_to_look(
    desk: Desk, failing: Callable[[Exception], Any], capfd: pytest.CaptureFixture[str]
) -> None:
    with structlog.testing.capture_logs() as logs:
        answer = failing(RuntimeError("the secret recipe of line 42"))
    problem = refused(answer, 500)
    body = answer.get_data(as_text=True)
    for word in ("secret", "recipe", "RuntimeError", "Traceback", ".py", "line 42"):
        assert word not in body
    (entry,) = [entry for entry in logs if entry["event"] == "request_failed"]
    assert isinstance(entry["exc_info"], RuntimeError)
    assert (entry["path"], entry["method"]) == ("/failing", "GET")
    assert problem["request_id"] == answer.headers["X-Request-ID"]


def test_the_log_of_a_mistake_has_the_request_id(desk: Desk, failing: Callable[[Exception], Any]) -> None:
    seen: list[dict[str, Any]] = []

    def keep(_logger: object, _name: str, entry: Any) -> Any:
        seen.append(dict(entry))
        raise structlog.DropEvent

    structlog.configure(processors=[structlog.contextvars.merge_contextvars, keep])
    try:
        answer = failing(RuntimeError("x"))
    finally:
        structlog.reset_defaults()
    assert {entry["request_id"] for entry in seen} == {answer.headers["X-Request-ID"]}
    assert {entry["event"] for entry in seen} == {"request_failed", "request"}


@pytest.mark.parametrize(
    ("exc", "status"),
    [
        (errors.InputError("bad"), 422),
        (errors.BadUrl("bad"), 422),
        (errors.BadUrls("bad", ((3, "no URL"),)), 422),
        (errors.BadSpec("bad"), 422),
        (errors.NotFound("bad"), 404),
        (errors.Conflict("bad"), 409),
        (errors.Busy("bad", timedelta(seconds=7.2)), 429),
        (Full("bad"), 429),
        (errors.Unavailable("bad"), 503),
        (errors.RedisUnavailable("bad"), 503),
        (errors.StoreUnavailable("bad"), 503),
        (errors.ArchiveUnavailable("bad"), 503),
        (errors.Unfinished("job1", errors.RedisUnavailable("bad")), 503),
        (errors.RowRefused("bad"), 500),
        (errors.FetchError("timeout"), 500),
        (errors.ShoalError("bad"), 500),
        (KeyError("bad"), 500),
        (RecursionError("bad"), 500),
        (MemoryError("bad"), 500),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else str(value),
)
def test_every_error_has_its_status(failing: Callable[[Exception], Any], exc: Exception, status: int) -> None:
    answer = failing(exc)
    problem = refused(answer, status)
    if status in (429, 503):
        assert int(answer.headers["Retry-After"]) > 0
    if status == 422:
        assert problem["errors"]
    if isinstance(exc, errors.Busy) and not isinstance(exc, Full):
        assert answer.headers["Retry-After"] == "8"
    if isinstance(exc, errors.Unfinished):
        assert problem["job"] == "job1"


def test_every_error_of_ours_is_answered_on_purpose(failing: Callable[[Exception], Any]) -> None:
    """A new one must not become a mistake of our own by oversight."""
    of_workers = {errors.RowRefused, errors.LenderGone, errors.Undelivered, errors.FetchError}
    known = {errors.ShoalError, *of_workers, *_descendants(errors.FetchError)}
    for kind in _descendants(errors.ShoalError) - known:
        exc = kind.__new__(kind)
        Exception.__init__(exc, "made for a test")
        parts = {"problems": ((0, "x"),), "retry_after": timedelta(seconds=1), "job": "j", "added": None}
        for name, value in {**parts, "field": "f", "flaw": Flaw("f", "x")}.items():
            setattr(exc, name, value)
        assert failing(exc).status_code != 500, kind


def _descendants(kind: type[Exception]) -> set[type[Exception]]:
    found: set[type[Exception]] = set()
    for child in kind.__subclasses__():
        found |= {child, *_descendants(child)}
    return {child for child in found if child.__module__.startswith("shoal.")}


@pytest.mark.parametrize("status", [400, 403, 410, 418, 500, 501, 503])
def test_any_other_status_is_a_problem_as_well(desk: Desk, monkeypatch: pytest.MonkeyPatch, status: int) -> None:
    desk.app.add_url_rule("/aborting", "aborting", lambda: abort(status))
    monkeypatch.setitem(auth.RULES, "aborting", Permission.READ)
    refused(desk.get("/aborting"), status)


def test_a_database_that_refuses_is_told_without_its_statement(desk: Desk) -> None:
    import sqlalchemy as sa

    with desk.platform.engine.begin() as connection:
        connection.execute(sa.text("DROP TABLE jobs"))
    for answer in (desk.get("jobs"), desk.post("jobs", {"urls": ["http://a.example/"]})):
        text = str(refused(answer, 503))
        assert "SELECT" not in text
        assert "INSERT" not in text


@pytest.mark.parametrize("path", ["jobs/", "/healthz/", "/api/v1/jobs/"])
def test_a_slash_at_the_end_makes_no_difference(desk: Desk, path: str) -> None:
    told(desk.get(path))


def test_every_answer_carries_what_keeps_it_safe(desk: Desk) -> None:
    job = desk.submit("http://a.example/")
    for answer in (
        desk.get("jobs"),
        desk.get(f"jobs/{job}/export"),
        desk.get("/nothing"),
        desk.get("/metrics"),
        desk.delete(f"jobs/{job}"),
    ):
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Cache-Control"] == "no-store"
        assert answer.headers["X-Request-ID"]
        assert "Server" not in answer.headers


def test_head_is_get_without_a_body(desk: Desk) -> None:
    job = desk.submit("http://a.example/")
    for path in ("jobs", f"jobs/{job}", f"jobs/{job}/pages", "/healthz", "/metrics", f"jobs/{job}/export"):
        answer = desk.ask("HEAD", path)
        assert (answer.status_code, answer.get_data()) == (200, b"")


def test_a_mistake_in_the_middle_of_a_stream_ends_it(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """The status was sent long ago: a body that breaks off is the only way to tell."""

    def broken(*_: object) -> Any:
        raise errors.StoreUnavailable("gone")

    job = desk.submit("http://a.example/")
    monkeypatch.setattr(desk.platform.pages, "page_columns_after", broken)
    with pytest.raises(errors.StoreUnavailable):
        desk.get(f"jobs/{job}/export?format=csv").get_data()


def test_the_spec_of_a_request_and_of_a_file_are_the_same(desk: Desk) -> None:
    document = told(desk.get("/openapi/openapi.json"))
    body = document["paths"]["/api/v1/jobs"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    name = body["$ref"].rpartition("/")[2]
    assert set(document["components"]["schemas"][name]["properties"]) == set(JobSpec.model_fields)
