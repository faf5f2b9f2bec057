"""`shoal up`: everything on one machine. Embedded Redis, API, workers, and one more worker for the housekeeping.

What dies is started again after a pause that grows; what cannot start at all ends the command. Nothing outlives it.
"""

from __future__ import annotations

import http.client
import json as jsonlib
import time
from pathlib import Path
from types import TracebackType
from typing import Annotated
from urllib.parse import urlsplit

import typer

from shoal.cli import options as opt
from shoal.cli.children import Child, Post
from shoal.cli.interrupts import Interrupts, noted_interrupts
from shoal.cli.ops import Host, Port
from shoal.cli.run import DEFAULT_WORKERS
from shoal.cli.talk import print_json, say
from shoal.core.model import ALL_QUEUES, CONTROL_QUEUE
from shoal.errors import ShoalError
from shoal.settings import Settings, read_settings

POLL_S = 0.1
START_S = 60.0
"""For the first answer of the API."""

ApiWorkers = Annotated[
    int | None, typer.Option("--api-workers", min=1, max=64,
                             help="API processes. [env var: SHOAL_API_WORKERS; default: 1]"),
]  # fmt: skip


def up(
    host: Host = None,
    port: Port = None,
    workers: opt.Workers = DEFAULT_WORKERS,
    api_workers: ApiWorkers = None,
    json: opt.Json = False,
) -> None:
    """Run all of Shoal on this machine: API, workers and housekeeping, with an embedded Redis unless you have one.

    shoal up --port 8080 --workers 4
    """
    from shoal.api.serve import check_exposure, check_port
    from shoal.redis_risks import warn_of_risks
    from shoal.wiring import with_redis

    settings = read_settings(api_host=host, api_port=port, api_workers=api_workers)
    say("starting: Redis, the API and the workers …" if workers else "starting: Redis and the API …")
    with noted_interrupts() as interrupts, with_redis(settings) as chosen:
        warn_of_risks(chosen)
        check_exposure(settings)
        check_port(settings)
        interrupts.check()
        with Staff(settings, workers) as staff:
            url = _wait_until_ready(staff, interrupts)
            if url is not None:
                _tell(url, staff, as_json=json)
            while not interrupts.asked:
                staff.tend()
                time.sleep(POLL_S)
            say("stopping: what is under way may end (Ctrl-C again to stop at once) …")


class Staff:
    """The children of `shoal up`."""

    def __init__(self, settings: Settings, workers: int) -> None:
        self.logs = settings.home / "logs"
        api = {
            "SHOAL_API_HOST": settings.api_host,
            "SHOAL_API_PORT": str(settings.api_port),
            "SHOAL_API_WORKERS": str(settings.api_workers),
        }
        worker = {"SHOAL_QUEUES": ",".join(ALL_QUEUES), "SHOAL_CONCURRENCY": str(workers), "SHOAL_BEAT": "false"}
        control = {"SHOAL_QUEUES": CONTROL_QUEUE, "SHOAL_CONCURRENCY": "1", "SHOAL_BEAT": "true"}
        self.api = self._post("api", "shoal.api", settings, api)
        self.posts = [self.api, self._post("control", "shoal.worker", settings, control)]
        if workers:
            self.posts.append(self._post("worker", "shoal.worker", settings, worker))

    def _post(self, name: str, module: str, settings: Settings, variables: dict[str, str]) -> Post:
        log: Path = self.logs / f"{name}.log"
        return Post(name, Child(module, log, settings.home, variables, settings.grace_seconds))

    def __enter__(self) -> Staff:
        for post in self.posts:
            post.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self._stop()
        finally:
            for post in self.posts:
                post.child.kill()

    def _stop(self) -> None:
        for post in self.posts:
            post.child.ask_to_stop()
        for post in self.posts:
            post.child.wait()

    def check(self) -> None:
        """Raise when one could not start."""
        for post in self.posts:
            if (code := post.child.code) is not None:
                raise ShoalError(
                    f"the {post.name} could not start (code {code}); its log: {post.child.log}\n{post.child.tail()}"
                )

    def tend(self) -> None:
        for post in self.posts:
            post.tend()


def _wait_until_ready(staff: Staff, interrupts: Interrupts) -> str | None:
    """The API's address once it answers there; None when the user did not wait for it."""
    deadline = time.monotonic() + START_S
    while not interrupts.asked:
        staff.check()
        url = _announced(staff.api.child)
        if url is not None and _answers(url):
            staff.api.child.keep(SHOAL_API_PORT=str(urlsplit(url).port))  # also when it is started again
            return url
        if time.monotonic() > deadline:
            raise ShoalError(f"the api does not answer; its log: {staff.api.child.log}\n{staff.api.child.tail()}")
        time.sleep(POLL_S)
    return None


def _announced(api: Child) -> str | None:
    """The address that the API has found for itself: it says so in its log."""
    for line in api.written().splitlines():
        if '"api_ready"' in line:
            return jsonlib.loads(line)["url"]
    return None


def _answers(url: str) -> bool:
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=2)
    try:
        connection.request("GET", "/healthz")
        return connection.getresponse().status == http.client.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _tell(url: str, staff: Staff, *, as_json: bool) -> None:
    api, docs = f"{url}/api/v1", f"{url}/openapi/"
    say(f"running: {', '.join(post.name for post in staff.posts)}")
    say(f"  dashboard: {url}/")
    say(f"  api:       {api}")
    say(f"  docs:      {docs}")
    say(f"  logs:      {staff.logs}")
    say("Ctrl-C stops")
    if as_json:
        print_json({"url": url, "api": api, "docs": docs, "logs": str(staff.logs)})
