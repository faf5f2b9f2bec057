"""Every route of the API has a rule: who may use it, and what the OpenAPI document says about it."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator

import pytest

from shoal.api import auth
from shoal.core.access import Permission
from tests.contract.api import Client, Desk, a_desk, refused, told

UNDOCUMENTED = {"dashboard.home", "dashboard.part", "openapi.openapi", "openapi.doc_url", "openapi.static"}
"""The way to the document itself."""
_PARTS = {
    "job": "job23456",
    "page": "1",
    "kind": "pdf",
    "host": "shop.example",
    "filename": "x.js",
    "version": "v2",
    "name": "main.js",
    "schedule": "nightly",
    "webhook": "wh_1",
    "message": "msg_1",
}
AUTOMATIC = {"HEAD", "OPTIONS"}
"""Flask answers these where GET, or anything, is answered."""


@pytest.fixture(scope="module")
def desk(valkey_url: str, tmp_path_factory: pytest.TempPathFactory) -> Generator[Desk]:
    with a_desk(valkey_url, tmp_path_factory.mktemp("routes")) as desk:
        yield desk


@pytest.fixture(scope="module")
def reader(desk: Desk) -> Client:
    """From now on everybody needs a key."""
    return desk.make_key(Permission.READ)[1]


def routes(desk: Desk) -> Iterator[tuple[str, str, str]]:
    """(endpoint, method, a path that it answers to)"""
    for rule in desk.app.url_map.iter_rules():
        path = re.sub(r"<(?:\w+:)?(\w+)>", lambda match: _PARTS[match[1]], rule.rule)
        for method in sorted(rule.methods or ()):
            yield rule.endpoint, method, path


def test_every_route_has_a_rule_and_every_rule_a_route(desk: Desk) -> None:
    endpoints = {endpoint for endpoint, _, _ in routes(desk)}
    assert endpoints == auth.RULES.keys() | auth.OPEN
    assert not auth.RULES.keys() & auth.OPEN


def test_only_health_the_log_in_and_the_files_of_the_dashboard_are_open() -> None:
    assert {"health.healthz", "health.readyz", "session.log_in", "dashboard.home", "dashboard.part"} == auth.OPEN


def test_without_a_key_every_other_route_is_closed(desk: Desk, reader: Client) -> None:
    asked = 0
    for endpoint, method, path in routes(desk):
        if endpoint == "session.log_in" and method == "OPTIONS":  # which belongs to another route of the same path
            continue
        answer = desk.ask(method, path)
        if endpoint in auth.OPEN:
            assert answer.status_code == (422 if method == "POST" else 200), (method, path)
            continue
        asked += 1
        assert answer.status_code == 401, (method, path)
        assert answer.headers["WWW-Authenticate"] == "Bearer"
        if method != "HEAD":
            refused(answer, 401)
    assert asked > 60


@pytest.mark.parametrize("key", ["", "nonsense", "shoal_abcdefghi0_" + "x" * 43])
def test_with_a_key_that_nobody_made_every_route_is_closed(desk: Desk, reader: Client, key: str) -> None:
    for endpoint, method, path in routes(desk):
        if endpoint not in auth.OPEN:
            answer = desk.ask(method, path, headers={"Authorization": f"Bearer {key}"})
            assert answer.status_code == 401, (method, path)


@pytest.mark.parametrize("scope", Permission)
def test_a_key_opens_only_what_its_scope_allows(desk: Desk, scope: Permission) -> None:
    client = desk.make_key(scope)[1]
    for endpoint, method, path in routes(desk):
        if endpoint in auth.OPEN or method == "OPTIONS":  # which may belong to another route of the same path
            continue
        answer = client.ask(method, path)
        needed = auth.RULES[endpoint]
        allowed = needed is None or scope in (needed, Permission.ADMIN)
        assert (answer.status_code != 403) == allowed, (method, path)
        assert answer.status_code != 401
        if needed and not allowed and method != "HEAD":
            assert repr(needed.value) in refused(answer, 403)["detail"]


def test_a_route_that_no_rule_names_is_closed(desk: Desk, reader: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(auth.RULES, "operations.list_queues")
    admin = desk.make_key(*Permission)[1]
    refused(admin.get("queues"), 403)


def test_what_does_not_exist_is_told_only_to_those_with_a_key(desk: Desk, reader: Client) -> None:
    refused(desk.get("/nothing"), 401)
    refused(reader.get("/nothing"), 404)


def test_every_operation_of_the_document_is_a_route_and_the_other_way_round(desk: Desk, reader: Client) -> None:
    document = told(reader.get("/openapi/openapi.json"))
    documented = {(path, method.upper()) for path, item in document["paths"].items() for method in item}
    served = {
        (re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", rule.rule), method)
        for rule in desk.app.url_map.iter_rules()
        for method in (rule.methods or set[str]()) - AUTOMATIC
        if rule.endpoint not in UNDOCUMENTED and not rule.endpoint.startswith("swagger.")
    }
    assert documented == served
    assert document["openapi"].startswith("3.1")


def test_the_document_says_who_needs_a_key_and_what_can_go_wrong(desk: Desk, reader: Client) -> None:
    document = told(reader.get("/openapi/openapi.json"))
    schemes = set(document["components"]["securitySchemes"])
    for path, item in document["paths"].items():
        for method, operation in item.items():
            is_open = operation["operationId"] in {name.partition(".")[2] for name in auth.OPEN}
            needed = [name for choice in operation.get("security", []) for name in choice]
            assert set(needed) == (set() if is_open else schemes), (method, path)
            wanted = {"422"} if is_open else {"401", "403", "422", "429", "503"}
            assert wanted <= operation["responses"].keys(), (method, path)
            for status, answer in operation["responses"].items():
                if status[0] == "4":
                    assert list(answer["content"]) == ["application/problem+json"], (method, path, status)


def test_the_documents_pages_need_nothing_from_elsewhere(desk: Desk, reader: Client) -> None:
    for path in ("/openapi/", "/openapi/swagger"):
        page = reader.get(path).get_data(as_text=True)
        assert not re.findall(r"""(?:src|href)=["'](?:https?:)?//[^"']+""", page), path
    page = reader.get("/openapi/swagger").get_data(as_text=True)
    for link in re.findall(r"""(?:src|href)=["']([^"']+)""", page):
        with reader.get(f"/openapi/{link}") as answer:
            assert answer.status_code == 200, link
