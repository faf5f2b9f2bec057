"""The way of a lost job back into the frontier.

It is made known again and goes a fixed way: it recalls its pages and dead letters, so that nothing stored is fetched
again and the sums are right; then the submitted URLs are admitted again, then the links of the stored pages, read from
the bodies that were kept or from the links that were written down in their place. The way is cut into short steps, its
last place stands in the frontier, and every step is safe to repeat.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import structlog

from shoal.core.model import Candidate, JobState, Outcome, Request
from shoal.core.url import parse
from shoal.errors import FetchError, NotFound, RedisUnavailable
from shoal.extract.trail import Trail
from shoal.frontier.frontier import Frontier
from shoal.frontier.likeness import Said
from shoal.frontier.rebuild import Lost, Rebuild, Recalled
from shoal.intake.intake import heed
from shoal.intake.replay import on_their_way, untried
from shoal.intake.ring import Ring, announce
from shoal.recovery.onward import asked_at, body_wanted, onward, reason_of, received_of, saved_of, written_down
from shoal.recovery.place import Part, Place
from shoal.store.archive import ArchiveReader
from shoal.store.dead import requests_of
from shoal.store.job_rows import JobRow
from shoal.store.jobs import JobStore
from shoal.store.page_rows import DeadLetter, PageRow
from shoal.store.pages import PageStore
from shoal.store.submissions import REPLAY

log = structlog.get_logger()

ROWS_AT_ONCE = 1_000
OPEN_SEGMENTS = 8
BODIES_AT_ONCE = 50


@dataclass(slots=True)
class Rebuilt:
    """What was done for a job."""

    job: str
    recalled: int = 0
    """Pages and dead letters that are stored."""
    admitted: int = 0
    """URLs that wait again."""
    walked: int = 0
    """Pages whose links were found again."""
    missing: int = 0
    """Pages whose bodies are not there any more: their links are lost, unless others have them too."""
    seconds: float = 0.0
    complete: bool = False


@dataclass(slots=True)
class _Way:
    """One process' work on one job."""

    row: JobRow
    trail: Trail
    done: Rebuilt
    left_at: str = ""
    """Where this process has left it; if it is elsewhere, what was sent since may be lost again."""


