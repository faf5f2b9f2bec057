"""Schemathesis over the whole OpenAPI document: what it promises holds for whatever can be sent."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest
import schemathesis
from schemathesis import engine
from schemathesis.config import SchemathesisConfig
from schemathesis.engine import events
from schemathesis.openapi.checks import RejectedPositiveData

from tests.contract.api import Desk, a_desk, some_dead

EXAMPLES = 25


@pytest.fixture
def desk(valkey_url: str, tmp_path_factory: pytest.TempPathFactory) -> Generator[Desk]:
    with a_desk(valkey_url, tmp_path_factory.mktemp("schema"), api_wait_seconds=0.05) as desk:
        yield desk


@pytest.fixture
def document(desk: Desk) -> Any:
    key, client = desk.make_key()
    finished = client.submit("http://shop.example/1", "http://shop.example/2", name="finished")
    desk.work(some_dead("/2"))
    running = client.submit("http://shop.example/1", name="running")
    open_ = client.submit(open=True, name="open")
    headers = client.headers
    config = SchemathesisConfig.from_dict(
        {
            "seed": 1,
            "continue-on-failure": True,
            "max-stream-events": 1,
            "request-timeout": 10,
            "generation": {"max-examples": EXAMPLES, "deterministic": True, "database": "none"},
            "dictionaries": {"jobs": {"values": [finished, running, open_]}},
            "parameters": {
                "path.job": {"dictionary": "jobs", "probability": 0.7},
            },
            "auth": {
                "openapi": {
                    "bearer": {"bearer": key},
                    "key": {"api_key": key},
                    "password": {"username": "u", "password": key},
                }
            },
        }
    )
    schema = schemathesis.openapi.from_wsgi("/openapi/openapi.json", desk.app, config=config, headers=headers)
    schema.hook("filter_failure")(_is_against_the_schema)
    return schema


MEANING = {"cursor", "urls", "url", "hosts", "allow", "deny", "fields", "headers", "trusted", ""}


def _is_against_the_schema(context: schemathesis.HookContext, failure: Any, case: Any, response: Any) -> bool:
    """Text that is no URL, no selector, no regular expression or no cursor is refused; a schema cannot say which is."""
    if not isinstance(failure, RejectedPositiveData) or response.status_code != 422:
        return True
    fields = {error["field"].partition(".")[0] for error in response.json()["errors"]}
    return not fields <= MEANING


@pytest.fixture(autouse=True)
def _only_what_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    from schemathesis.transport.wsgi import WSGITransport

    send = WSGITransport.send

    def fitting(self, case, **options):
        for n in ("max_redirects", "verify", "cert"):
            options.pop(n, None)
        return send(self, case, **options)

    monkeypatch.setattr(WSGITransport, "send", fitting)


@pytest.mark.filterwarnings("ignore:Generating overly large repr")
def test_the_api_does_what_its_document_says(document: Any) -> None:
    import time

    found = {}
    t = time.time()
    for event in engine.from_schema(document).execute():
        if isinstance(event, events.ScenarioFinished):
            with open("/tmp/apitests/ev.txt", "a") as f:
                print(
                    f"{event.phase.value:10} {event.label} {event.status.value} {event.elapsed_time:.2f} n={len(event.recorder.cases)} {event.skip_reason}",
                    file=f,
                )
            for id_, checks in event.recorder.checks.items():
                for c in checks:
                    if c.failure_info:
                        fl = c.failure_info.failure
                        k = (event.label, c.name, fl.title)
                        if k not in found:
                            found[k] = (
                                fl.message,
                                c.failure_info.code_sample,
                                event.recorder.interactions[id_].response.content[:400]
                                if event.recorder.interactions[id_].response
                                else None,
                            )
        elif "Error" in type(event).__name__:
            with open("/tmp/apitests/ev.txt", "a") as f:
                print(
                    type(event).__name__,
                    getattr(event, "label", ""),
                    event.info if hasattr(event, "info") else event.exception,
                    file=f,
                )
    with open("/tmp/apitests/ev.txt", "a") as f:
        print(time.time() - t, file=f)
    with open("/tmp/apitests/found.txt", "w") as f:
        for k, v in sorted(found.items(), key=lambda kv: tuple(map(str, kv[0]))):
            print("=====", *k, file=f)
            for x in v:
                print(str(x)[:1500], file=f)
    assert not found
