"""What became of one URL of a job: gathered from its rows, else looked for in the frontier, else worked out.

Rows tell what has ended, the frontier what has not. What a rule or a budget leaves out is not kept one by one: it is
worked out by the job's rules, held against its sums, and told as such.
"""

from __future__ import annotations

from collections.abc import Iterable
from shlex import quote

from shoal.core.explanation import Explanation, Step, Verdict
from shoal.core.frozen import frozen
from shoal.core.ledger import Ask
from shoal.core.model import JobState, Outcome
from shoal.core.reuse import SKEW_MS
from shoal.core.url import Url, parse
from shoal.explain.left_out import FOR_LINKS, left_out
from shoal.explain.origin import Facts, origin_steps
from shoal.explain.rows import ask_steps, letter_step, page_steps, replay_step
from shoal.explain.rules import robots_word, scope_step, would_happen
from shoal.explain.waiting import ended_step, lost_step, waiting_steps
from shoal.frontier.watch import Watch
from shoal.frontier.whereabouts import Found, Sighting, Where, Whereabouts
from shoal.hosts import Hosts
from shoal.store.extractions import ExtractionStore
from shoal.store.job_rows import JobRow
from shoal.store.page_rows import DeadLetter, PageRow
from shoal.store.robots import RobotsStore
from shoal.store.tables import FIRST_VERSION
from shoal.store.traces import Traces

_VERDICTS = {Where.QUEUED: Verdict.QUEUED, Where.DELAYED: Verdict.DELAYED, Where.LEASED: Verdict.LEASED}
_OUTCOMES = {Outcome.ROBOTS.value: Verdict.ROBOTS, Outcome.FILTERED.value: Verdict.FILTERED}
_UNKNOWN = Sighting(0, None)


@frozen
class _Asked:
    """The question."""

    row: JobRow
    text: str
    url: Url

    def answer(
        self, verdict: Verdict, steps: Iterable[Step], summary: str = "", *, certain: bool = True
    ) -> Explanation:
        told = tuple(steps)
        first = [] if self.text.strip() == str(self.url) else [_canonical_step(self.text, self.url)]
        job, url = self.row.id, str(self.url)
        return Explanation(job, self.text, url, verdict, summary or told[-1].reason, (*first, *told), certain)