class WayBack:
    """Brings lost jobs back, a batch of rows at a time."""

    def __init__(
        self,
        frontier: Frontier,
        rebuild: Rebuild,
        jobs: JobStore,
        pages: PageStore,
        archive: ArchiveReader,
        finalise: Callable[[str], None],
        ring: Ring,
    ) -> None:
        self._frontier = frontier
        self._rebuild = rebuild
        self._jobs = jobs
        self._pages = pages
        self._archive = archive
        self.finalise = finalise
        """Of an ended job: its last sums into the database."""
        self._ring = ring
        self._ways: dict[str, _Way] = {}

    def begin(self, job: str, *, force: bool = False, claim: str = "") -> bool:
        """Make a job known again that is to be rebuilt; one that the frontier knows is left alone, unless forced.

        Under a claim, it is forced for as long as that is ours (Overtaken).
        """
        row = self._jobs.get(job)
        if row is None or row.state.ended:
            return False
        if force or claim:
            self._rebuild.drop(job, claim)
        if not self.make_known(row):
            return False
        row = self._jobs.get(job)
        if row is None or row.state.ended:  # meanwhile: then it must not come back
            self._rebuild.drop(job)
            return False
        heed(self._frontier, row)
        log.warning("rebuild_started", job=job, request_id=row.request_id)
        return True

    def make_known(self, row: JobRow) -> bool:
        """A lost job as it was when the database last heard of it, all its rows still to be recalled."""
        self._ways.pop(row.id, None)
        status = row.status
        lost = Lost(
            row.id,
            row.spec,
            row.tenant,
            row.state,
            row.open,
            self._pages.count_known(row.id) + self._jobs.submissions.count_urls(row.id),
            row.created_ms,
            status.started_ms if status else None,
            status.rested_ms if status else 0,
            status.now_ms if status and row.state is JobState.PAUSED else None,
        )
        return self._rebuild.begin(lost, str(Place.first()))

    def send_links(self, job: str, pages: Sequence[int], wanted: Callable[[str], bool]) -> None:
        """Links of these stored pages, to such hosts, into the frontier once more."""
        row = self._jobs.get(job)
        if row is None or row.state.ended:
            return
        trail, found = Trail.of(row.spec), list[Candidate]()
        with self._archive.kept_open(OPEN_SEGMENTS) as archive:
            for page, links in self._pages.stored({job: pages}):
                try:
                    ref = body_wanted(trail, page)
                    found += onward(trail, page, archive.read(ref) if ref else None)[0]
                except (NotFound, FetchError) as exc:
                    log.warning("links_lost", job=job, url=page.url, error=str(exc))
                found += written_down(links)
        found += written_down(self._pages.links_beside(job, pages))
        report = self._frontier.admit(job, [each for each in found if wanted(each.url.host)], owing=True)
        if report.sent and report.sent.owed:
            raise RedisUnavailable(f"links of job {job} cannot be sent: a shard is away")

    # --- step by step ---------------------------------------------------------------------------------------------

    def recall(self, job: str) -> None:
        """All that is stored of a job that is being rebuilt counts again; who ends it then ends it with its sums."""
        while (place := self._rebuild.places([job])[0]) and Place.read(place).part.recalls:
            self.step(job)

    def run(self, job: str, tell: Callable[[Rebuilt], None] = lambda _: None) -> Rebuilt:
        """All steps of a job that is being rebuilt."""
        while not (done := self.step(job)).complete:
            tell(done)
        return done

    def step(self, job: str) -> Rebuilt:
        """A batch of rows further; says what this process has done so far."""
        started = time.monotonic()
        way = self._way(job)
        (text,) = self._rebuild.places([job])
        if not text:  # somebody else was faster, or it was cancelled
            way.done.complete = True
        else:
            try:
                place = Place.read(text)
                if text != way.left_at:
                    way.trail = Trail.of(way.row.spec)
                self._move(way, place, self._carry_on(way, place))
            except BaseException:
                self._ways.pop(job, None)  # its memory of links knows some that did not arrive
                raise
        way.done.seconds += time.monotonic() - started
        if way.done.complete:
            self._ways.pop(job, None)
        return way.done

    def _way(self, job: str) -> _Way:
        if job not in self._ways:
            row = self._jobs.get(job)
            if row is None:
                self._rebuild.drop(job)
                raise NotFound(f"there is no job {job!r}")
            self._ways[job] = _Way(row, Trail.of(row.spec), Rebuilt(job))
        return self._ways[job]

    def _move(self, way: _Way, place: Place, to: Place | None) -> None:
        row, done = way.row, way.done
        now, ended = self._rebuild.advance(row.id, str(place), str(to) if to else "")
        way.left_at = str(to)
        if now:
            return
        done.complete = True
        if place.part is Part.FOUND:
            log.warning("job_rebuilt", job=row.id, request_id=row.request_id, recalled=done.recalled,
                        admitted=done.admitted, missing=done.missing)  # fmt: skip
        if ended:
            self.finalise(row.id)
        announce(self._ring, row.spec.queue, row.request_id)

    def _carry_on(self, way: _Way, place: Place) -> Place | None:
        """Do the next batch; the place behind it, None at the end."""
        match place.part:
            case Part.DROP:
                return self._start_over(way)
            case Part.PAGES:
                return self._recall_pages(way, place)
            case Part.LETTERS:
                return self._recall_letters(way, place)
            case Part.REPLAYS:
                return self._recall_replays(way, place)
            case Part.URLS:
                return self._admit_submission(way, place)
            case Part.LINKS:
                return self._admit_links(way, place)
            case Part.FOUND:
                return self._admit_found(way, place)

    def _start_over(self, way: _Way) -> None:
        """Somebody was cut short while he dropped it."""
        if not self.begin(way.row.id, force=True):
            self._rebuild.drop(way.row.id)

    # --- what is stored -------------------------------------------------------------------------------------------

    def _recall_pages(self, way: _Way, place: Place) -> Place:
        rows = self._pages.pages_after(way.row.id, place.last, ROWS_AT_ONCE)
        if not rows:
            return place.at(Part.LETTERS)
        way.done.recalled += self._rebuild.recall(way.row.id, [_page(page) for _, page in rows])
        self._frontier.resemble(_said(way.row, [page for _, page in rows]))
        return place.behind(rows[-1][0])

    def _recall_letters(self, way: _Way, place: Place) -> Place:
        rows = self._pages.letters_after(way.row.id, place.last, ROWS_AT_ONCE)
        if not rows:
            return place.at(Part.REPLAYS)
        way.done.recalled += self._rebuild.recall(way.row.id, [_letter(letter) for _, letter in rows])
        return place.behind(rows[-1][0])

    def _recall_replays(self, way: _Way, place: Place) -> Place:
        """Dead letters on their way back have no row, and count as dead until they are carried out."""
        job = way.row.id
        for dead in on_their_way(self._jobs, job):
            self._rebuild.recall(job, [_replayed(*each) for each in untried(self._pages, job, dead)])
        return place.at(Part.URLS)

    # --- what is to be fetched ------------------------------------------------------------------------------------

    def _admit_submission(self, way: _Way, place: Place) -> Place:
        job = way.row.id
        found = self._jobs.submissions.after(job, place.last)
        if found is None:
            page, links = self._pages.newest(job)  # what comes after these came to a job that was known
            return place.at(Part.LINKS, page) if page else place.at(Part.FOUND, links)
        submission, carried_out = found
        if submission.kind != REPLAY:
            report = self._frontier.admit_submitted(job, [parse(line) for line in submission.lines])
            way.done.admitted += report.admitted
        elif carried_out:
            self._admit(way, [request for request, _ in requests_of(submission.lines)])
        return place.behind(submission.id)

    def _admit_links(self, way: _Way, place: Place) -> Place:
        job = way.row.id
        rows = self._pages.pages_after(job, place.last, BODIES_AT_ONCE)
        candidates, duplicates = list[Candidate](), 0
        with self._archive.kept_open(OPEN_SEGMENTS) as archive:
            for number, page in rows:
                if not place.covers(number):
                    break
                found, known = self._onward(way, page, archive)
                candidates += found
                duplicates += known
        self._admit(way, candidates, duplicates)
        if rows and rows[-1][0] < place.upto:
            return place.behind(rows[-1][0])
        _, links = self._pages.newest(job)
        return place.at(Part.FOUND, links)

    def _onward(self, way: _Way, page: PageRow, archive: ArchiveReader) -> tuple[list[Candidate], int]:
        """Where a stored page leads to."""
        way.done.walked += 1
        try:
            ref = body_wanted(way.trail, page)
            return onward(way.trail, page, archive.read(ref) if ref else None)
        except (NotFound, FetchError) as exc:
            way.done.missing += 1
            log.warning("links_lost", job=page.job, url=page.url, error=str(exc))
            return [], 0

    def _admit_found(self, way: _Way, place: Place) -> Place | None:
        rows = self._pages.links_after(way.row.id, place.last, ROWS_AT_ONCE) if place.upto else []
        candidates = written_down(found for number, found in rows if place.covers(number))
        way.done.walked += len(rows)
        self._admit(way, candidates)
        return place.behind(rows[-1][0]) if rows and rows[-1][0] < place.upto else None

    def _admit(self, way: _Way, candidates: Sequence[Candidate], duplicates: int = 0) -> None:
        if candidates or duplicates:
            way.done.admitted += self._frontier.admit(way.row.id, candidates, duplicates).admitted


def _said(row: JobRow, pages: Sequence[PageRow]) -> list[Said]:
    """What its pages say that are like none before them: others are held against these."""
    alike = row.spec.duplicates
    if alike is None:
        return []
    return [
        Said(row.id, page.fingerprint, page.likeness, alike.distance)
        for page in pages
        if page.likeness and page.duplicate_of is None
    ]


def _page(page: PageRow) -> Recalled:
    reason = f"done:{reason_of(page)}" if reason_of(page) else ""
    received, saved = received_of(page), saved_of(page)
    return Recalled(page.fingerprint, page.host, "done", reason, received, asked_at(page), saved)


def _letter(letter: DeadLetter) -> Recalled:
    dead = letter.outcome == Outcome.DEAD.value
    reason = f"{letter.outcome}:{letter.reason}"
    return Recalled(letter.fingerprint, letter.host, "dead" if dead else "dropped", reason, 0, letter.at_ms)


def _replayed(request: Request, reason: str) -> Recalled:
    return Recalled(request.url.fingerprint, request.url.host, "dead", f"{Outcome.DEAD.value}:{reason}")
