"""The pages of two runs compared: both in the order of their fingerprints, merged, a stretch of each at a time.

A redirect is no page. It is told only where a page has become one, one has become a page, or it leads elsewhere now.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from shoal.again.archived import Heavy
from shoal.changes.absence import NOT_LINKED, Absence, Absences
from shoal.changes.kinds import Kind
from shoal.changes.said import Said, StoredTexts
from shoal.changes.text_diff import TextDiff, diff_of
from shoal.core.frozen import frozen
from shoal.core.noise import is_current
from shoal.errors import FetchError
from shoal.store.archive import ArchiveReader
from shoal.store.export import iso
from shoal.store.job_rows import JobRow
from shoal.store.pages import PageStore
from shoal.store.run_pages import FIRST, RunPages, Seen

STRETCH = 1_000
"""Pages of each run that are looked at together."""
FEW = 25
"""The same, where their texts have to be read from the archive."""
TEXT_CHARS = 2_000_000
"""Of a page's text that is compared line by line."""

Pair = tuple[Seen | None, Seen | None]


@frozen
class PageChange:
    """What became of a page."""

    kind: Kind
    before: Seen | None
    after: Seen | None
    why: str = ""
    """`content`, `status` or `redirect` of one that changed; http_404, http_410 or `not_linked` of one that is gone; of
    others, why nobody knows."""
    detail: str = ""

    @property
    def page(self) -> Seen:
        """That it is about; the newer one if there are two."""
        page = self.after or self.before
        assert page is not None
        return page

    @property
    def as_json(self) -> dict[str, Any]:
        """For programs."""
        page = self.page
        told = {"kind": self.kind.value, "url": page.url, "host": page.host, "why": self.why, "detail": self.detail}
        return {**told, "before": _side(self.before), "after": _side(self.after)}


def _side(page: Seen | None) -> dict[str, Any] | None:
    if page is None:
        return None
    return {"status": page.status, "redirect": page.redirect, "fetched_at": iso(page.fetched_ms)}


@frozen
class Shelves:
    """Where stored pages are."""

    runs: RunPages
    pages: PageStore
    archive: ArchiveReader
    heavy: Heavy


class PageComparison:
    """Two runs, page by page."""

    def __init__(self, shelves: Shelves, run: JobRow, earlier: JobRow) -> None:
        self._shelves = shelves
        self._run = run
        self._earlier = earlier
        noise = run.spec.watching.noise
        self._made = {job.id: job.spec.noise == noise.pack() for job in (run, earlier)}
        """Of which run the digests were made by the rules that hold here: those of the newer one."""
        self._texts = {job.id: StoredTexts(job.spec, noise, shelves.archive, shelves.heavy) for job in (run, earlier)}
        self._absent_now = Absences(shelves.runs, run, earlier)
        self._absent_before = Absences(shelves.runs, earlier, run)

    def stream(self, noted: Callable[[int], None] = lambda _: None) -> Iterator[PageChange]:
        """All pages, unchanged ones too, in the order of their fingerprints; who waits is told how many there were."""
        after: int | None = FIRST
        while after is not None:
            changes, after = self.stretch(after)
            noted(len(changes))
            yield from changes

    def stretch(self, after: int = FIRST) -> tuple[list[PageChange], int | None]:
        """(what became of the next pages behind a fingerprint, up to which; None at the end)"""
        limit = STRETCH if all(self._made.values()) else FEW
        old, new = (self._shelves.runs.after(job.id, after, limit + 1) for job in (self._earlier, self._run))
        # Where a side goes on, nobody knows yet what is behind its last page.
        upto = min((side[limit - 1].fingerprint for side in (old, new) if len(side) > limit), default=None)
        return self.judged(_paired(old, new, upto)), upto

    def one(self, fingerprint: int) -> PageChange | None:
        """What became of one URL; None when neither run knows it."""
        old, new = (
            self._shelves.runs.seen(job.id, [fingerprint]).get(fingerprint) for job in (self._earlier, self._run)
        )
        return next(iter(self.judged([(old, new)], redirects=True)), None)

    def judged(self, pairs: Iterable[Pair], *, redirects: bool = False) -> list[PageChange]:
        """What became of these, each as it was before and is now; `redirects` that stayed such if they are wanted."""
        told = [pair for pair in pairs if any(pair) and (redirects or not _is_pointer(pair))]
        gone = self._absent_now.of([old for old, new in told if old and not new])
        come = self._absent_before.of([new for old, new in told if new and not old])
        both = [(old, new) for old, new in told if old and new and _must_be_read(old, new)]
        before, now = (
            self._digests(self._earlier, [old for old, _ in both]),
            self._digests(self._run, [new for _, new in both]),
        )
        found: list[PageChange] = []
        for old, new in told:
            if old and new:
                found.append(_compared(old, new, before.get(old.fingerprint), now.get(new.fingerprint)))
            elif old:
                found.append(_missing(old, gone[old.fingerprint]))
            elif new:
                found.append(_come(new, come[new.fingerprint]))
        return found

    def _digests(self, job: JobRow, pages: Sequence[Seen]) -> dict[int, int | str]:
        """Of each page; or why there is none."""
        if self._made[job.id]:
            known = {page.fingerprint: page.digest for page in pages if is_current(page.digest)}
        else:
            known = dict[int, int | None]()
        found: dict[int, int | str] = {name: digest for name, digest in known.items() if digest is not None}
        wanted = [page.fingerprint for page in pages if page.fingerprint not in found]
        rows = self._shelves.pages.pages_of(job.id, wanted) if wanted else {}
        for name, row in rows.items():
            try:
                found[name] = self._texts[job.id].read(row).digest
            except FetchError as exc:
                found[name] = exc.reason
        return found

    def diff(self, change: PageChange) -> TextDiff:
        """What was added to a page's text and removed from it, without noise."""
        try:
            before, after = (
                self._said(job, page) for job, page in ((self._earlier, change.before), (self._run, change.after))
            )
        except FetchError as exc:
            return TextDiff(note=f"there is no text to compare: {exc.reason} ({exc.detail})")
        if before.lines is None or after.lines is None:
            return TextDiff(note="it is no text: only whether its bytes are the same can be told")
        return diff_of(before.lines, after.lines)

    def _said(self, job: JobRow, page: Seen | None) -> Said:
        """A page that there is not says nothing, and neither does a redirect."""
        row = self._shelves.pages.page(job.id, page.fingerprint) if page else None
        if row is None or row.redirect:
            return Said(0, ())
        return self._texts[job.id].read(row, TEXT_CHARS)


