"""The API on a desk: real Valkey, database and archive; and a worker who takes what the test gives it for the web."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, cast
from uuid import uuid4

import orjson
from flask import Flask
from flask.testing import FlaskClient
from redis import exceptions
from werkzeug.test import TestResponse

from shoal.api.app import make_api
from shoal.core.access import Permission
from shoal.core.model import ALL_QUEUES, JobState, Lease, Outcome, Settlement
from shoal.errors import FetchError
from shoal.frontier.scripts import connect
from shoal.frontier.where import FrontierPlace
from shoal.settings import Settings
from shoal.store.archive import ArchiveWriter, Exchange
from shoal.store.items import ItemRow
from shoal.store.keys import KeyStore
from shoal.store.objects import Objects
from shoal.store.page_rows import PageRow
from shoal.store.remote import RemoteWriter
from shoal.wiring import Platform, redis_urls
from shoal.worker.delivery import Delivery
from shoal.worker.result import Result, given_up
from tests.contract.databases import a_sqlite
from tests.contract.keyspace import clear

V1 = "/api/v1/"
PROBLEM = "application/problem+json"
NOW_MS = 1_700_000_000_000
ALL = tuple(Permission)

Visit = Callable[[Lease], Result]


@dataclass(frozen=True, slots=True)
class Client:
    """Somebody who talks to the API, with a key or without."""

    http: FlaskClient
    headers: dict[str, str] = field(default_factory=dict[str, str])

    def ask(self, method: str, path: str, **options: Any) -> TestResponse:
        """`jobs` is /api/v1/jobs, and `/healthz` is what it is."""
        headers = {**self.headers, **options.pop("headers", {})}
        return self.http.open(path if path.startswith("/") else V1 + path, method=method, headers=headers, **options)

    def get(self, path: str, **options: Any) -> TestResponse:
        return self.ask("GET", path, **options)

    def post(self, path: str, json: Any = None, **options: Any) -> TestResponse:
        if json is not None:
            options |= {"data": orjson.dumps(json), "content_type": "application/json"}
        return self.ask("POST", path, **options)

    def patch(self, path: str, json: Any) -> TestResponse:
        return self.ask("PATCH", path, data=orjson.dumps(json), content_type="application/json")

    def delete(self, path: str) -> TestResponse:
        return self.ask("DELETE", path)

    def submit(self, *urls: str, **settings: Any) -> str:
        """The id of a new job: these very URLs, as fast as can be."""
        spec = {"urls": list(urls), "follow": False, "rate": "unlimited", **settings}
        return cast(str, told(self.post("jobs", spec), 202)["id"])

    def send(self, job: str, lines: str | bytes, kind: str = "text/plain") -> TestResponse:
        """More URLs for an open job."""
        return self.post(f"jobs/{job}/urls", data=lines, content_type=kind)

    def job(self, job: str) -> dict[str, Any]:
        return told(self.get(f"jobs/{job}"))

    def rows(self, path: str, limit: int = 1_000) -> Iterator[dict[str, Any]]:
        """All rows of a list, page by page, to its end at this moment."""
        cursor, mark = "", "&" if "?" in path else "?"
        while True:
            answer = told(self.get(f"{path}{mark}limit={limit}{cursor}"))
            yield from answer["data"]
            if not answer["more"]:
                return
            cursor = f"&cursor={answer['cursor']}"


@dataclass(frozen=True, slots=True)
class Desk(Client):
    """An API in this process and everything behind it; as a client it has no key."""

    platform: Platform = field(kw_only=True)
    app: Flask = field(kw_only=True)
    rings: list[tuple[str, str]] = field(kw_only=True)
    """(queue, request id) of every doorbell."""
    archive: ArchiveWriter = field(kw_only=True)

    def client(self, key: str | None = None) -> Client:
        """Another one, for a thread or a tenant of its own."""
        return Client(self.app.test_client(), {"Authorization": f"Bearer {key}"} if key else {})

    def make_key(
        self, *scopes: Permission, tenant: str = "default", rate: float = 0.0, label: str = "test"
    ) -> tuple[str, Client]:
        """(the key, a client that has it)"""
        keys = KeyStore(self.platform.engine)
        key = keys.create(label=label, tenant=tenant, scopes=scopes or ALL, rate=rate, created_ms=1)
        return key, self.client(key)

    def state(self, job: str) -> JobState:
        return self.platform.control.job(job).state

    def work(self, visit: Visit | None = None, *, at_most: int = 1_000_000) -> list[str]:
        """Lease, "fetch", store and settle until nothing waits; returns the URLs in the order of their leases."""
        delivery = Delivery(self.platform.frontier, self.platform.pages, self.archive, self.platform.ending.finalise)
        fetched: list[str] = []
        while len(fetched) < at_most and (leases := self._lease(min(500, at_most - len(fetched)))):
            delivery.deliver([(visit or page)(lease) for lease in leases])
            fetched += [str(lease.request.url) for lease in leases]
        return fetched

    def _lease(self, limit: int) -> tuple[Lease, ...]:
        return self.platform.frontier.lease(queues=ALL_QUEUES, limit=limit, lease_for=timedelta(minutes=1)).leases


@contextmanager
def a_desk(valkey_url: str, home: Path, database_url: str | None = None, **settings: Any) -> Generator[Desk]:
    """A fresh API: a keyspace, a database and an archive of its own."""
    home.mkdir(exist_ok=True)
    given: dict[str, Any] = {"prefix": f"api-{uuid4().hex[:10]}", **settings}
    chosen = Settings(home=home, redis_url=valkey_url, database_url=database_url or a_sqlite(home), **given)
    rings: list[tuple[str, str]] = []
    frontier = FrontierPlace(redis_urls(chosen).frontier, chosen.prefix, chosen.shard_urls).frontier()
    platform = Platform.open(chosen, frontier, lambda queue, request_id="": rings.append((queue, request_id)))
    platform.archive.prepare()
    app = make_api(platform)
    archive = _writer(chosen)
    try:
        yield Desk(app.test_client(), platform=platform, app=app, rings=rings, archive=archive)
    finally:
        archive.end()
        platform.close()
        if "prefix" not in settings:  # or another desk has it as well
            _forget(chosen)


def _forget(settings: Settings) -> None:
    """The keyspace goes: a server full of other tests' keys takes more than a round or two to look through.

    Unless the test has ended the server, and all keys with it.
    """
    with suppress(exceptions.ConnectionError), connect(redis_urls(settings).frontier) as client:
        clear(client, settings.prefix)


def _writer(settings: Settings) -> ArchiveWriter:
    """One that names no owner: tests see when the housekeeping does."""
    if place := settings.archive_place:
        return RemoteWriter(settings.archive_path, Objects(place), settings.segment_bytes)
    return ArchiveWriter(settings.archive_path, settings.segment_bytes)


# --- answers ---------------------------------------------------------------------------------------------------------


def told(response: TestResponse, status: int = 200) -> Any:
    """The JSON of an answer with this status."""
    assert response.status_code == status, (response.status_code, response.get_data()[:2_000])
    assert response.mimetype == "application/json"
    return orjson.loads(response.get_data())


def refused(response: TestResponse, status: int) -> dict[str, Any]:
    """The problem details of an answer with this status."""
    assert response.status_code == status, (response.status_code, response.get_data()[:2_000])
    assert response.mimetype == PROBLEM
    problem: dict[str, Any] = orjson.loads(response.get_data())
    assert problem["status"] == status
    assert problem["title"]
    assert problem["detail"]
    assert problem["request_id"] == response.headers["X-Request-ID"]
    assert "Traceback" not in str(problem)
    return problem


def flaws(response: TestResponse) -> dict[str, str]:
    """Field → what is wrong with it."""
    return {error["field"]: error["detail"] for error in refused(response, 422)["errors"]}


# --- what a worker brings --------------------------------------------------------------------------------------------


def page(
    lease: Lease,
    *,
    status: int = 200,
    body: bytes = b"<h1>hello</h1>",
    kind: str = "text/html; charset=utf-8",
    headers: tuple[tuple[bytes, bytes], ...] = (),
    item: dict[str, Any] | None = None,
    archived: bool = True,
    fetched_ms: int = NOW_MS,
    **changes: Any,
) -> Result:
    """The page was there."""
    url = lease.request.url
    row = PageRow(
        job=lease.job,
        fingerprint=url.fingerprint,
        url=str(url),
        host=url.host,
        status=status,
        depth=lease.request.depth,
        attempt=lease.request.attempt,
        content_type=kind,
        charset="utf-8",
        size=len(body),
        elapsed_ms=1.5,
        fetched_ms=fetched_ms,
        **changes,
    )
    exchange = Exchange(row.url, status, "OK", headers, body, fetched_ms) if archived else None
    items = (ItemRow(lease.job, row.fingerprint, 0, row.url, item),) if item is not None else ()
    return Result(Settlement(lease, Outcome.DONE, received=len(body)), row, exchange, items)


def dead(lease: Lease, reason: str = "http_404", outcome: Outcome = Outcome.DEAD) -> Result:
    """The page was not to be had."""
    return given_up(lease, outcome, FetchError(reason, "on purpose"))


def some_dead(*ends: str, reason: str = "http_404") -> Visit:
    """Every page is there, but for those whose URLs end like this."""
    return lambda lease: dead(lease, reason) if str(lease.request.url).endswith(ends) else page(lease)
