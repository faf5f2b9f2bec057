"""A fleet as it is set up for real: Redis, PostgreSQL, the API, workers and the crawled site on a host each.

Only names of hosts and passwords lead from one to another. The archive is a folder that all hosts have mounted.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from benchmarks.politeness.target import Target
from shoal.core.access import Permission
from shoal.frontier.scripts import answers
from shoal.settings import Settings
from shoal.store.database import open_database
from shoal.store.keys import KeyStore
from shoal.wiring import Platform, open_platform
from tests import servers
from tests.chaos.moved_postgres import move_postgres
from tests.chaos.namespaces import Child, Host, Network, a_network
from tests.chaos.target import PORT, host_names
from tests.command import REPOSITORY
from tests.postgres import own_server
from tests.waiting import wait_until

PASSWORD = "not-a-secret"
WORKERS = ("worker1", "worker2", "worker3")
NEWCOMER = "worker4"
HOSTS = ("redis", "database", "api", "target", "desk", *WORKERS, NEWCOMER)
API_PORT = 8000
QUEUES = "http.high,http.batch,http.slow"
STARTS_WITHIN = timedelta(seconds=60)


@dataclass(frozen=True, slots=True)
class Answered:
    """By the API."""

    status: int
    body: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Machines:
    """The fleet, and what can be seen of it from outside."""

    network: Network
    folder: Path
    lease_s: float
    sockets: int
    platform: Platform
    """Over sockets in the file system, which no fault of the network touches."""
    site: Target
    hosts: dict[str, Host]
    key: str
    """For who sits at the desk."""
    workers: dict[str, Child] = field(default_factory=dict[str, Child])

    def start_worker(self, name: str) -> None:
        """On a host of its own, which is there from now on."""
        host = self.hosts[name] = self.network.plug_in(name)
        self.workers[name] = host.start(*_shoal("worker", "--queues", QUEUES), variables=self._variables(host))

    def start_api(self) -> None:
        """With the housekeeping beside it."""
        host = self.hosts["api"]
        variables = self._variables(host)
        host.start(*_shoal("worker", "--queues", "control", "--beat"), variables=variables)
        host.start(*_shoal("api", "--host", "0.0.0.0", "--port", str(API_PORT)), variables=variables)

    @property
    def present(self) -> int:
        """Workers that fetch, and have reported."""
        return sum("http.batch" in worker.queues for worker in self.platform.watch.workers())

    @property
    def is_ready(self) -> bool:
        try:
            return self.ask("/readyz").status == 200
        except URLError:
            return False

    def ask(self, path: str, body: Mapping[str, Any] | None = None) -> Answered:
        """The API, from the desk."""
        url = f"http://{self.hosts['api'].address}:{API_PORT}{path}"
        headers = {"Authorization": f"Bearer {self.key}", "Content-Type": "application/json"}
        request = Request(url, None if body is None else json.dumps(body).encode(), headers)
        return self.hosts["desk"].ask(lambda: _answer_to(request))

    def run(self, *args: str) -> str:
        """A command on the API's host."""
        host = self.hosts["api"]
        return host.run(*_shoal(*args), variables=self._variables(host))

    def _variables(self, host: Host) -> dict[str, str]:
        return {
            **{name: value for name, value in os.environ.items() if not name.startswith("SHOAL_")},
            "SHOAL_HOME": str(self.folder / host.name),
            "SHOAL_REDIS_URL": f"redis://:{PASSWORD}@redis:6379",
            "SHOAL_DATABASE_URL": f"postgresql://shoal:{PASSWORD}@database/shoal",
            "SHOAL_ARCHIVE_DIR": str(self.folder / "archive"),
            "SHOAL_EGRESS_ALLOW": self.network.address("target"),
            "SHOAL_LEASE_SECONDS": str(self.lease_s),
            "SHOAL_SOCKETS": str(self.sockets),
            "SHOAL_CONTACT": host.name,
        }


@contextmanager
def machines(
    folder: Path, lease_s: float, sockets: int, *, hosts: int, pages: int, submitted: int
) -> Generator[Machines]:
    """Three workers with so many sockets each, ready for jobs."""
    with own_server(folder) as database, a_network(folder, HOSTS, {"target": host_names(hosts)}) as network:
        plugged = {name: network.plug_in(name) for name in ("redis", "database", "api", "target", "desk")}
        redis_url = _start_redis(plugged["redis"], folder)
        database_url = move_postgres(database, plugged["database"], "shoal", PASSWORD)
        site = _start_site(plugged["target"], folder, hosts, pages, submitted)
        settings = Settings.model_validate(
            {
                "home": folder / "desk",
                "redis_url": redis_url,
                "database_url": database_url,
                "archive_dir": folder / "archive",
            }
        )
        with open_platform(settings, rings=False) as platform:
            fleet = Machines(network, folder, lease_s, sockets, platform, site, plugged, _make_key(database_url))
            for name in WORKERS:
                fleet.start_worker(name)
            fleet.start_api()
            wait_until(lambda: fleet.is_ready and fleet.present >= len(WORKERS), within=STARTS_WITHIN, poll_s=0.2)
            yield fleet


def _make_key(database_url: str) -> str:
    engine = open_database(database_url)
    try:
        scopes = (Permission.SUBMIT, Permission.READ, Permission.ADMIN)
        return KeyStore(engine).create(label="desk", tenant="default", scopes=scopes, rate=0, created_ms=0)
    finally:
        engine.dispose()


def _shoal(*args: str) -> tuple[str, ...]:
    return sys.executable, "-m", "shoal", *args


def _answer_to(request: Request) -> Answered:
    try:
        with urlopen(request, timeout=30) as response:
            return Answered(response.status, json.load(response))
    except HTTPError as exc:
        with exc:
            return Answered(exc.code, json.load(exc))


def _start_redis(host: Host, folder: Path) -> str:
    """Returns where it is for who is on the same machine."""
    socket = folder / "redis.socket"
    options = {"bind": "0.0.0.0", "requirepass": PASSWORD, "unixsocket": str(socket), "dir": str(folder), "save": ""}
    words = [word for name, value in options.items() for word in (f"--{name}", value)]
    host.start(servers.valkey(), *words, "--maxmemory-policy", "noeviction", variables=os.environ)
    url = f"unix://:{PASSWORD}@{socket}"
    wait_until(lambda: answers(url), within=STARTS_WITHIN, poll_s=0.1)
    return url


def _start_site(host: Host, folder: Path, *numbers: int) -> Target:
    log = folder / "target.jsonl"
    log.touch()
    words = [host.address, str(log), *map(str, numbers)]
    variables = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    host.start(sys.executable, "-m", "tests.chaos.target", *words, variables=variables)
    return Target(PORT, log)
