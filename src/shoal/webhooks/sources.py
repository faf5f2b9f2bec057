"""Where messages come from. A source looks for what is new and makes messages of it, each once; one more kind of event
is one more class."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Protocol

import orjson

from shoal.core.happening import ITEMS, Happening
from shoal.store.items import ItemRow
from shoal.store.pages import PageStore
from shoal.store.webhook_cursors import Cursor, Cursors
from shoal.store.webhook_messages import Messages

BATCH_ITEMS = 500
BATCH_BYTES = 250_000
"""Of the items of one message, as JSON; one that is larger by itself is named without its data."""
BATCH_WAIT = timedelta(seconds=5)
"""Items of a job that runs wait so long for company."""
MOST_WAITING = 20
"""Messages of items that wait for one endpoint: further items stay where they are."""


class Source(Protocol):
    """Something that messages are made of."""

    def gather(self, now_ms: int) -> int:
        """Make messages of what is new; returns how much there was. Safe to do twice at once."""
        ...


class JobEvents:
    """What happened to jobs, from the outbox."""

    def __init__(self, messages: Messages) -> None:
        self._messages = messages

    def gather(self, now_ms: int) -> int:
        return self._messages.hand_out(now_ms)


class ItemBatches:
    """Items, in batches: while a job runs, and the rest at its end."""

    def __init__(self, cursors: Cursors, pages: PageStore) -> None:
        self._cursors = cursors
        self._pages = pages

    def gather(self, now_ms: int) -> int:
        return sum(self._advance(cursor, now_ms) for cursor in self._cursors.open(ITEMS, MOST_WAITING))

    def _advance(self, cursor: Cursor, now_ms: int) -> bool:
        rows = self._pages.items_after(cursor.job, cursor.last_id, BATCH_ITEMS)
        if not rows:
            return cursor.ended and self._cursors.close(cursor, now_ms)
        if not cursor.ended and len(rows) < BATCH_ITEMS and now_ms - cursor.updated_ms < _ms(BATCH_WAIT):
            return False
        batch = rows[: _fitting(rows)]
        span = (batch[0][0], batch[-1][0])
        data = {**cursor.data, "count": len(batch), "first_id": span[0], "last_id": span[1]}
        what = Happening(f"{ITEMS}:{cursor.job}:{span[0]}", ITEMS, "", cursor.job, now_ms, data)
        return self._cursors.advance(cursor, span, what, now_ms)


def _fitting(rows: Sequence[tuple[int, ItemRow]]) -> int:
    """How many of these are one message; one at the least."""
    size = 0
    for count, (_, item) in enumerate(rows):
        size += len(orjson.dumps(dict(item.data))) + len(item.url.encode())
        if size > BATCH_BYTES and count:
            return count
    return len(rows)


def _ms(duration: timedelta) -> int:
    return duration // timedelta(milliseconds=1)
