"""Changes as rows of a file: each format of results can have them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from shoal.changes.items import ItemChange
from shoal.changes.pages import PageChange
from shoal.core.frozen import frozen
from shoal.output.columns import Scalar, Type
from shoal.output.source import MOST, Batch, Source
from shoal.store.export import Record, iso
from shoal.store.run_pages import Seen

_TEXTS = ("kind", "url", "host", "why", "detail", "redirect_before", "redirect_after")
PAGE_TYPES: dict[str, Type] = {
    **dict.fromkeys(_TEXTS, Scalar.TEXT),
    **dict.fromkeys(("status_before", "status_after"), Scalar.INTEGER),
    **dict.fromkeys(("fetched_before", "fetched_after"), Scalar.TIME),
}
PAGE_COLUMNS = (
    *("kind", "url", "host", "why", "detail", "status_before", "status_after", "redirect_before", "redirect_after"),
    *("fetched_before", "fetched_after"),
)
ITEM_COLUMNS = ("kind", "url", "number", "key", "why", "fields", "data")
ITEM_TYPES: dict[str, Type] = {
    **dict.fromkeys(("kind", "url", "why"), Scalar.TEXT),
    "number": Scalar.INTEGER,
}


def page_row(change: PageChange, diff: str | None = None) -> Record:
    """A page's change, flat; with the difference of its text if there is one."""
    told = change.as_json
    sides = (("before", change.before), ("after", change.after))
    flat = {f"{name}_{side}": value for side, page in sides for name, value in _side(page).items()}
    row = {**told, **flat}
    return {name: row[name] for name in PAGE_COLUMNS} | ({} if diff is None else {"diff": diff})


def _side(page: Seen | None) -> dict[str, Any]:
    if page is None:
        return dict.fromkeys(("status", "redirect", "fetched"))
    return {"status": page.status, "redirect": page.redirect, "fetched": iso(page.fetched_ms)}


def item_row(change: ItemChange, key: str | None) -> Record:
    """An item's change: what differs, or all of one that is in one run only."""
    told = change.as_json(key)
    return {name: told.get(name) for name in ITEM_COLUMNS}


@frozen
class ChangeSource(Source):
    """Changes for a file; they are found anew for each pass over them."""

    begin: Callable[[], Iterator[Record]]

    def batches(self, after: int = 0, until: int | None = None) -> Iterator[Batch]:
        del after, until  # whoever writes a file wants all of them
        rows, number = self.begin(), 0
        while some := list(islice(rows, MOST)):
            yield [(number + place, row) for place, row in enumerate(some, 1)]
            number += len(some)


def source_of_changes(begin: Callable[[], Iterator[Record]], *, items: bool, diff: bool = False) -> Source:
    """Of pages or of items."""
    names = ITEM_COLUMNS if items else (*PAGE_COLUMNS, *(("diff",) if diff else ()))
    types = ITEM_TYPES if items else {**PAGE_TYPES, **({"diff": Scalar.TEXT} if diff else {})}
    return ChangeSource("changes", names, types, True, _unread, begin)


def _unread(_after: int, _limit: int) -> Batch:
    return []
