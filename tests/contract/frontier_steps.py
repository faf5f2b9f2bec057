"""What may happen to a frontier: the steps of the state machine, with the arguments that it draws for them.

Redis' clock runs on its own, so that no draw may depend on what a lease gave: Hypothesis could not repeat it.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any, NamedTuple

from hypothesis import strategies as st

from shoal.core.manners import Manners, Signal
from shoal.core.model import ALL_QUEUES, Engine, Lane, Level, Outcome
from shoal.core.spec import JobSpec
from shoal.frontier.host_change import KEEP, HostChange

JOB_NAMES = ("j0", "j1", "j2")
HOST_NAMES = ("a.test", "b.test:8080", "[::1]:81")
WORKERS = 3

JOBS = st.sampled_from(JOB_NAMES)
HOSTS = st.sampled_from(HOST_NAMES)
HANDS = st.integers(0, WORKERS - 1)
SPECS = st.builds(
    JobSpec,
    lane=st.sampled_from(Lane),
    engine=st.sampled_from((Engine.AUTO, Engine.AUTO, Engine.HTTP, Engine.BROWSER)),
    rate=st.sampled_from(("unlimited", "unlimited", 200, 50, None)),
    parallel=st.sampled_from(("unlimited", "unlimited", 1, 3, None)),
    robots=st.booleans(),
    weight=st.sampled_from((0.5, 1, 3)),
    pages=st.sampled_from((None, None, 4, 25)),
    host_pages=st.sampled_from((None, None, None, 3, 10)),
)
MANNERS = Manners(rate=120, parallel=4, tenant_weights={"gold": 3})
TENANTS = st.sampled_from(("gold", "plain"))
SIGNALS = st.lists(st.sampled_from((*Signal, Signal.DOWN, Signal.OK)), min_size=1, max_size=3)
QUEUES = st.sampled_from(
    (
        *(ALL_QUEUES, ALL_QUEUES, ALL_QUEUES[::-1], ALL_QUEUES[:1], ALL_QUEUES[1:]),
        *(ALL_QUEUES[::2], ALL_QUEUES[1::2]),  # without a browser, and with nothing else
    )
)
OUTCOMES = st.lists(st.sampled_from((*Outcome, Outcome.DONE, Outcome.RETRY)), min_size=1, max_size=4)
SKIPS = st.integers(0, 4)
COUNTS = st.integers(1, 20)


def _durations(*ms: int) -> st.SearchStrategy[timedelta]:
    return st.sampled_from([timedelta(milliseconds=n) for n in ms])


LEASES_FOR = _durations(1, 20, 60_000)
HOLDS = _durations(0, 0, 0, 5, 25)

STEPS: dict[str, dict[str, st.SearchStrategy[Any]]] = {
    "create": {"name": JOBS, "spec": SPECS, "tenant": TENANTS},
    "admit": {
        "name": JOBS,
        "hosts": st.lists(HOSTS, min_size=1, unique=True),
        "first": st.integers(0, 60),
        "count": COUNTS,
        "level": st.sampled_from(Level),
        "every_nth_refused": st.sampled_from((0, 0, 3)),
        "duplicates": st.integers(0, 2),
        "render": st.sampled_from((False, False, True)),
    },
    "pause": {"name": JOBS},
    "resume": {"name": JOBS},
    "close": {"name": JOBS},
    "cancel": {"name": JOBS},
    "forget": {"name": JOBS},
    "restore": {"name": JOBS},
    "replay": {
        "name": JOBS,
        "hand": HANDS,
        "skip": st.sampled_from((0, 0, 1)),
        "count": COUNTS,
        "token": st.sampled_from("xyz"),
    },
    "configure_job": {"name": JOBS, "spec": SPECS},
    "configure_host": {
        "host": HOSTS,
        "change": st.builds(
            HostChange,
            rate=st.sampled_from((KEEP, None, None, 0, 200, 50)),
            parallel=st.sampled_from((KEEP, None, None, 0, 1, 3)),
            paused=st.sampled_from((KEEP, False, False, True)),
            hold=st.one_of(st.just(KEEP), HOLDS),
        ),
    },
    "learn_robots": {"host": HOSTS, "crawl_delay": st.sampled_from((None, 0.004, 0.03))},
    "lease": {"hand": HANDS, "queues": QUEUES, "limit": st.sampled_from((1, 4, 15, 60)), "lease_for": LEASES_FOR},
    "settle": {
        "hand": HANDS,
        "skip": SKIPS,
        "count": COUNTS,
        "outcomes": OUTCOMES,
        "delay": _durations(0, 2, 30),
        "hold": HOLDS,
        "again": st.sampled_from((0, 0, 2)),
        "signals": SIGNALS,
        "counts": st.sampled_from((True, True, False)),
        "latency": _durations(0, 1, 50, 4_000),
        "render": st.sampled_from((False, False, True)),
    },
    "release": {"hand": HANDS, "skip": SKIPS, "count": COUNTS, "again": st.sampled_from((0, 0, 2))},
    "renew": {"hand": HANDS, "lease_for": LEASES_FOR},
    "reap": {"limit": st.sampled_from((1, 2, 50))},
    "crash": {"hand": HANDS},
    "glance": {"queues": QUEUES},
    "wait": {"ms": st.integers(1, 5)},
    "let_pass": {"ms": st.sampled_from((20, 300, 2_100, 31_000, 400_000))},
}
OFTEN = ("admit", "lease", "settle")
SOMETIMES = ("release", "reap", "configure_host", "configure_job", "replay", "wait", "let_pass")
RARELY = (
    "create",
    "pause",
    "resume",
    "close",
    "cancel",
    "forget",
    "restore",
    "renew",
    "crash",
    "glance",
    "learn_robots",
)


class Step(NamedTuple):
    """One method of the machine, and what it is called with."""

    name: str
    arguments: dict[str, Any]


_CALLS = {name: st.builds(Step, st.just(name), st.fixed_dictionaries(arguments)) for name, arguments in STEPS.items()}
# One rule for all steps: of many, Hypothesis leaves out some in each example; without leases there is little to see.
ANY_STEP = st.sampled_from((*OFTEN * 4, *SOMETIMES * 2, *RARELY)).flatmap(_CALLS.__getitem__)
