"""Messages about pages that are new, changed or gone, when a run has ended that has one before it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import orjson

from shoal.core.frozen import frozen
from shoal.core.happening import PAGE_CHANGED, Happening
from shoal.store.webhook_cursors import Cursor, Cursors
from shoal.webhooks.sources import BATCH_BYTES, MOST_WAITING

BATCH_PAGES = 100
"""Of one message."""


@frozen
class Stretch:
    """What became of the next pages of a run."""

    since: str
    """The run that it is held against."""
    changes: Sequence[tuple[int, Mapping[str, Any]]]
    """(fingerprint, what is told) of those that are not as they were."""
    upto: int | None
    """The fingerprint that it goes up to; None at the end."""


class Look(Protocol):
    """Compares a run with the one before it."""

    def __call__(self, job: str, after: int) -> Stretch | None:
        """The pages behind a fingerprint; None when there is no run before it."""
        ...


class PageChanges:
    """Changes of pages, in batches, in the order of their fingerprints."""

    def __init__(self, cursors: Cursors, look: Look) -> None:
        self._cursors = cursors
        self._look = look

    def gather(self, now_ms: int) -> int:
        return sum(self._advance(cursor, now_ms) for cursor in self._cursors.open(PAGE_CHANGED, MOST_WAITING))

    def _advance(self, cursor: Cursor, now_ms: int) -> bool:
        stretch = self._look(cursor.job, cursor.last_id)
        if stretch is None:
            return self._cursors.close(cursor, now_ms)
        told = [_happening(cursor, stretch.since, batch, now_ms) for batch in _batches(stretch.changes)]
        return self._cursors.hand_out(cursor, stretch.upto, told, now_ms)


def _happening(cursor: Cursor, since: str, batch: Sequence[tuple[int, Mapping[str, Any]]], now_ms: int) -> Happening:
    """Of a job that ends once more, changes are told once more, as other messages."""
    key = f"{PAGE_CHANGED}:{cursor.job}:{cursor.data.get('ended_at')}:{batch[0][0]}"
    data = {**cursor.data, "since": since, "count": len(batch), "changes": [dict(change) for _, change in batch]}
    return Happening(key, PAGE_CHANGED, "", cursor.job, now_ms, data)


def _batches(
    changes: Sequence[tuple[int, Mapping[str, Any]]],
) -> Iterator[list[tuple[int, Mapping[str, Any]]]]:
    batch: list[tuple[int, Mapping[str, Any]]] = []
    size = 0
    for each in changes:
        weight = len(orjson.dumps(dict(each[1])))
        if batch and (len(batch) >= BATCH_PAGES or size + weight > BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(each)
        size += weight
    if batch:
        yield batch
