"""A lease as an order for the browser, and what the browser brings home as a result like any other."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import fields, replace
from itertools import takewhile
from typing import Any, cast

from shoal.core.browsing import Browsing
from shoal.core.model import Lease
from shoal.core.redact import without_secrets
from shoal.core.url import Url
from shoal.fetch.port import Response
from shoal.render.port import Notes, Order, Rendered
from shoal.store.archive import Attachment
from shoal.worker.context import JobContext
from shoal.worker.reader import Reader
from shoal.worker.reading import exchange_of, needs_browser, read_page, read_redirect
from shoal.worker.result import Result, clean, gap_of

DOCUMENT_TYPE = "text/html; charset=utf-8"
MAY_GO = Callable[[Url], Awaitable[bool]]
MAX_DEPTH = 50
"""Of values in values, in what scripts return."""
MAX_WHOLE = 2**63
"""Numbers from here on are kept as texts; so is what is no number."""


def order_of(context: JobContext, lease: Lease, may_go: MAY_GO) -> Order:
    """What to render for a lease, and within which bounds."""
    url = lease.request.url
    browsing = context.spec.browser or Browsing()
    if url.origin not in context.spec.trusted:
        browsing = _without_secrets(browsing)
    return Order(
        url,
        browsing,
        headers=context.headers_for(url),
        secret_headers=context.secret_headers,
        cookies=browsing.cookies,
        total=context.limits.total,
        max_body=context.limits.max_body,
        local=context.local,
        pause=gap_of(lease),
        may_go=may_go,
    )


def _without_secrets(browsing: Browsing) -> Browsing:
    """For a page that may be a stranger's: no cookies, nothing typed into it, nor what would follow that."""
    actions = tuple(takewhile(lambda action: action.fill is None, browsing.actions))
    return browsing.model_copy(update={"cookies": {}, "actions": actions})


def _left_out(context: JobContext, url: Url) -> list[str]:
    """What a page was not given because it may be a stranger's, so that nobody wonders."""
    browsing = context.spec.browser or Browsing()
    if url.origin in context.spec.trusted:
        return []
    kept = len(_without_secrets(browsing).actions)
    actions = [f"{action.verb} {action.selector}".strip() for action in browsing.actions[kept:]]
    return [*(["cookies"] if browsing.cookies else []), *actions]


async def read_rendered(context: JobContext, lease: Lease, rendered: Rendered, reader: Reader) -> Result:
    """A page as the browser has it, read like one that came without; raises FetchError."""
    response = rendered.response
    if rendered.location:
        moved = read_redirect(context, lease, response, rendered.location)
        page = moved.page and replace(moved.page, engine="browser", received=rendered.received)
        return _with_costs(lease, rendered, replace(moved, page=page))
    found = await read_page(context, lease, _as_answer(rendered), reader)
    found = replace(found, needed=await needs_browser(context, lease, response, reader))
    if found.page is None:  # it is marked as one that is not to be kept
        return _with_costs(lease, rendered, found)
    page = replace(
        found.page,
        engine="browser",
        notes={**_shown(context, rendered.notes, _left_out(context, lease.request.url)), **(found.page.notes or {})},
        content_type=response.content_type[:200],
        received=rendered.received,
    )
    kept = context.spec.archive
    found = replace(
        found,
        page=page,
        exchange=exchange_of(context, response, page),
        attachments=_attachments(rendered) if kept else (),
    )
    return _with_costs(lease, rendered, found)


def _as_answer(rendered: Rendered) -> Response:
    """The document in place of the body that it was made of."""
    if not rendered.document:
        return rendered.response
    headers = [header for header in rendered.response.headers if header[0].lower() != b"content-type"]
    headers.append((b"content-type", DOCUMENT_TYPE.encode()))
    body = rendered.document.encode("utf-8", "replace")
    return replace(rendered.response, headers=tuple(headers), wire_body=body)


def _attachments(rendered: Rendered) -> tuple[Attachment, ...]:
    document = rendered.document.encode("utf-8", "replace")
    made = [Attachment("document", DOCUMENT_TYPE, document)] if document else []
    return (*made, *(Attachment(shot.kind, shot.media_type, shot.body) for shot in rendered.shots))


def _with_costs(lease: Lease, rendered: Rendered, found: Result) -> Result:
    """Pages that it went on to count for the host: it is left alone for as long as they would have taken."""
    settlement = found.settlement
    hold = settlement.hold_host + rendered.further * gap_of(lease)
    return replace(found, settlement=replace(settlement, received=rendered.received, hold_host=hold))


def _shown(context: JobContext, notes: Notes, left_out: Sequence[str]) -> dict[str, Any]:
    """What is kept of the notes; a page may repeat the secrets that it was sent."""
    secrets = context.secrets
    values = {each.name: getattr(notes, each.name) for each in fields(notes)} | {"left_out": left_out}
    return {name: _told(value, secrets, MAX_DEPTH) for name, value in values.items() if value}


def _told(value: Any, secrets: Sequence[str], depth: int) -> Any:
    """Without secrets, and as every database can store it: what a script returns is up to the page."""
    if isinstance(value, str):
        return clean(without_secrets(value, secrets))
    if isinstance(value, int | float):
        return value if abs(value) < MAX_WHOLE else str(value)
    if not isinstance(value, list | tuple | dict):
        return None
    if not depth:
        return "…"
    if isinstance(value, dict):
        pairs = cast("dict[Any, Any]", value).items()
        return {_told(str(name), secrets, 1): _told(each, secrets, depth - 1) for name, each in pairs}
    return [_told(each, secrets, depth - 1) for each in cast("Sequence[Any]", value)]
