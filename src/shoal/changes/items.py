"""The items of two runs compared, by a key or by their places on their pages.

An item that is in one run only is new or gone if its page was read in the other: of a page that was not reached nobody
knows, nor of an item that is in quarantine there.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any

from shoal.changes.absence import Absence, Absences
from shoal.changes.comparison import Change, Key, Keyed, Summary, by_field, by_page, compare, compare_stretch
from shoal.changes.kinds import Kind
from shoal.core.frozen import frozen
from shoal.core.url import parse
from shoal.store.items import ItemRow
from shoal.store.job_rows import JobRow
from shoal.store.pages import PageStore
from shoal.store.run_pages import FIRST, RunPages

AT_ONCE = 500
"""Rows that are judged together."""
BEGINNING = (FIRST, -1)
"""Before all items."""
_KINDS = {"added": Kind.NEW, "removed": Kind.GONE, "changed": Kind.CHANGED, "same": Kind.UNCHANGED}


@frozen
class ItemChange:
    """What became of an item."""

    kind: Kind
    change: Change
    why: str = ""

    @property
    def host(self) -> str:
        return parse(self.change.item.url).host

    def as_json(self, key: str | None = None) -> dict[str, Any]:
        """For programs; with the value of the field that items are known by, if it is one."""
        told = self.change.as_json(key)
        del told["change"]
        return {"kind": self.kind.value, "why": self.why, **told}


@frozen
class Side:
    """The items of a run that are compared."""

    job: JobRow
    version: str


class ItemComparison:
    """Two runs, item by item."""

    def __init__(
        self, runs: RunPages, pages: PageStore, run: Side, earlier: Side, key: str | None, ignore: Collection[str]
    ) -> None:
        self._runs = runs
        self._pages = pages
        self._run = run
        self._earlier = earlier
        self.key = key
        self._ignore = frozenset(ignore)
        self._absences = {
            "removed": Absences(runs, run.job, earlier.job),
            "added": Absences(runs, earlier.job, run.job),
        }

    def count(self) -> int:
        """Rows of both sides."""
        return sum(self._pages.count_items(side.job.id, side.version) for side in (self._run, self._earlier))

    def stream(self) -> Iterator[ItemChange]:
        """Everything, unchanged items too, in the order of pages or of keys."""
        with self._sides() as (old, new):
            rows = compare(old, new, Summary(), self._ignore, with_same=True)
            while some := list(islice(rows, AT_ONCE)):
                yield from self._judged(some)

    def stretch(self, after: tuple[int, int], most: int) -> tuple[list[ItemChange], Key | None]:
        """(what became of the next items behind a place, up to which; None at the end); by page only."""
        old, new = (
            by_page(self._pages.items_by_page(side.job.id, side.version, after)) for side in (self._earlier, self._run)
        )
        found = compare_stretch(old, new, most, self._ignore, with_same=True)
        return self._judged(found.changes), found.upto

    @contextmanager
    def _sides(self) -> Generator[Sequence[Iterable[Keyed]]]:
        old, new = (self._pages.items_by_page(side.job.id, side.version) for side in (self._earlier, self._run))
        if self.key is None:
            yield by_page(old), by_page(new)
            return
        with by_field(old, new, self.key) as sides:
            yield sides

    def _judged(self, changes: Sequence[Change]) -> list[ItemChange]:
        """With what became of the pages of those that are in one run only."""
        reasons: dict[int, tuple[Kind, str]] = {}
        for kind, known, other in (("removed", self._earlier, self._run), ("added", self._run, self._earlier)):
            alone = [change for change in changes if change.kind == kind]
            if alone:
                reasons |= self._reasons(kind, alone, known, other)
        found = [reasons.get(id(change), (_KINDS[change.kind], "")) for change in changes]
        return [ItemChange(kind, change, why) for change, (kind, why) in zip(changes, found, strict=True)]

    def _reasons(self, kind: str, alone: Sequence[Change], known: Side, other: Side) -> dict[int, tuple[Kind, str]]:
        """By the identity of a change: what it is, and why."""
        wanted = {change.item.fingerprint for change in alone}
        there = self._runs.seen(other.job.id, wanted)
        missing = self._runs.seen(known.job.id, wanted - there.keys())
        absences = self._absences[kind].of(list(missing.values()))
        refused = {
            name
            for each in self._runs.quarantined(other.job.id, other.version, there.keys())
            for name in self._names(each.item)
        }
        reasons: dict[int, tuple[Kind, str]] = {}
        for change in alone:
            page = there.get(change.item.fingerprint)
            if not refused.isdisjoint(self._names(change.item)):
                reasons[id(change)] = Kind.UNKNOWN, "quarantined"
            elif page is not None:
                reasons[id(change)] = _KINDS[kind], "redirect" if page.redirect else ""
            else:
                reasons[id(change)] = _of_absence(kind, absences.get(change.item.fingerprint))
        return reasons

    def _names(self, item: ItemRow) -> tuple[str, ...]:
        """By which an item is known again."""
        if self.key is None or item.data.get(self.key) is None:
            return (f"{item.fingerprint} {item.number}",)
        return (repr(item.data.get(self.key)),)


def _of_absence(kind: str, absence: Absence | None) -> tuple[Kind, str]:
    """Of an item whose page is not in the other run."""
    if absence is None or absence.certain:
        return _KINDS[kind], absence.reason if absence and kind == "removed" else ""
    return Kind.UNKNOWN, "not_reached" if kind == "removed" else "not_reached_before"
