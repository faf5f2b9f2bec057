"""Pages that say what an earlier page of their job says: found before their rows are written, and marked in these."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from shoal.core.frozen import changed, frozen
from shoal.core.model import Settlement, further
from shoal.core.reuse import REUSED
from shoal.frontier.frontier import Frontier
from shoal.frontier.likeness import Said
from shoal.store.page_rows import PageRow
from shoal.worker.result import Result


@frozen
class Marks:
    """Which results of a batch are duplicates."""

    earlier: Mapping[int, int]
    """Identity of a result → fingerprint of the page that it is like."""

    @classmethod
    def of(cls, frontier: Frontier, results: Sequence[Result]) -> Marks:
        """One call for all of them; none when no job asks."""
        asked = [(result, said) for result in results if (said := _said(result))]
        if not asked:
            return _NONE
        answers = frontier.resemble([said for _, said in asked])
        return cls({id(result): found for (result, _), found in zip(asked, answers, strict=True) if found is not None})

    def row(self, result: Result, row: PageRow) -> PageRow:
        found = self.earlier.get(id(result))
        return row if found is None else changed(row, duplicate_of=found)

    def keeps_items(self, result: Result) -> bool:
        return id(result) not in self.earlier or result.alike is None or result.alike.items

    def onward(self, result: Result) -> Result:
        """With the links that are followed; the next page of a list is, whatever the list says."""
        if id(result) not in self.earlier or result.alike is None or result.alike.follow:
            return result
        return replace(
            result, candidates=further(result.candidates, result.settlement.lease.request.depth), duplicates=0
        )

    def settlement(self, result: Result) -> Settlement:
        """A page that is stored and says nothing new counts as such."""
        settlement = result.settlement
        return (
            replace(settlement, reason="duplicate")
            if id(result) in self.earlier and (not settlement.reason or settlement.reason in REUSED)
            else settlement
        )


_NONE = Marks({})


def _said(result: Result) -> Said | None:
    page, asks = result.page, result.alike
    if page is None or asks is None or page.likeness is None:
        return None
    return Said(page.job, page.fingerprint, page.likeness, asks.distance)