def _paired(old: Sequence[Seen], new: Sequence[Seen], upto: int | None) -> list[Pair]:
    """The pages of both sides up to a fingerprint, in its order."""
    sides = [
        {page.fingerprint: page for page in side if upto is None or page.fingerprint <= upto} for side in (old, new)
    ]
    return [(sides[0].get(name), sides[1].get(name)) for name in sorted(sides[0].keys() | sides[1].keys())]


def _is_pointer(pair: Pair) -> bool:
    """A redirect that is new, gone, or the same as before."""
    old, new = pair
    if old and new:
        return bool(old.redirect) and old.redirect == new.redirect
    only = old or new
    return only is not None and bool(only.redirect)


def _must_be_read(old: Seen, new: Seen) -> bool:
    """Neither a redirect, nor the same bytes."""
    return not old.redirect and not new.redirect and not new.has_body_of(old)


def _compared(old: Seen, new: Seen, before: int | str | None, now: int | str | None) -> PageChange:
    if old.redirect or new.redirect:
        kind = Kind.UNCHANGED if old.redirect == new.redirect else Kind.CHANGED
        return PageChange(kind, old, new, "redirect", new.redirect or "")
    if new.has_body_of(old):
        return PageChange(Kind.UNCHANGED, old, new)
    if isinstance(before, int) and isinstance(now, int):
        if before != now:
            return PageChange(Kind.CHANGED, old, new, "content")
        if old.status != new.status:
            return PageChange(Kind.CHANGED, old, new, "status", f"{old.status} → {new.status}")
        return PageChange(Kind.UNCHANGED, old, new)
    why = next((each for each in (now, before) if isinstance(each, str)), "body_missing")
    return PageChange(Kind.UNKNOWN, old, new, why, "what it said is not kept, or cannot be read")


def _missing(old: Seen, absence: Absence) -> PageChange:
    if absence.certain:
        return PageChange(Kind.GONE, old, None, absence.reason)
    return PageChange(Kind.UNKNOWN, old, None, "not_reached", absence.reason)


def _come(new: Seen, absence: Absence) -> PageChange:
    if absence.certain:
        return PageChange(Kind.NEW, None, new, "" if absence.reason == NOT_LINKED else absence.reason)
    return PageChange(Kind.UNKNOWN, None, new, "not_reached_before", absence.reason)