class Explainer:
    """Explains URLs of jobs."""

    def __init__(
        self,
        traces: Traces,
        whereabouts: Whereabouts,
        robots: RobotsStore,
        extractions: ExtractionStore,
        hosts: Hosts,
        watch: Watch,
    ) -> None:
        self._traces = traces
        self._whereabouts = whereabouts
        self._robots = robots
        self._extractions = extractions
        self._hosts = hosts
        self._watch = watch

    def explain(self, row: JobRow, text: str) -> Explanation:
        """The way of a URL through a job, whose row has its present state; raises BadUrl."""
        asked = _Asked(row, text, parse(text, drop_tracking=row.spec.drop_tracking))
        if ended := self._ended(asked):
            return ended
        sighting = _UNKNOWN if row.state.ended else self._whereabouts.look(row.id, asked.url)
        if sighting.found:
            return self._waiting(asked, sighting, sighting.found)
        if sighting.seen and (ended := self._ended(asked)):  # it has come to its end while it was looked for
            return ended
        return self._without_trace(asked, sighting)

    # --- what has ended ------------------------------------------------------------------------------------------

    def _ended(self, asked: _Asked) -> Explanation | None:
        job, fingerprint = asked.row.id, asked.url.fingerprint
        if page := self._traces.page(job, fingerprint):
            return self._stored(asked, page)
        if letter := self._traces.letter(job, fingerprint):
            return self._given_up(asked, letter)
        return None

    def _stored(self, asked: _Asked, page: PageRow) -> Explanation:
        row = asked.row
        versions = [FIRST_VERSION, *(each.version for each in self._extractions.of_job(row.id))]
        counts = self._traces.item_counts(row.id, page.fingerprint, versions)
        steps = [
            *self._way(asked, Facts.of(page), self._traces.asks(row.id, asked.url, _last_asked(page))),
            *page_steps(self._traces, row.spec, page, counts),
        ]
        if page.redirect:
            steps.append(self._target_step(asked, page.redirect))
            return asked.answer(Verdict.REDIRECTED, steps, f"it points to {steps[-1].reason}")
        fetched = next(step.reason for step in steps if step.name == "fetched")
        if carried := next((step.reason for step in steps if step.name == "carried_over"), ""):
            fetched = f"{fetched}; {carried}"
        alike = next((f"; {step.reason}" for step in steps if step.name == "duplicate"), "")
        return asked.answer(Verdict.STORED, steps, f"{fetched}{alike}")

    def _target_step(self, asked: _Asked, redirect: str) -> Step:
        """What became of the URL that a redirect leads to; its own explanation says more."""
        target, row = parse(redirect), asked.row
        if page := self._traces.page(row.id, target.fingerprint):
            told = "which redirects in turn" if page.redirect else "which is stored"
        elif letter := self._traces.letter(row.id, target.fingerprint):
            told = f"which ended as {letter.outcome}: {letter.reason}"
        elif refusal := scope_step(row.spec, target):
            told = f"which is out of scope: {refusal.reason}"
        else:
            told = f"which has no page: shoal explain {row.id} {quote(redirect)} tells why"
        return Step("target", f"{redirect}, {told}", detail={"url": redirect})

    def _given_up(self, asked: _Asked, letter: DeadLetter) -> Explanation:
        row, url = asked.row, asked.url
        word = robots_word(self._robots.load(url.origin), url) if letter.reason == "robots_disallowed" else None
        steps = [
            *self._way(asked, Facts.of(letter), self._traces.asks(row.id, url, letter.at_ms)),
            letter_step(letter, word.group if word else ""),
        ]
        summary = steps[-1].reason
        if letter.outcome == Outcome.DEAD.value:
            steps.append(replay_step(letter, row.state))
        return asked.answer(_OUTCOMES.get(letter.outcome, Verdict.FAILED), steps, summary)

    def _way(self, asked: _Asked, facts: Facts, asks: Iterable[Ask]) -> list[Step]:
        """How it came, and each time that it was asked for, in the order of time: it may have been replayed between."""
        origin, *replays = origin_steps(self._traces, asked.row.id, asked.url, facts)
        return [origin, *sorted((*ask_steps(asks), *replays), key=lambda step: step.at_ms or 0)]

    # --- what has not --------------------------------------------------------------------------------------------

    def _waiting(self, asked: _Asked, sighting: Sighting, found: Found) -> Explanation:
        row, request = asked.row, found.request
        tried = request.attempt or request.render or request.losses or found.where is Where.DELAYED
        asks = self._traces.asks(row.id, asked.url, sighting.now_ms) if tried else ()
        waiting = list(waiting_steps(sighting, found, self._hosts, self._watch, row))
        steps = [*self._way(asked, Facts.of(request), asks), *waiting]
        place = next(step for step in waiting if step.name == found.where.value)
        last = waiting[-1]
        summary = place.reason if last is place else f"{place.reason}; {last.reason}"
        return asked.answer(_VERDICTS[found.where], steps, summary)

    # --- what left nothing ---------------------------------------------------------------------------------------

    def _without_trace(self, asked: _Asked, sighting: Sighting) -> Explanation:
        row, url = asked.row, asked.url
        submitted = list(origin_steps(self._traces, row.id, url, None))
        if not row.state.ended and (sighting.state is None or sighting.rebuilding):
            return asked.answer(Verdict.MOVING, [*submitted, lost_step(row, sighting)], certain=False)
        met = sighting.seen or bool(submitted) or (self._unmet(row) if row.state.ended else False)
        guess = left_out(row, url, met=met, submitted=bool(submitted))
        if guess and met is not False:
            certain = guess.certain and not sighting.unsearched
            steps = [*submitted, guess.step, *(() if met else self._besides(asked))]
            return asked.answer(guess.verdict, steps, guess.step.reason, certain=certain)
        if not met:
            return self._never_seen(asked, sighting, certain=met is False or row.state is not JobState.CANCELLED)
        if sighting.unsearched:
            told = f"queued for {url.host}, behind more requests than are looked through"
            return asked.answer(Verdict.QUEUED, [*submitted, Step("queued", told)], certain=False)
        told = "it is known, but has no row and no place" if row.state.ended else "it is between two places: ask again"
        return asked.answer(Verdict.MOVING, [*submitted, Step("moving", told)], certain=False)

    def _unmet(self, row: JobRow) -> bool | None:
        """False: it has not met what was not submitted. None: links or redirects may have led to it, nobody knows."""
        alone = row.status is not None and not (row.spec.goes_on or row.spec.spider or row.status.redirects)
        return False if alone and self._traces.names_all(row.id) else None

    def _besides(self, asked: _Asked) -> list[Step]:
        """What else would have stood in its way, since nobody knows how far it has come."""
        steps = would_happen(asked.row.spec, asked.url, asked.row.status, self._robots.load(asked.url.origin), {})
        return [step for step in steps if step.name in ("depth", "robots")]

    def _never_seen(self, asked: _Asked, sighting: Sighting, *, certain: bool) -> Explanation:
        row, url, status = asked.row, asked.url, asked.row.status
        steps = list(would_happen(row.spec, url, status, self._robots.load(url.origin), sighting.budget))
        against = next((step for step in steps if step.name == "filtered"), None)
        if row.state.ended:
            steps.append(ended_step(row, status))
        elif row.open and (against is None or against.detail["reason"] in FOR_LINKS):
            steps.append(Step("open", f"it can be added: shoal add {row.id} {quote(str(url))}", recorded=False))
        summary = "nobody submitted it, and no link to it was followed"
        if against:
            summary = f"{summary}; one would be {against.reason}"
        return asked.answer(Verdict.NEVER_SEEN, steps, summary, certain=certain)


def _last_asked(page: PageRow) -> int:
    """Up to when its host may have been asked; of a page that was carried over the time is Redis', not a worker's."""
    return page.fetched_ms if page.checked_ms is None else page.checked_ms + SKEW_MS


def _canonical_step(text: str, url: Url) -> Step:
    told = f"its canonical form, by which the job knows it, is {url}"
    return Step("canonical", told, detail={"asked": text, "canonical": str(url)})
