"""A message as its receiver gets it: the payload of the convention, a template filled with it, or a mail."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson

from shoal.core.happening import ITEMS, payload, summary
from shoal.core.message_template import fill_template
from shoal.core.webhook import Webhook
from shoal.errors import NotFound
from shoal.store.items import ItemRow
from shoal.store.pages import PageStore
from shoal.store.webhook_rows import Message
from shoal.webhooks.sources import BATCH_BYTES

MAX_MESSAGE_BYTES = 1_000_000
"""Bytes of a message."""
MOST_ITEM_BYTES = 500_000
"""Of the items in it: those that were replaced by larger ones meanwhile are named without their data."""
READ_AT_ONCE = 500
SHOWN_IN_MAIL = 20
_LISTS = ("items", "changes", "reasons", "drift")
"""Facts that are lists, and written below the others."""
_MAIL_CHARS = 1_000
"""Of one fact or item in a mail."""


class Letters:
    """Writes messages. Items are read when they are sent: no message holds a copy of them."""

    def __init__(self, pages: PageStore) -> None:
        self._pages = pages

    def write(self, hook: Webhook, message: Message) -> bytes:
        """The body; raises NotFound when the items that it is about are gone."""
        document = self.document(message)
        if hook.settings.template:
            said = summary(message.type, document["data"])
            body = fill_template(hook.settings.template, {**document, "id": message.id, "summary": said})
        else:
            body = orjson.dumps(document)
        if len(body) > MAX_MESSAGE_BYTES:
            raise NotFound(f"the message has {len(body)} bytes; at most {MAX_MESSAGE_BYTES} are sent")
        return body

    def mail(self, message: Message) -> tuple[str, str]:
        """(subject, text)"""
        document = self.document(message)
        data: dict[str, Any] = document["data"]
        subject = summary(message.type, data)
        lines = [f"{name}: {_plain(value)}" for name, value in data.items() if name not in _LISTS]
        lines += [f"drift: {each['detail']}" for each in data.get("drift", ())]
        lines += [f"{reason}: {count}" for reason, count in sorted(data.get("reasons", {}).items())]
        rows = [_plain(each) for each in data.get("items", ())]
        rows += [_plain(f"{each['kind']}: {each['url']}") for each in data.get("changes", ())]
        lines += rows[:SHOWN_IN_MAIL]
        if len(rows) > SHOWN_IN_MAIL:
            lines.append(f"… and {len(rows) - SHOWN_IN_MAIL} more")
        return subject, "\n".join([subject, "", *lines, "", f"event: {message.type}", f"message: {message.id}", ""])

    def document(self, message: Message) -> dict[str, Any]:
        """The payload."""
        data = dict(message.data)
        if message.type == ITEMS and message.first_id is not None and message.last_id is not None:
            data["items"] = self._items(message.job, message.first_id, message.last_id)
            data["count"] = len(data["items"])
        return payload(message.type, message.at_ms, data)

    def _items(self, job: str, first: int, last: int) -> list[dict[str, Any]]:
        found, room = list[dict[str, Any]](), MOST_ITEM_BYTES
        for number, row in self._between(job, first, last):
            size = len(orjson.dumps(dict(row.data)))
            fits = size <= min(BATCH_BYTES, room)
            room -= size if fits else 0
            found.append(_item(number, row, fits=fits))
        if not found:
            raise NotFound("the items that this message is about are gone: the job was removed")
        return found

    def _between(self, job: str, first: int, last: int) -> Iterator[tuple[int, ItemRow]]:
        """Few at a time: ids of other jobs' items lie between these, and the job may have many behind them."""
        after = first - 1
        while rows := [each for each in self._pages.items_after(job, after, READ_AT_ONCE) if each[0] <= last]:
            yield from rows
            after = rows[-1][0]


def _item(number: int, row: ItemRow, *, fits: bool) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "id": number,
        "url": row.url,
        "number": row.number,
        "data": dict(row.data) if fits else None,
    }
    return shown if fits else {**shown, "too_large": True}


def _plain(value: object) -> str:
    text = value if isinstance(value, str) else orjson.dumps(value).decode()
    return " ".join(text.split())[:_MAIL_CHARS]
