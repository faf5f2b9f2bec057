"""Did everything hold? A pure function of the evidence; every promise is a check of its own, and each can fail."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain

from shoal.core.frozen import frozen
from shoal.core.totals import Totals
from shoal.drill.evidence import Evidence, Held, Injected
from shoal.drill.kind import LOSSES, Kind
from shoal.drill.plan import PARALLEL
from shoal.drill.rates import Window, worst_windows
from shoal.drill.site import ROBOTS

JITTER_S = 0.4
"""Between its lease and its arrival a request may lose this much time on a busy machine, and so come close to the next
one. A rate that is not kept exceeds any such number sooner or later."""
SHOWN = 3
"""Examples in an explanation."""
_LOOSENING = (Kind.FREEZE_WORKER, Kind.FREEZE_CHILD, *LOSSES)


@frozen
class Recovery:
    """How long a fault was felt."""

    fault: Injected
    seconds: float | None
    """Until pages were stored again, and all that was leased then; None: never."""


@frozen
class Verdict:
    """What was found, and what is wrong with it."""

    urls: int
    stored: int
    lost: tuple[str, ...]
    doubled: tuple[str, ...]
    refetched: int
    """Fetches beyond the first of each URL."""
    leased: int
    """Those of them whose URL had been leased at a fault."""
    leased_anew: tuple[str, ...]
    """URLs fetched again because an older Redis had forgotten that they were settled."""
    unexplained: tuple[str, ...]
    """URLs fetched more often than faults hit their leases, for no such reason."""
    worst: Window | None
    """The window in which a host's rate was exceeded most."""
    rates_kept: bool
    reconciles: bool
    recoveries: tuple[Recovery, ...]
    problems: tuple[str, ...]
    """Everything that does not hold, in words."""

    @property
    def holds(self) -> bool:
        return not self.problems

    @property
    def longest_s(self) -> float | None:
        """The longest recovery; None if a fault was never recovered from."""
        seconds = [recovery.seconds for recovery in self.recoveries]
        return None if None in seconds else max((each for each in seconds if each is not None), default=0.0)


def judge(evidence: Evidence) -> Verdict:
    """Hold the site's log and the store against what was promised."""
    counts = Counter(evidence.rows)
    fetches = Counter(hit.url for hit in evidence.hits if hit.path != ROBOTS)
    worst = next(iter(worst_windows(evidence.hits, evidence.plan.rate)), None)
    excess = _beyond_leases(fetches, evidence)
    anew = _leased_anew(excess, evidence)
    refetched = sum(fetches.values()) - len(fetches)
    findings = Verdict(
        urls=len(evidence.urls),
        stored=len(counts),
        lost=tuple(sorted(evidence.urls - counts.keys())),
        doubled=tuple(sorted(url for url, count in counts.items() if count > 1)),
        refetched=refetched,
        leased=refetched - sum(excess.values()),
        leased_anew=tuple(sorted(anew)),
        unexplained=tuple(sorted(excess.keys() - anew)),
        worst=worst,
        rates_kept=worst is None or worst.excess <= _allowed_excess(evidence, worst),
        reconciles=_reconciles(evidence, len(counts)),
        recoveries=_recoveries(evidence),
        problems=(),
    )
    return _with_problems(findings, evidence)


def _with_problems(found: Verdict, evidence: Evidence) -> Verdict:
    return replace(found, problems=tuple(chain(*(about(found, evidence) for about in _ABOUT))))


def _about_pages(found: Verdict, evidence: Evidence) -> Iterator[str]:
    strangers = sorted(set(evidence.rows) - evidence.urls)
    for what, urls in (
        ("lost", found.lost),
        ("stored twice", found.doubled),
        ("stored, though the site does not have them", strangers),
        ("fetched again without having been leased at a fault", found.unexplained),
        ("whose row points to bytes that are not there", evidence.unreadable),
        ("given up", evidence.dead),
    ):
        if urls:
            yield f"{len(urls)} URLs {what}: {_some(urls)}"


