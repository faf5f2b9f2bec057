"""A lease as an order for the browser, and what it brings home as a result."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import orjson
import pytest

from shoal.core.manners import Limit, LimitSource
from shoal.core.model import Lease, Request
from shoal.core.redact import HIDDEN
from shoal.core.spec import JobSpec
from shoal.core.url import Url, parse
from shoal.fetch.port import Response
from shoal.render.port import Notes, Order, Rendered, Shot
from shoal.worker.context import JobContext
from shoal.worker.reader import Reader
from shoal.worker.rendering import order_of, read_rendered
from shoal.worker.result import Result

PAGE = parse("https://shop.example/a")
HTML = ((b"Content-Type", b"text/html; charset=iso-8859-1"), (b"X-Kept", b"1"))


def context_of(**settings: Any) -> JobContext:
    return JobContext.of("job", JobSpec.model_validate({"engine": "browser", "hosts": ["shop.example"], **settings}))


def lease_of(rate: float = 0.0) -> Lease:
    return Lease(1, 1, "job", Request(PAGE), limit=Limit(rate, 1, LimitSource.JOB))


def answer(body: bytes = b"<p>raw", status: int = 200, headers: tuple[tuple[bytes, bytes], ...] = HTML) -> Response:
    return Response(PAGE, status, "OK", headers, body, timedelta(milliseconds=7))


def read(rendered: Rendered, context: JobContext | None = None, lease: Lease | None = None) -> Result:
    async def run() -> Result:
        reader = Reader()
        try:
            return await read_rendered(context or context_of(), lease or lease_of(), rendered, reader)
        finally:
            await reader.end()

    return asyncio.run(run())


async def _anywhere(_url: Url) -> bool:
    return True


def order(context: JobContext, lease: Lease | None = None) -> Order:
    return order_of(context, lease or lease_of(), _anywhere)


def test_nothing_is_typed_into_a_page_of_an_origin_that_is_not_trusted() -> None:
    actions = [{"click": "#accept"}, {"fill": {"selector": "#pw", "text": "c4nary"}}, {"press": "Enter"}]
    strange = order(context_of(browser={"actions": actions}))
    assert [action.verb for action in strange.browsing.actions] == ["click"]
    known = order(context_of(browser={"actions": actions}, trusted=["https://shop.example"]))
    assert [action.verb for action in known.browsing.actions] == ["click", "fill", "press"]


def test_cookies_and_secret_headers_go_to_trusted_origins_only() -> None:
    given = {"headers": {"Authorization": "Bearer c4nary"}, "browser": {"cookies": {"sid": "c4nary"}}}
    strange = order(context_of(**given))
    assert (dict(strange.cookies), dict(strange.headers)) == ({}, {})
    known = order(context_of(**given, trusted=["https://shop.example"]))
    assert (dict(known.cookies), dict(known.headers)) == ({"sid": "c4nary"}, {"Authorization": "Bearer c4nary"})
    assert "c4nary" not in repr(known)


def test_what_a_page_of_another_origin_was_not_given_stands_in_its_notes() -> None:
    actions = [{"click": "#a"}, {"fill": {"selector": "#pw", "text": "c4nary"}}, {"press": "Enter"}, {"evaluate": "1"}]
    asked: dict[str, Any] = {"browser": {"cookies": {"sid": "c4nary"}, "actions": actions}}
    strange = read(Rendered(answer(), "<p>a"), context_of(**asked))
    assert strange.page
    assert strange.page.notes == {"left_out": ["cookies", "fill #pw", "press", "evaluate"]}
    known = read(Rendered(answer(), "<p>a"), context_of(**asked, trusted=["https://shop.example"]))
    assert known.page
    assert not known.page.notes


def test_an_order_has_the_bounds_of_its_job_and_the_pause_of_its_host() -> None:
    made = order(context_of(timeout=7, max_body=5_000), lease_of(rate=4))
    assert (made.total, made.max_body, made.pause) == (timedelta(seconds=7), 5_000, timedelta(seconds=0.25))
    assert order(context_of(), lease_of(rate=0)).pause == timedelta()


def test_the_document_is_read_in_place_of_what_it_was_made_of() -> None:
    document = "<h1>größer</h1><a href=/b>b</a>"
    result = read(Rendered(answer(b"<p>raw"), document), context_of(fields={"title": "h1"}))
    assert [item.data for item in result.items] == [{"title": "größer"}]
    assert [str(each.url) for each in result.candidates] == ["https://shop.example/b"]
    assert result.page
    assert result.exchange
    assert (result.page.engine, result.page.size, result.page.charset) == ("browser", len(document.encode()), "utf-8")
    assert result.page.content_type == "text/html; charset=iso-8859-1"
    assert (result.exchange.body, result.exchange.headers) == (b"<p>raw", HTML), "the archive has what came"
    (kept,) = result.attachments
    assert (kept.kind, kept.body) == ("document", document.encode())
    (found,) = result.found
    assert found.urls == ("https://shop.example/b",), "nobody can read them from the body again"


def test_pages_that_it_went_on_to_count_for_the_host_and_so_does_what_it_loaded() -> None:
    result = read(Rendered(answer(), "<p>a", notes=Notes(received=1_000), further=3), lease=lease_of(rate=2))
    assert result.settlement.hold_host == timedelta(seconds=1.5)
    assert result.page
    assert result.settlement.received == result.page.received == 1_000
    moved = Rendered(answer(), notes=Notes(received=1_000), further=1, goes_to="https://shop.example/b")
    result = read(moved, lease=lease_of(rate=2))
    assert result.page
    assert (result.page.redirect, result.page.engine, result.page.received) == (moved.goes_to, "browser", 1_000)
    assert (result.settlement.hold_host, result.settlement.received) == (timedelta(seconds=0.5), 1_000)


def test_pictures_and_prints_are_kept_with_the_page_unless_nothing_is() -> None:
    shots = (Shot("screenshot", "image/png", b"png"), Shot("pdf", "application/pdf", b"pdf"))
    kinds = [each.kind for each in read(Rendered(answer(), "<p>a", shots)).attachments]
    assert kinds == ["document", "screenshot", "pdf"]
    bare = read(Rendered(answer(), "<p>a", shots), context_of(archive=False))
    assert (bare.attachments, bare.exchange) == ((), None)


def test_what_is_no_document_is_read_as_it_came() -> None:
    came = answer(b'{"a": 1}', headers=((b"content-type", b"application/json"),))
    result = read(Rendered(came))
    assert result.page
    assert (result.page.content_type, result.page.size, result.attachments) == ("application/json", 8, ())


@pytest.mark.parametrize(
    ("rendered", "refused"),
    [
        (Rendered(answer(status=200)), False),
        (Rendered(answer(status=204)), False),
        (Rendered(answer(status=302, headers=((b"Location", b"/b"),))), False),
        (Rendered(answer(), goes_to="https://shop.example/b"), False),
        (Rendered(answer(status=300)), True),
        (Rendered(answer(status=304)), True),
        (Rendered(answer(status=404)), True),
        (Rendered(answer(status=503)), True),
        (Rendered(answer(status=503), goes_to="https://shop.example/b"), True),
        (Rendered(answer(status=403, headers=((b"Location", b"/b"),))), True),
    ],
)
def test_an_answer_that_is_no_page_without_a_browser_is_none_with_one(rendered: Rendered, *, refused: bool) -> None:
    assert rendered.is_refused is refused


def test_notes_are_kept_without_secrets_and_as_any_database_can_store_them() -> None:
    context = context_of(
        trusted=["https://shop.example"],
        headers={"Authorization": "Bearer c4nary-header"},
        browser={
            "cookies": {"sid": "c4nary-cookie"},
            "actions": [{"fill": {"selector": "#p", "text": "c4nary-password"}}],
        },
    )
    deep: Any = 1
    for _ in range(900):
        deep = [deep]
    notes = Notes(
        console=("I was sent c4nary-header", "\ud800\0"),
        failed=("https://shop.example/?x=c4nary-cookie net::ERR_FAILED",),
        evaluated=({"c4nary-cookie": ["c4nary-password", 2**64, 1e999, None, True, 1.5]}, deep),
        final_url="https://shop.example/#c4nary-password",
    )
    result = read(Rendered(answer(), "<p>a", notes=notes), context)
    assert result.page
    assert result.page.notes
    written = orjson.dumps(result.page.notes).decode()
    assert "c4nary" not in written
    assert result.page.notes["evaluated"][0] == {HIDDEN: [HIDDEN, str(2**64), "inf", None, True, 1.5]}
    assert result.page.notes["console"][1] == "?\N{REPLACEMENT CHARACTER}"
    assert set(result.page.notes) == {"console", "failed", "evaluated", "final_url"}, "and what is empty is left out"


SHELL = b'<body><div id="app"></div><script src="/app.js"></script></body>'


@pytest.mark.parametrize(
    ("body", "kind", "needed"),
    [
        (SHELL, b"text/html", True),
        (b"<p>" + b"all of its text " * 50, b"text/html", False),
        (b"", b"text/html", None),
        (b"{}", b"application/json", None),
    ],
)
def test_of_a_rendered_page_it_is_told_whether_it_would_have_needed_that(
    body: bytes, kind: bytes, *, needed: bool | None
) -> None:
    rendered = Rendered(answer(body, headers=((b"content-type", kind),)), "<p>a")
    assert read(rendered, context_of(engine="auto")).needed is needed
    assert read(rendered, context_of()).needed is None, "nobody asks"
