"""Why a page of one run is not in another: it is not there any more, or the run has not come so far.

That a page is gone is said only of a run that could have found it: its server said so (404, 410), or nothing leads to
it any more although the page that led to it was read. What failed, was forbidden, or was left out for a budget is not
gone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from shoal.core.frozen import frozen
from shoal.core.model import JobState, Outcome
from shoal.core.url import parse
from shoal.explain.rules import BUDGETS, scope_step
from shoal.store.job_rows import JobRow
from shoal.store.run_pages import RunPages, Seen

GONE = frozenset(("http_404", "http_410"))
"""Reasons with which a server says that there is no such page."""
NOT_LINKED = "not_linked"
MOST_STEPS = 50
"""From a page to the one that led to it, and on."""
MOST_REMEMBERED = 100_000


@frozen
class Absence:
    """Why a page is not in a run."""

    certain: bool
    """Is there no such page, as far as anybody can tell?"""
    reason: str


_NOT_LINKED = Absence(True, NOT_LINKED)


class Absences:
    """Why pages of one run are not in another."""

    def __init__(self, store: RunPages, run: JobRow, other: JobRow) -> None:
        """`run` is the one that they are not in, `other` the one that they are known from."""
        self._store = store
        self._run = run
        self._other = other
        self._cut_short = _cut_short(run)
        self._branches: dict[int, Absence] = {}
        """Page that led to others → what that means for them."""

    def of(self, missing: Sequence[Seen]) -> dict[int, Absence]:
        """Of each of these pages, by its fingerprint."""
        letters = self._store.given_up(self._run.id, [page.fingerprint for page in missing])
        found = {name: Absence(reason in GONE, reason) for name, reason in letters.items()}
        unmet = [page for page in missing if page.fingerprint not in found]
        if self._cut_short:
            return found | {page.fingerprint: Absence(False, self._cut_short) for page in unmet}
        outside = [page for page in unmet if page.found_on is not None and scope_step(self._run.spec, parse(page.url))]
        found |= {page.fingerprint: Absence(False, "out_of_scope") for page in outside}
        unmet = [page for page in unmet if page.fingerprint not in found]
        branches = self._look_up([page.found_on for page in unmet if page.found_on is not None])
        return found | {page.fingerprint: branches.get(page.found_on, _NOT_LINKED) for page in unmet}

    def _look_up(self, parents: Sequence[int]) -> Mapping[int | None, Absence]:
        """What became of pages that led to others: read without the link, or not read?"""
        if len(self._branches) > MOST_REMEMBERED:
            self._branches.clear()
        ways: dict[int, int] = {}
        """A page that is in neither → the one that led to it."""
        wanted = {parent for parent in parents if parent not in self._branches}
        for _ in range(MOST_STEPS):
            if not wanted:
                break
            wanted = self._step(wanted, ways)
        self._branches |= {parent: Absence(False, "not_reached") for parent in wanted}
        for page in ways:
            self._branches[page] = self._branches.get(_end(ways, page), _NOT_LINKED)
        return {parent: self._branches.get(parent, _NOT_LINKED) for parent in parents}

    def _step(self, wanted: set[int], ways: dict[int, int]) -> set[int]:
        """What is known of these; which others have to be looked up for the rest."""
        read = self._store.seen(self._run.id, wanted)
        letters = self._store.given_up(self._run.id, wanted - read.keys())
        failed = self._store.unread_by_spider(self._run.id, read) if self._run.spec.spider else frozenset[int]()
        for page, seen in read.items():
            unfollowed = "spider_failed" if page in failed else self._unfollowed(seen)
            self._branches[page] = Absence(False, unfollowed) if unfollowed else _NOT_LINKED
        for page, reason in letters.items():
            self._branches[page] = _NOT_LINKED if reason in GONE else Absence(False, reason)
        unmet = self._store.seen(self._other.id, wanted - read.keys() - letters.keys())
        further: set[int] = set()
        for page, seen in unmet.items():
            if seen.found_on is None:
                self._branches[page] = _NOT_LINKED
            else:
                ways[page] = seen.found_on
                further.add(seen.found_on)
        return {page for page in further if page not in self._branches and page not in ways}

    def _unfollowed(self, page: Seen) -> str:
        """Why the links of a page of the run were not followed; empty when they were, as far as its row tells."""
        spec, alike = self._run.spec, self._run.spec.duplicates
        if page.redirect is not None:
            return ""
        if not spec.follow and not spec.spider and self._other.spec.follow:
            return "not_followed"
        if spec.depth is not None and page.depth >= spec.depth:
            return "too_deep"
        if page.duplicate_of is not None and alike is not None and not alike.follow:
            return "duplicate"
        return "too_complex" if spec.noise and page.digest is None else ""


def _end(ways: Mapping[int, int], page: int) -> int:
    """Where the way from a page ends."""
    for _ in range(MOST_STEPS):
        if page not in ways:
            break
        page = ways[page]
    return page


def _cut_short(run: JobRow) -> str:
    """Why a run has not met all that it could; empty when it has."""
    if run.state is not JobState.FINISHED:
        return run.state.value
    if run.status is None:
        return "not_reached"
    names = (*BUDGETS, "not_since")
    return next((name for name in names if run.status.reasons.get(f"{Outcome.FILTERED.value}:{name}")), "")
