"""How many worker processes would be useful now: as many as it takes to fetch what waits within a minute, as far as the
limits of its hosts allow.

A host that may be asked twice a second gives two pages a second, whoever asks. So pages a second are summed up over the
hosts that have work, each at its limits, and divided by what one process does: what busy ones have lately done, or,
while nobody is busy, what is usual. Hosts are a sample, each of which stands for several.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta

from shoal.core.fleet import QueueDepth, WorkerBeat
from shoal.core.frozen import frozen
from shoal.core.model import CONTROL_QUEUE, Engine, Lane, is_for_browser
from shoal.core.trouble import Trouble

HORIZON = timedelta(minutes=1)
"""A process that would have nothing to do after this time is not worth its start."""
HORIZON_S = HORIZON.total_seconds()
OVERDUE = timedelta(seconds=5)
"""Work that could have been handed out for so long finds no free worker."""
FULL = 0.8
"""So are workers that hold requests for this part of their sockets."""
USUAL_PACE = 200.0
"""Pages a second of a process without a browser, while no busy one says otherwise."""
USUAL_SOCKETS, USUAL_PAGES = 128, 4
"""Fetches at once of a process, and pages in its browser, while none says otherwise."""
USUAL_LATENCY_S, SLOW_LATENCY_S = 0.5, 2.0
"""Of hosts that have not answered yet; the second where they are slow, or pages are rendered."""
SLACK = 0.1
"""By so much one process more may be wanted before it is."""
SLIVER = 0.01
"""Of a process, wherever there is anything to do: somebody must be there."""
OPEN = "open"


@frozen
class SampledHost:
    """A host with work in a queue, and what it allows."""

    weight: float
    """It stands for so many."""
    waiting: int
    """Requests that wait for it."""
    rate: float = 0.0
    """Requests a second; 0 is unlimited."""
    parallel: int = 0
    """Requests at once; 0 is unlimited."""
    latency_ms: int = 0
    """0: nobody knows."""
    state: str = OPEN
    """Or `paused`, `held` for longer than the horizon, `down` behind its breaker."""
    shared: bool = False
    """Does it share its bucket with others of its domain?"""
    bucket: str = ""
    address: str = ""
    """Where it lives, when addresses are looked at."""


@frozen
class QueueSample:
    """Some of the hosts that have work in a queue and may be asked within the horizon."""

    queue: str
    hosts: tuple[SampledHost, ...] = ()
    retries: float = 0.0
    """Delayed requests that are due by then, whatever their hosts."""


@frozen
class Crew:
    """The processes that serve a queue."""

    processes: int = 0
    busy: int = 0
    """In a slice, for this queue or another."""
    places: float = 0.0
    """Fetches at once for this queue, in one process."""
    pace: float = 0.0
    """Pages a second of one that had hardly a free socket, lately; 0: none was so."""


@frozen
class QueueAdvice:
    """What a queue needs."""

    queue: str
    processes: int
    """That serve it."""
    busy: int
    need: float
    """Processes that it would keep busy; of queues that one worker serves, these add up."""
    why: str
    full: bool = False
    """Does work wait for a free worker?"""

    @property
    def useful(self) -> int:
        return whole(self.need)


@frozen
class KindAdvice:
    """What workers of one kind are needed for: all queues without a browser, or with one."""

    kind: str
    processes: int
    busy: int
    useful: int


@frozen
class Fleet:
    """All that is known when somebody asks."""

    depths: Sequence[QueueDepth]
    overdue: Mapping[str, timedelta]
    samples: Sequence[QueueSample]
    workers: Sequence[WorkerBeat] = ()
    troubles: Sequence[Trouble] = ()
    address_parallel: int = 0
    """Requests at once to one address; 0: any."""


@dataclass(slots=True)
class _Share:
    """What one sampled host, and those it stands for, give to a queue."""

    queue: str
    host: SampledHost
    latency_s: float
    flow: float = field(init=False)
    """Pages a second."""
    wanted: float = field(init=False)
    """The same if there were no limits."""

    def __post_init__(self) -> None:
        self.wanted = self.host.weight * self.host.waiting / HORIZON_S
        self.flow = min(self.wanted, self.host.weight * self.most)

    @property
    def most(self) -> float:
        """Pages a second that the host allows."""
        by_rate = self.host.rate or math.inf
        by_room = self.host.parallel / self.latency_s if self.host.parallel else math.inf
        return min(by_rate, by_room)


def whole(need: float) -> int:
    """As many processes as that takes."""
    return max(1, math.ceil(need - SLACK)) if need > 0 else 0


def advise(fleet: Fleet) -> list[QueueAdvice]:
    """What each queue needs."""
    shares = _shares(fleet)
    samples = {sample.queue: sample for sample in fleet.samples}
    advice: list[QueueAdvice] = []
    for depth in fleet.depths:
        sample = samples.get(depth.queue, QueueSample(depth.queue))
        crew = crew_of(depth.queue, fleet.workers)
        work = _Work(depth, sample, shares[depth.queue], fleet.overdue.get(depth.queue, timedelta()), crew)
        advice.append(_advice(work, fleet.troubles))
    return advice


def by_kind(advice: Sequence[QueueAdvice], workers: Sequence[WorkerBeat]) -> list[KindAdvice]:
    """What the queues of each engine need together. A worker that serves several of them is counted once."""
    kinds: list[KindAdvice] = []
    for engine in (Engine.HTTP, Engine.BROWSER):
        rows = [row for row in advice if is_for_browser(row.queue) == (engine is Engine.BROWSER)]
        names = {row.queue for row in rows}
        serving = [beat for beat in workers if names & set(beat.queues)]
        processes = sum(beat.processes for beat in serving)
        useful = whole(sum(row.need for row in rows))
        if processes and not any(row.full for row in rows):
            useful = min(useful, processes)
        if rows:
            kinds.append(KindAdvice(engine.value, processes, sum(beat.active for beat in serving), useful))
    return kinds


def crew_of(queue: str, workers: Sequence[WorkerBeat]) -> Crew:
    """The processes that serve a queue, taken together."""
    serving = [beat for beat in workers if queue in beat.queues]
    processes = sum(beat.processes for beat in serving)
    if not processes:
        return Crew(places=_usual_places(queue))
    places = sum(beat.processes * (beat.places(queue) or _usual_places(queue)) for beat in serving)
    shown = [beat for beat in serving if beat.pace and _tells_of(queue, beat)]
    known = sum(beat.processes for beat in shown)
    pace = sum(beat.processes * beat.pace for beat in shown) / known if known else 0.0
    return Crew(processes, sum(beat.active for beat in serving), places / processes, pace)


def _tells_of(queue: str, beat: WorkerBeat) -> bool:
    """Pages of one that fetches with and without a browser say nothing about the browser."""
    return not is_for_browser(queue) or all(is_for_browser(name) for name in beat.queues if name != CONTROL_QUEUE)


def _usual_places(queue: str) -> float:
    return USUAL_PAGES if is_for_browser(queue) else USUAL_SOCKETS


# --- what hosts allow -------------------------------------------------------------------------------------------------


def _shares(fleet: Fleet) -> defaultdict[str, list[_Share]]:
    """Of each queue. A limit that several hosts, jobs or queues share counts once."""
    every: list[_Share] = []
    queued = {depth.queue: depth.queued for depth in fleet.depths}
    for sample in fleet.samples:
        hosts = _no_more_than(queued.get(sample.queue, 0), [h for h in sample.hosts if h.state == OPEN and h.waiting])
        unknown_s = _mean_latency(hosts) or _usual_latency(sample.queue)
        every += [_Share(sample.queue, host, host.latency_ms / 1000 or unknown_s) for host in hosts]
    _keep_within(every, lambda share: share.host.bucket, _of_bucket)
    if fleet.address_parallel:
        at_once = fleet.address_parallel
        _keep_within(every, lambda share: share.host.address, lambda some: at_once * _times(some) / some[0].latency_s)
    found: defaultdict[str, list[_Share]] = defaultdict(list)
    for share in every:
        found[share.queue].append(share)
    return found


def _no_more_than(queued: int, hosts: Sequence[SampledHost]) -> list[SampledHost]:
    """A large job among small ones must not stand for others as large: what waits in all is known."""
    waiting = sum(host.weight * host.waiting for host in hosts)
    part = min(1.0, queued / waiting) if waiting else 1.0
    return [replace(host, weight=host.weight * part) for host in hosts]


def _keep_within(
    shares: Iterable[_Share], name: Callable[[_Share], str], limit: Callable[[list[_Share]], float]
) -> None:
    """Those with the same name get no more than the limit together."""
    groups: defaultdict[str, list[_Share]] = defaultdict(list)
    for share in shares:
        groups[name(share)].append(share)
    groups.pop("", None)
    for group in groups.values():
        flow, most = sum(share.flow for share in group), limit(group)
        if flow > most:
            for share in group:
                share.flow *= most / flow


def _of_bucket(shares: list[_Share]) -> float:
    """All that a bucket allows. One that hosts share and that is seen twice is one, and does not stand for others."""
    times = _times(shares) if any(share.host.shared for share in shares) else max(s.host.weight for s in shares)
    return max(share.most for share in shares) * times


def _times(shares: Sequence[_Share]) -> float:
    return shares[0].host.weight if len(shares) == 1 else 1.0


def _mean_latency(hosts: Sequence[SampledHost]) -> float:
    known = [host.latency_ms for host in hosts if host.latency_ms]
    return sum(known) / len(known) / 1000 if known else 0.0


def _usual_latency(queue: str) -> float:
    return SLOW_LATENCY_S if is_for_browser(queue) or queue.endswith(f".{Lane.SLOW}") else USUAL_LATENCY_S


# --- what a queue needs -----------------------------------------------------------------------------------------------


@frozen
class _Work:
    """One queue, and who serves it."""

    depth: QueueDepth
    sample: QueueSample
    shares: Sequence[_Share]
    overdue: timedelta
    crew: Crew

    @property
    def flow(self) -> float:
        """Pages a second that can be fetched."""
        return sum(share.flow for share in self.shares) + self.sample.retries / HORIZON_S

    @property
    def is_limited(self) -> bool:
        """Is it the hosts that allow no more? Else there is no more to do within the horizon."""
        wanted = sum(share.wanted for share in self.shares)
        return wanted > 1.1 * sum(share.flow for share in self.shares)

    @property
    def latency_s(self) -> float:
        """Of the pages that flow, on the average."""
        flow = sum(share.flow for share in self.shares)
        if not flow:
            return _usual_latency(self.depth.queue)
        return sum(share.flow * share.latency_s for share in self.shares) / flow

    @property
    def is_full(self) -> bool:
        """Does work wait for a free worker?"""
        if not self.crew.processes or not self.flow:
            return False
        taken = self.depth.leased >= FULL * self.crew.places * self.crew.processes
        return taken or self.overdue >= OVERDUE

    @property
    def is_measured(self) -> bool:
        """Do busy processes say what one can do?"""
        return self.is_full and self.crew.pace > 0

    @property
    def pace(self) -> float:
        """Pages a second that one process does, or could."""
        by_places = self.crew.places / self.latency_s
        usual = math.inf if is_for_browser(self.depth.queue) else USUAL_PACE
        return min(by_places, self.crew.pace if self.is_measured else max(self.crew.pace, usual))

    @property
    def has_any(self) -> bool:
        """Is there anything to do within the horizon? A host that is down must be looked at, too."""
        seen = any(host.state in (OPEN, "down") for host in self.sample.hosts)
        return seen or self.sample.retries > 0 or self.depth.leased > 0

    @property
    def need(self) -> float:
        """Processes, if nothing keeps them from working."""
        if not self.has_any:
            return 0.0
        held = min(self.depth.leased / self.crew.places, self.crew.processes)
        return max(self.flow / self.pace, held, SLIVER)


def _advice(work: _Work, troubles: Sequence[Trouble]) -> QueueAdvice:
    crew, need = work.crew, work.need
    advice = QueueAdvice(work.depth.queue, crew.processes, crew.busy, round(need, 2), "", work.is_full)
    if need and troubles and crew.processes:
        away = ", ".join(sorted({trouble.what.value for trouble in troubles}))
        why = f"workers cannot use what they need ({away}): more of them would wait as well"
        return replace(advice, need=round(min(need, crew.processes), 2), full=False, why=why)
    if crew.processes and not work.is_full:
        advice = replace(advice, need=round(min(need, crew.processes), 2))
    return replace(advice, why=_why(work))


def _why(work: _Work) -> str:
    if not work.need:
        waits = work.depth.queued + work.depth.delayed
        return "no host of what waits may be asked within a minute" if waits else "nothing waits"
    if not work.flow:
        return "what is under way comes to its end" if work.depth.leased else "a host that was down is looked at again"
    if not work.crew.processes:
        return f"{_demand(work)}; no worker serves it"
    if not work.is_full:
        return f"{_demand(work)}; no work waits for a free worker"
    does = "does" if work.is_measured else "may do"
    return f"{_demand(work)}; a process {does} {_number(work.pace)}"


def _demand(work: _Work) -> str:
    flow = _number(work.flow)
    if work.is_limited:
        return f"hosts at their limits give {flow} pages a second"
    return f"what waits is done within a minute at {flow} pages a second"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"
