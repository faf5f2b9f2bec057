"""kill -9 of the API, again and again, while clients submit; workers, housekeeping and beat go on.

What a client was promised must be kept: every 202 that it saw is a job that finishes with exactly its URLs stored, and
every job that exists ends. A client whose connection breaks does not know what became of its submission, and goes on
with the next one.
"""

import http.client
import os
import random
import signal
import threading
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.api.client import Client, dump
from benchmarks.api.stage import BenchError, Stage, a_stage, stage_at
from benchmarks.process import free_port
from benchmarks.result import Row
from shoal.store.database import open_database
from shoal.store.job_rows import JobRow
from shoal.store.jobs import JobStore
from shoal.store.pages import PageStore
from tests.site.generated import LinkedSite
from tests.site.server import Server, serve

CLIENTS = 4
SITE_PAGES = 2_000
SEED = 1
LATE_S = 0.03
"""A kill comes up to so much later than the submission that it waits for, so that it hits any part of one."""
AWAY_S = 0.02
PATIENCE_S = 30.0
SETTLE_S = 180.0
"""For the jobs to end: the housekeeping takes a submission for cut short after ten seconds."""
MAX_JOBS = 100_000


@dataclass(frozen=True, slots=True)
class Drill:
    """How much is submitted, and how often the API is killed meanwhile."""

    submissions: int = 200
    kills: int = 12
    urls: int = 50
    """Of one submission."""
    seed: int = SEED


QUICK = Drill(submissions=12, kills=1, urls=10)


@dataclass(frozen=True, slots=True)
class Toll:
    """What came of it."""

    promised: int
    """Submissions that were answered with 202."""
    broken: int
    """Connections that broke in the middle of one."""
    refused: int
    """Submissions that were answered with anything else."""
    kills: int
    jobs: int
    """Jobs that exist."""
    repaired: int
    """Submissions that the housekeeping has completed."""
    lost: int
    """Promised jobs that do not exist, have not finished, or have not exactly their URLs stored."""
    unfinished: int
    """Existing jobs that have not finished, or have not exactly their URLs stored."""

    def describe(self) -> str:
        return (
            f"API killed {self.kills} ×, {self.promised} × 202, {self.broken} broken, {self.refused} refused, "
            f"{self.jobs} jobs, {self.repaired} repaired"
        )


def measure(quick: bool) -> list[Row]:
    """The drill on a home of its own."""
    drill = QUICK if quick else Drill()
    with a_stage() as stage:
        toll = run(stage, drill)
    what = f"{drill.submissions} submissions under kill -9 of the API"
    return [
        Row(f"{what}: promised jobs lost", toll.lost, "jobs", toll.describe(), at_most=0),
        Row(f"{what}: jobs unfinished", toll.unfinished, "jobs", f"of {toll.jobs}", at_most=0),
    ]


def run_at(home: Path, drill: Drill) -> Toll:
    """The drill on this home."""
    with stage_at(home) as stage:
        return run(stage, drill)


def run(stage: Stage, drill: Drill) -> Toll:
    """Submit and kill; then wait for the jobs and look at what they have stored."""
    with serve(LinkedSite(pages=SITE_PAGES, links=5, size=1_000)) as site, stage.workers():
        crowd = Crowd(drill, site, free_port())
        victim = Victim(stage, crowd.port)
        with victim, crowd.submitting():
            _kill_all(victim, crowd)
            crowd.wait()
        return _count(stage, crowd, victim.kills)