def _about_the_crawl(found: Verdict, evidence: Evidence) -> Iterator[str]:
    plan = evidence.plan
    if not evidence.finished:
        yield f"the job had not ended after {evidence.ended - evidence.began:.0f} s"
    if not found.reconciles:
        yield f"the sums do not reconcile: {evidence.counters}"
    if not found.rates_kept and found.worst:
        yield f"the rate of {plan.rate:g} a second was not kept: {found.worst.describe()}"
    if len(evidence.faults) < plan.faults:
        yield f"{plan.faults - len(evidence.faults)} faults of {plan.faults} did not come"
    for recovery in found.recoveries:
        if recovery.seconds is None:
            yield f"no recovery from: {recovery.fault.kind}"
        elif recovery.seconds > plan.most_recovery_s:
            yield f"{recovery.seconds:.1f} s to recover from: {recovery.fault.kind} (at most {plan.most_recovery_s:g})"


def _about_workers(_found: Verdict, evidence: Evidence) -> Iterator[str]:
    """Whoever was told to stop has ended well, and nobody else has ended."""
    for fault in evidence.faults:
        who = f"worker {(fault.worker or 0) + 1}, told to stop,"
        if fault.kind is Kind.STOP_WORKER and fault.exit_code is None:
            yield f"{who} did not end"
        elif fault.kind is Kind.STOP_WORKER and fault.exit_code:
            yield f"{who} ended with code {fault.exit_code}"
    yield from evidence.unasked


_ABOUT = (_about_pages, _about_the_crawl, _about_workers)


def _beyond_leases(fetches: Mapping[str, int], evidence: Evidence) -> dict[str, int]:
    """Each lease that is hit by a fault can cost one more fetch of its URL, and only one; a stop costs none."""
    costly = [fault.held for fault in evidence.faults if fault.kind.may_cost_fetches]
    held = Counter(held.url for held in frozenset[Held]().union(*costly))
    return {url: count - 1 - held[url] for url, count in fetches.items() if count - 1 > held[url]}


def _leased_anew(excess: Mapping[str, int], evidence: Evidence) -> set[str]:
    """A Redis that is older by a moment has leases again that were settled in it, and not more than can be leased at
    once: if more is missing, it is filled again.
    """
    found: set[str] = set()
    for fault in evidence.faults:
        if fault.kind is Kind.CUT_REDIS:
            before = {hit.url for hit in evidence.hits if hit.at <= fault.began}
            after = {hit.url for hit in evidence.hits if hit.at > fault.began}
            again = sorted(url for url, count in excess.items() if count == 1 and url in before & after)
            found.update(again[: evidence.plan.most_leased])
    return found


def _allowed_excess(evidence: Evidence, window: Window) -> float:
    """What the way to the site can add. Besides, a thawed worker sends at once what it was about to send when it froze,
    and a Redis without memory does not know what is under way: both are at most as many as may be under way.
    """
    moments = [fault.ended for fault in evidence.faults if fault.kind in _LOOSENING]
    loosened = any(window.start - JITTER_S <= at <= window.end + JITTER_S for at in moments)
    return JITTER_S * evidence.plan.rate + (PARALLEL if loosened else 0)


def _reconciles(evidence: Evidence, stored: int) -> bool:
    """The frontier's sums agree with themselves and with the rows; all that was discovered is accounted for."""
    sums = evidence.counters
    if sums is None:
        return False
    totals = Totals.of(sums, evidence.reasons)
    if not (sums.reconciles and totals.reconciles) or totals.pending:
        return False
    return totals.fetched == stored and sums.admitted == len(evidence.urls)


def _recoveries(evidence: Evidence) -> tuple[Recovery, ...]:
    return tuple(Recovery(fault, _recovery_s(fault, evidence)) for fault in evidence.faults)


def _recovery_s(fault: Injected, evidence: Evidence) -> float | None:
    """From the fault, or from the end of the last outage in between, until pages are stored again and all that was
    leased then is stored. What was leased anew, and hit by a later fault, counts there.
    """
    later = [other for other in evidence.faults if other.began > fault.began]
    hit_anew = {held.url for other in later for held in other.held - fault.held}
    urls = {held.url for held in fault.held} - hit_anew
    if not urls <= evidence.stored_at.keys():
        return None
    next_page = min((at for at in evidence.stored_at.values() if at >= fault.over), default=fault.over)
    recovered = max([fault.over, next_page, *(evidence.stored_at[url] for url in urls)])
    outages = [other.ended for other in later if not other.kind.hits_worker and other.ended < recovered]
    return recovered - max([fault.over, *outages])


def _some(urls: Sequence[str]) -> str:
    more = f" and {len(urls) - SHOWN} more" if len(urls) > SHOWN else ""
    return ", ".join(urls[:SHOWN]) + more
