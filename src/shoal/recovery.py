"""The frontier rebuilt from the database and the archive, when it was emptied or has gone back in time.

A lost job is made known again and goes a fixed way: it recalls its pages and dead letters, so that nothing stored is
fetched again and the sums are right; then the submitted URLs are admitted again, then the links of the stored pages,
read from the bodies that were kept or from the links that were written down in their place. The way is cut into short
steps, its last place stands in the frontier, and every step is safe to repeat.

How it is noticed: each look raises a number in the frontier, and writes it down in the database. A number that is not
larger than the one written down says that the frontier is not the one that was there. Nothing is leased from a server
that was started anew before it was looked at: it would hand out what is stored already.

`docs/guides/recovery.md` is for people, ADR 0016 tells why.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import StrEnum

import structlog

from shoal.core.model import Candidate, JobState, Level, Outcome, Request
from shoal.core.url import parse
from shoal.errors import FetchError, NotFound, ShoalError, StoreUnavailable, Unavailable
from shoal.extract.trail import Trail
from shoal.fetch.port import Response
from shoal.frontier.frontier import Frontier
from shoal.frontier.rebuild import Lost, Rebuild, Recalled
from shoal.intake import Ring
from shoal.store.archive import ArchiveReader
from shoal.store.dead import requests_of
from shoal.store.epochs import Epochs
from shoal.store.jobs import JobRow, JobStore
from shoal.store.pages import DeadLetter, PageRow, PageStore
from shoal.store.submissions import REPLAY

log = structlog.get_logger()

PATIENCE = timedelta(seconds=10)
"""A job that was submitted within this time may still be on its way into the frontier."""
LATELY = timedelta(minutes=1)
"""A server that is started anew has lost less than this, or the number tells."""
STEP = timedelta(seconds=2)
"""So long works one call at the most, give or take a batch."""
ROWS_AT_ONCE = 1_000
BODIES_AT_ONCE = 50


class Part(StrEnum):
    """The parts of the way. The frontier takes no URLs of a job while it recalls."""

    DROP = "recall drop"
    """What is known of it is to be dropped first."""
    PAGES = "recall pages"
    LETTERS = "recall letters"
    REPLAYS = "recall replays"
    URLS = "admit urls"
    LINKS = "admit links"
    FOUND = "admit found"


@dataclass(frozen=True, slots=True)
class Place:
    """How far a job is rebuilt."""

    part: Part
    last: int = 0
    """The id of the last row behind it."""
    upto: int = 0
    """The last row that matters; 0: all that there are."""
    token: str = "-"
    """Of this attempt: a job can be lost once more."""

    @classmethod
    def first(cls) -> Place:
        return cls(Part.PAGES, token=secrets.token_hex(4))

    @classmethod
    def read(cls, text: str) -> Place:
        part, last, upto, token = text.rsplit(" ", 3)
        return cls(Part(part), int(last), int(upto), token)

    def __str__(self) -> str:
        return f"{self.part} {self.last} {self.upto} {self.token}"

    def at(self, part: Part, upto: int = 0) -> Place:
        """The beginning of another part."""
        return Place(part, 0, upto, self.token)

    def behind(self, row: int) -> Place:
        return replace(self, last=row)

    def covers(self, row: int) -> bool:
        return not self.upto or row <= self.upto


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


class Recovery:
    """Finds lost jobs and brings them back."""

    def __init__(
        self,
        frontier: Frontier,
        rebuild: Rebuild,
        epochs: Epochs,
        jobs: JobStore,
        pages: PageStore,
        archive: ArchiveReader,
        finalise: Callable[[str], None],
        ring: Ring,
    ) -> None:
        self._frontier = frontier
        self._rebuild = rebuild
        self._epochs = epochs
        self._jobs = jobs
        self._pages = pages
        self._archive = archive
        self._finalise = finalise
        self._ring = ring
        self._ways: dict[str, _Way] = {}

    # --- has the frontier lost anything? --------------------------------------------------------------------------

    def tick(self, length: timedelta = STEP) -> bool:
        """Look for lost jobs, and go on with what is under way for so long; True when there is more to do."""
        self.look()
        deadline = time.monotonic() + length.total_seconds()
        for job in self.under_way():
            try:
                while time.monotonic() < deadline and not self.step(job).complete:
                    pass
            except ShoalError as exc:
                log.warning("rebuild_failed", job=job, error=str(exc))
        return bool(self.under_way())

    def look(self) -> None:
        """Find out whether the frontier is the one that was there, and begin with the jobs that it has lost."""
        run, before = self._rebuild.server(), self._rebuild.trusted()
        last = self._epochs.last()  # first: whoever looks at the same time only raises both
        epoch = self._rebuild.next_epoch()
        if epoch > last:
            self._epochs.note(epoch)
            if before not in ("", run):
                self._catch_up()
            self._rebuild.trust(run)
            self._begin_unknown(_now_ms() - _ms(PATIENCE))
        elif self._rebuild.claim():
            log.warning("frontier_lost", epoch=epoch, last=last)
            try:
                self._begin_all()
                self._rebuild.set_epoch(last + 1)  # last: who is cut short before this is followed by another
                self._rebuild.trust(run)
            finally:
                self._rebuild.unclaim()

    def under_way(self) -> list[str]:
        """Jobs that are being rebuilt."""
        known = self._frontier.known_jobs()
        return [job for job, place in zip(known, self._rebuild.places(known), strict=True) if place]

    def _begin_all(self) -> None:
        """Everything that the frontier knows is older than the database, or nothing is left of it."""
        for job in self._jobs.gone(self._frontier.known_jobs()):
            self._rebuild.drop(job)
        for job in self._jobs.living():
            try:
                self.begin(job, force=True)
            except StoreUnavailable as exc:  # of this one? It is dropped, so that the next look finds it missing
                self._jobs.ping()
                self._rebuild.drop(job)
                log.warning("rebuild_failed", job=job, error=str(exc))

    def _catch_up(self) -> None:
        """A server that was started anew may have lost what came after the last look.

        Requests that it has again are fetched again, and lead on as before; but not what it never heard of, nor more
        pages than were leased.
        """
        for job, submission in self._jobs.submissions.latest(_ms(LATELY)):
            if submission.kind == REPLAY:
                self._frontier.replay(job, str(submission.id), requests_of(submission.lines))
            else:
                self._frontier.admit_submitted(job, [parse(line) for line in submission.lines])
        for job in self._jobs.living():
            status = self._frontier.status(job)
            if status and self._pages.count(job) > status.counters.done + status.counters.leased:
                self.begin(job, force=True)

    def _begin_unknown(self, before_ms: int) -> None:
        living = self._jobs.living(before_ms)
        for job, place in zip(living, self._rebuild.places(living), strict=True):
            if place is None and not self._is_cut_short(job):
                self.begin(job)

    def _is_cut_short(self, job: str) -> bool:
        """The frontier has never had it: its submission will be completed."""
        return next(self._jobs.submissions.waiting(job), None) is not None and not self._jobs.submissions.was_admitted(
            job
        )

    # --- the way back ---------------------------------------------------------------------------------------------

    def begin(self, job: str, *, force: bool = False) -> bool:
        """Make a job known again that is to be rebuilt; one that the frontier knows is left alone, unless forced."""
        row = self._jobs.get(job)
        if row is None or row.state.ended:
            return False
        if force:
            self._rebuild.drop(job)
        if not self.make_known(row):
            return False
        row = self._jobs.get(job)
        if row is None or row.state.ended:  # meanwhile: then it must not come back
            self._rebuild.drop(job)
            return False
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
            status.started_ms if status else None,
            status.rested_ms if status else 0,
            status.now_ms if status and row.state is JobState.PAUSED else None,
        )
        return self._rebuild.begin(lost, str(Place.first()))

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
            self._finalise(row.id)
        try:
            self._ring(row.spec.queue, row.request_id)
        except Unavailable as exc:
            log.warning("ring_failed", queue=row.spec.queue, error=str(exc))

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
        self._rebuild.drop(way.row.id)
        if not way.row.state.ended:
            self.make_known(way.row)

    # --- what is stored -------------------------------------------------------------------------------------------

    def _recall_pages(self, way: _Way, place: Place) -> Place:
        rows = self._pages.pages_after(way.row.id, place.last, ROWS_AT_ONCE)
        if not rows:
            return place.at(Part.LETTERS)
        way.done.recalled += self._rebuild.recall(way.row.id, [_page(page) for _, page in rows])
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
        for submission in self._jobs.submissions.waiting(job):
            if submission.kind == REPLAY:
                dead = requests_of(submission.lines)
                known = self._pages.known(job, [request.url.fingerprint for request, _ in dead])
                self._rebuild.recall(job, list(_replayed(dead, known)))
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
        for number, page in rows:
            if not place.covers(number):
                break
            found, known = self._onward(way, page)
            candidates += found
            duplicates += known
        self._admit(way, candidates, duplicates)
        if rows and rows[-1][0] < place.upto:
            return place.behind(rows[-1][0])
        _, links = self._pages.newest(job)
        return place.at(Part.FOUND, links)

    def _onward(self, way: _Way, page: PageRow) -> tuple[list[Candidate], int]:
        """Where a stored page leads to."""
        url = parse(page.url)
        way.done.walked += 1
        if page.redirect:
            level = Level.NORMAL if page.depth else Level.FIRST
            request = Request(url, page.depth, level, hops=page.hops)
            return [way.trail.links.follow(parse(page.redirect), request)], 0
        if page.archive is None or not way.trail.follows_from(page.depth):
            return [], 0
        try:
            kept = self._archive.read(page.archive)
            answer = Response(url, kept.status, kept.http_reason, kept.headers, kept.body, timedelta())
            return way.trail.again(page.depth, answer)
        except (NotFound, FetchError) as exc:
            way.done.missing += 1
            log.warning("links_lost", job=page.job, url=page.url, error=str(exc))
            return [], 0

    def _admit_found(self, way: _Way, place: Place) -> Place | None:
        rows = self._pages.links_after(way.row.id, place.last, ROWS_AT_ONCE) if place.upto else []
        candidates: list[Candidate] = [
            Request(parse(url), found.depth) for number, found in rows if place.covers(number) for url in found.urls
        ]
        way.done.walked += len(rows)
        self._admit(way, candidates)
        return place.behind(rows[-1][0]) if rows and rows[-1][0] < place.upto else None

    def _admit(self, way: _Way, candidates: Sequence[Candidate], duplicates: int = 0) -> None:
        if candidates or duplicates:
            way.done.admitted += self._frontier.admit(way.row.id, candidates, duplicates).admitted


def _page(page: PageRow) -> Recalled:
    reason = "done:redirect" if page.redirect else ""
    asked = page.fetched_ms - round(page.elapsed_ms)
    return Recalled(page.fingerprint, page.host, "done", reason, page.received or page.size, asked)


def _letter(letter: DeadLetter) -> Recalled:
    dead = letter.outcome == Outcome.DEAD.value
    reason = f"{letter.outcome}:{letter.reason}"
    return Recalled(letter.fingerprint, letter.host, "dead" if dead else "dropped", reason, 0, letter.at_ms)


def _replayed(dead: Iterable[tuple[Request, str]], known: set[int]) -> Iterator[Recalled]:
    for request, reason in dead:
        url = request.url
        if url.fingerprint not in known:
            yield Recalled(url.fingerprint, url.host, "dead", f"{Outcome.DEAD.value}:{reason}")


def _ms(duration: timedelta) -> int:
    return duration // timedelta(milliseconds=1)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
