"""Schemathesis over the whole OpenAPI document: what it promises holds for whatever can be sent.

Every default check runs in every phase: examples, coverage, fuzzing, and calls that follow one another.
"""

# Schemathesis' hints leave gaps: what falls into them is unknown to the checker in this file only.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingTypeArgument=false
from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any, cast

import pytest
import schemathesis
from hypothesis import strategies as st
from schemathesis import Case, HookContext, engine
from schemathesis.config import SchemathesisConfig
from schemathesis.core.failures import Failure
from schemathesis.core.result import Ok
from schemathesis.core.transport import Response
from schemathesis.engine import Status, events
from schemathesis.openapi.checks import RejectedPositiveData
from schemathesis.schemas import BaseSchema
from schemathesis.transport.wsgi import WSGITransport

from tests.contract.api import Desk, a_desk, page, some_dead, told

EXAMPLES = 25
"""For each operation, besides the hundreds that the document suggests by itself."""
URL = "http://shop.example/"

MEANING = frozenset(
    {
        *("cursor", "url", "urls", "host", "hosts", "trusted", "allow", "deny", "fields", "headers", "proxies", "pool"),
        *("browser", "each", "next", "contract.model", "output.to", "template", "previous", "changes", ""),
        *("cron", "timezone", "start", "end", "every", "open", "revisit", "revisit.min", "revisit.max"),
    }
)
"""Fields of which no schema can say what fits: a cursor that was given, what is a URL, a host, a regular expression, a
selector, a template, a pool of proxies, a model, a field or a job that there is, one thing to do in a browser, what is
allowed here, which of two times is longer, when a schedule runs and that its job can end; and whether a job has
something to fetch at all."""
FORMATS = {
    "selector": ("a.next", "li.next > a", "//a[@rel='next']", ""),
    "css": (".card", "ul > li:nth-child(2)", "a[href]"),
    "xpath": ("//li", "//div[@class='card']"),
    "jmespath": ("items", "items[?in_stock].offers[]"),
    "linked-data": ("Product", "Product.offers"),
    "short-rule": (".card", "xpath: //li", "json:items", "jsonld:Product"),
    "web-url": ("https://shop.example/sitemap.xml", "http://shop.example/feed"),
}
"""Words for texts that no pattern describes, and some that are such."""
SOCKET_OPTIONS = ("max_redirects", "verify", "cert")


@pytest.fixture
def desk(valkey_url: str, tmp_path: Path) -> Generator[Desk]:
    """An API that does not let anybody wait for long."""
    with a_desk(valkey_url, tmp_path, api_wait_seconds=0.02, max_body=10**9) as desk:
        yield desk


@pytest.fixture
def document(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> BaseSchema:
    """The document, the application, and something in it to ask for."""
    key, client = desk.make_key()
    finished = client.submit(URL + "1", URL + "2", name="finished", fields={"title": "h1"})
    desk.work(lambda lease: some_dead("/2")(lease) if lease.request.url.target == "/2" else page(lease, item={}))
    told(
        client.post("schedules", {"name": "nightly", "cron": "0 3 * * *", "job": {"urls": [URL], "follow": False}}), 201
    )
    jobs = [finished, client.submit(URL, name="running"), client.submit(open=True, name="open")]
    keys = {"bearer": {"bearer": key}, "key": {"api_key": key}, "password": {"username": "any", "password": key}}
    config = SchemathesisConfig.from_dict(
        {
            "seed": 1,
            "continue-on-failure": True,
            "max-stream-events": 1,  # of an answer that goes on for as long as its job
            "request-timeout": 10,
            "generation": {"max-examples": EXAMPLES, "deterministic": True, "database": "none"},
            "dictionaries": {"jobs": {"values": jobs}, "schedules": {"values": ["nightly"]}},
            "parameters": {
                "path.job": {"dictionary": "jobs", "probability": 0.7},
                "path.schedule": {"dictionary": "schedules", "probability": 0.7},
            },
            "auth": {"openapi": keys},
        }
    )
    schema = schemathesis.openapi.from_wsgi(
        "/openapi/openapi.json", desk.app, config=config, headers={"X-API-Key": key}
    )
    for name, texts in FORMATS.items():
        schemathesis.openapi.format(name, st.sampled_from(texts))
    schema.hook("filter_failure")(_is_a_failure)
    _leave_out_socket_options(monkeypatch)
    return schema


def _is_a_failure(_context: HookContext, failure: Failure, _case: Case, response: Response) -> bool:
    """A value that fits the schema may still mean nothing: then the answer names it."""
    if not isinstance(failure, RejectedPositiveData) or response.status_code != 422:
        return True
    return not all(_means_something(error["field"]) for error in response.json()["errors"])


def _means_something(place: str) -> bool:
    place = place.removeprefix("job.")
    return place in MEANING or any(place.startswith(f"{field}.") for field in MEANING if field)


def _leave_out_socket_options(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of the checks hands these to the application, which has no socket; others leave them out."""
    send = WSGITransport.send

    def send_what_fits(transport: WSGITransport, case: Case, **options: Any) -> Response:
        fitting = {name: value for name, value in options.items() if name not in SOCKET_OPTIONS}
        return send(transport, case, **fitting)

    monkeypatch.setattr(WSGITransport, "send", send_what_fits)


def test_every_whole_number_that_can_be_sent_has_an_end(document: BaseSchema) -> None:
    whole = document.raw_schema
    endless = {place for path, route in whole["paths"].items() for place in _endless(whole, _sent(route), path)}
    assert not endless


def _sent(route: dict[str, Any]) -> list[Any]:
    return [part[kind] for part in route.values() for kind in ("parameters", "requestBody") if kind in part]


def _endless(whole: dict[str, Any], node: Any, place: str, met: frozenset[str] = frozenset()) -> Generator[str]:
    """Where a whole number may be of any size: none that is beyond 64 bits can be read."""
    match node:
        case {"$ref": str(name)} if name not in met:
            yield from _endless(whole, whole["components"]["schemas"][name.rpartition("/")[2]], name, met | {name})
        case {"type": "integer"} if not node.keys() & {"maximum", "exclusiveMaximum", "enum", "const"}:
            yield place
        case dict():
            for name, part in cast("dict[str, Any]", node).items():
                yield from _endless(whole, part, f"{place}/{name}", met)
        case list():
            for part in cast("list[Any]", node):
                yield from _endless(whole, part, place, met)
        case _:
            pass


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Generating overly large repr")
def test_the_api_does_what_its_document_says(document: BaseSchema) -> None:
    found: list[str] = []
    tested: set[str] = set()
    for event in engine.from_schema(document).execute():
        match event:
            case events.ScenarioFinished():
                found += _failures(event)
                if event.status is not Status.SKIP and event.recorder.label:
                    tested.add(event.recorder.label)
            case events.NonFatalError():
                found.append(f"{event.label}: {event.info.format()}")
            case events.FatalError():
                raise event.exception
            case _:
                pass
    assert len(tested) > 25
    assert {operation.ok().label for operation in document.get_all_operations() if isinstance(operation, Ok)} <= tested
    assert not found, "\n\n".join(dict.fromkeys(found))


def _failures(event: events.ScenarioFinished) -> Generator[str]:
    for case, checks in event.recorder.checks.items():
        for check in checks:
            if check.failure_info:
                answer = event.recorder.find_response(case_id=case)
                body = answer.content[:500] if answer else b""
                sample = check.failure_info.code_sample
                yield f"{check.name}: {check.failure_info.failure.message}\n{sample}\n{body!r}"