@dataclass(slots=True)
class Crowd:
    """Clients that share a number of submissions among them."""

    drill: Drill
    site: Server
    port: int
    begun: int = 0
    promised: dict[str, int] = field(default_factory=dict[str, int])
    """Job → number of the submission."""
    broken: int = 0
    refused: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)
    stop: threading.Event = field(default_factory=threading.Event)
    threads: list[threading.Thread] = field(default_factory=list[threading.Thread])

    @contextmanager
    def submitting(self) -> Generator[None]:
        self.threads = [threading.Thread(target=self._submit_all, name=f"client-{n}") for n in range(CLIENTS)]
        for thread in self.threads:
            thread.start()
        try:
            yield
        finally:
            self.stop.set()
            for thread in self.threads:
                thread.join()

    def wait(self) -> None:
        """Until all submissions are made."""
        deadline = time.monotonic() + SETTLE_S
        for thread in self.threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        if self.begun < self.drill.submissions:
            raise BenchError(f"after {SETTLE_S:.0f} s only {self.begun} submissions were made")

    def urls(self, number: int) -> list[str]:
        """Those of the submission with this number: a stretch of the site."""
        first = number * self.drill.urls
        return [self.site.link(f"/p/{(first + n) % (SITE_PAGES - 1) + 1}") for n in range(self.drill.urls)]

    def _submit_all(self) -> None:
        with Client(self.port, patience_s=PATIENCE_S) as client:
            while self._reached(client):
                with self.lock:
                    number = self.begun
                    self.begun += number < self.drill.submissions
                if number >= self.drill.submissions:
                    return
                self._submit(client, number)

    def _reached(self, client: Client) -> bool:
        """Wait until there is an API; no when it is time to stop."""
        while not self.stop.is_set():
            try:
                client.connect()
            except OSError:
                time.sleep(AWAY_S)
            else:
                return True
        return False

    def _submit(self, client: Client, number: int) -> None:
        spec = {"urls": self.urls(number), "name": str(number), "follow": False, "rate": "unlimited", "robots": False}
        try:
            answer = client.ask("POST", "/jobs", dump(spec))
        except (OSError, http.client.HTTPException):
            client.close()
            with self.lock:
                self.broken += 1
            return
        with self.lock:
            if answer.status == http.HTTPStatus.ACCEPTED:
                self.promised[answer.json["id"]] = number
            else:
                self.refused += 1


class Victim(ExitStack):
    """The API, which is killed with all its processes, and started again at once in the same place."""

    def __init__(self, stage: Stage, port: int) -> None:
        super().__init__()
        self._stage = stage
        self._port = port
        self.kills = 0

    def __enter__(self) -> "Victim":
        super().__enter__()
        self._start()
        return self

    def kill(self) -> None:
        os.killpg(self._api.child.pid, signal.SIGKILL)
        self._api.child.wait()
        self.kills += 1
        self._start()

    def _start(self) -> None:
        self._api = self.enter_context(self._stage.api(self._port, log=f"api-{self.kills}"))


def _kill_all(victim: Victim, crowd: Crowd) -> None:
    """One kill for each of some submissions chosen by lot, shortly after it was begun."""
    rng = random.Random(crowd.drill.seed)
    moments = sorted(rng.sample(range(1, crowd.drill.submissions), crowd.drill.kills))
    deadline = time.monotonic() + SETTLE_S
    for moment in moments:
        while crowd.begun < moment:
            if time.monotonic() > deadline:
                raise BenchError(f"after {SETTLE_S:.0f} s only {crowd.begun} submissions were made")
            time.sleep(0.001)
        time.sleep(rng.uniform(0, LATE_S))
        victim.kill()


def _count(stage: Stage, crowd: Crowd, kills: int) -> Toll:
    engine = open_database(stage.database_url)
    try:
        jobs, pages = JobStore(engine), PageStore(engine)
        rows = _ended(jobs)
        bad = {row.id for row in rows if not _is_whole(row, pages, crowd)}
        lost = [job for job in crowd.promised if job in bad or job not in {row.id for row in rows}]
    finally:
        engine.dispose()
    repaired = (stage.home / "control.log").read_text(errors="replace").count('"submission_completed"')
    promised = len(crowd.promised)
    return Toll(promised, crowd.broken, crowd.refused, kills, len(rows), repaired, len(lost), len(bad))


def _ended(jobs: JobStore) -> list[JobRow]:
    """All jobs, when they have ended or the time is over."""
    deadline = time.monotonic() + SETTLE_S
    while True:
        rows = jobs.newest(MAX_JOBS)
        if all(row.state.ended for row in rows) or time.monotonic() > deadline:
            return rows
        time.sleep(0.2)


def _is_whole(row: JobRow, pages: PageStore, crowd: Crowd) -> bool:
    stored = sorted(page.url for page in pages.pages(row.id))
    return row.state.value == "finished" and stored == sorted(crowd.urls(int(row.name)))
