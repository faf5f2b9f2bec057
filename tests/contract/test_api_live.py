"""What clients wait for: one page, now; and the life of a job as it happens."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest
import structlog
from werkzeug.test import TestResponse

from shoal.api.app import STOP_STREAMS
from shoal.api.scrape import MAX_SCRAPED
from shoal.core.model import JobState, Lease, Request
from shoal.core.url import parse
from shoal.errors import RedisUnavailable
from shoal.frontier.scripts import connect
from shoal.frontier.watch import Watch
from shoal.wiring import redis_urls
from shoal.worker.app import make_app
from shoal.worker.doorbell import Doorbell
from shoal.worker.result import Result
from shoal.worker.runtime import Lifeline, Runtime
from tests.contract.api import Client, Desk, Visit, a_desk, dead, flaws, page, refused, told
from tests.guards import HERE
from tests.site.generated import LinkedSite
from tests.site.server import serve
from tests.waiting import wait_until

URL = "http://shop.example/"
SOON = timedelta(seconds=10)


@pytest.fixture
def desk(valkey_url: str, tmp_path: Path) -> Generator[Desk]:
    with a_desk(valkey_url, tmp_path) as desk:
        yield desk
        desk.app.extensions[STOP_STREAMS]()


# --- one page, now ---------------------------------------------------------------------------------------------------


@contextmanager
def _working(desk: Desk, visit: Visit = page) -> Generator[None]:
    """A worker that fetches whatever is asked for."""
    stop = threading.Event()

    def work() -> None:
        while not stop.wait(0.01):
            desk.work(visit)

    with ThreadPoolExecutor(1) as pool:
        working = pool.submit(work)
        try:
            yield
        finally:
            stop.set()
            working.result(10)


def test_who_waits_gets_the_page(desk: Desk) -> None:
    with _working(desk, lambda lease: page(lease, item={"title": "hello"})):
        answer = desk.post("scrape?wait=10", {"url": URL, "fields": {"title": "h1"}})
    scraped = told(answer)
    assert (scraped["state"], scraped["error"], scraped["item"]) == ("finished", None, {"title": "hello"})
    assert (scraped["page"]["url"], scraped["page"]["status"]) == (URL, 200)
    assert answer.headers["Location"] == f"/api/v1/jobs/{scraped['id']}" == scraped["links"]["self"]
    assert scraped["request_id"] == answer.headers["X-Request-ID"]
    assert desk.get(scraped["page"]["body"]).get_data() == b"<h1>hello</h1>"


def test_who_waits_gets_all_items_of_the_page(desk: Desk) -> None:
    def visit(lease: Lease, count: int) -> Result:
        found = page(lease, item={"n": 0})
        return replace(found, items=tuple(replace(found.items[0], number=n, data={"n": n}) for n in range(count)))

    body = {"url": URL, "each": ".card", "fields": {"n": "h2"}}
    for count, more in ((0, False), (3, False), (MAX_SCRAPED, False), (MAX_SCRAPED + 1, True)):
        with _working(desk, partial(visit, count=count)):
            scraped = told(desk.post("scrape?wait=20", body))
        assert scraped["items"] == [{"n": n} for n in range(min(count, MAX_SCRAPED))]
        assert (scraped["item"], scraped["more"]) == ({"n": 0} if count else None, more)


def test_who_waits_is_told_that_the_page_was_not_read_in_full(desk: Desk) -> None:
    def unread(lease: Lease) -> Result:
        found = page(lease)
        return replace(found, settlement=replace(found.settlement, reason="too_complex"))

    with _working(desk, unread):
        scraped = told(desk.post("scrape?wait=10", {"url": URL, "fields": {"title": "h1"}}))
    assert (scraped["state"], scraped["page"]["url"], scraped["item"]) == ("finished", URL, None)
    assert (scraped["error"]["url"], scraped["error"]["reason"]) == (URL, "too_complex")
    assert "not read in full" in scraped["error"]["detail"]


def test_a_real_slice_answers_who_waits_and_its_rows_carry_the_request_id(valkey_url: str, tmp_path: Path) -> None:
    with a_desk(valkey_url, tmp_path, egress_allow=HERE) as desk:
        _scrape_for_real(desk)


def _scrape_for_real(desk: Desk) -> None:
    settings = desk.platform.settings
    bell = Doorbell(make_app(redis_urls(settings)), desk.platform.frontier)
    runtime = Runtime(settings, desk.platform, bell, Lifeline())
    body = {"url": "", "fields": {"title": "h1"}, "robots": False}
    try:
        with serve(LinkedSite(pages=3, links=2, size=500)) as site, ThreadPoolExecutor(1) as pool:
            ask = {"json": {**body, "url": site.url}, "headers": {"X-Request-ID": "trace-me"}}
            waiting = pool.submit(desk.client().post, "scrape?wait=20", **ask)
            wait_until(lambda: bool(desk.rings), within=SOON)  # before it, the job may be known and its URL not yet
            runtime.answer(desk.rings[0][0])
            scraped = told(waiting.result(30))
            assert len(site.hits) == 1
    finally:
        runtime.close()
    assert (scraped["page"]["status"], scraped["item"]) == (200, {"title": "Page 0"})
    assert scraped["page"]["request_id"] == scraped["request_id"] == "trace-me"
    assert b"<h1>Page 0</h1>" in desk.get(scraped["page"]["body"]).get_data()


def test_who_waits_gets_the_reason_why_there_is_none(desk: Desk) -> None:
    with _working(desk, lambda lease: dead(lease, "http_410")):
        scraped = told(desk.post("scrape?wait=10", {"url": URL}))
    assert (scraped["page"], scraped["item"]) == (None, None)
    assert (scraped["error"]["reason"], scraped["error"]["url"]) == ("http_410", URL)


def test_a_redirect_is_not_the_page(desk: Desk) -> None:
    def visit(lease: Lease) -> Result:
        if lease.request.url.target != "/":
            return page(lease)
        moved = page(lease, status=301, redirect=URL + "new")
        moved.candidates.append(Request(parse(URL + "new"), hops=1))
        return moved

    with _working(desk, visit):
        scraped = told(desk.post("scrape?wait=10", {"url": URL}))
    assert (scraped["page"]["url"], scraped["page"]["status"]) == (URL + "new", 200)


def test_redirects_in_a_circle_are_a_reason_too(desk: Desk) -> None:
    def visit(lease: Lease) -> Result:
        other = URL if lease.request.url.target != "/" else URL + "2"
        moved = page(lease, status=301, redirect=other)
        moved.candidates.append(Request(parse(other), hops=1))
        return moved

    with _working(desk, visit):
        scraped = told(desk.post("scrape?wait=10", {"url": URL}))
    assert (scraped["page"], scraped["error"]["reason"]) == (None, "redirect_loop")


def test_who_does_not_wait_gets_the_job_in_the_high_lane(desk: Desk) -> None:
    for path in ("scrape", "scrape?wait=0"):
        answer = desk.post(path, {"url": URL, "name": "one", "labels": ["now"]})
        accepted = told(answer, 202)
        assert (accepted["state"], accepted["page"], accepted["error"]) == ("running", None, None)
        shown = desk.job(accepted["id"])
        assert (shown["lane"], shown["name"], shown["labels"], shown["spec"]["follow"]) == (
            "high",
            "one",
            ["now"],
            False,
        )
        assert answer.headers["Location"] == shown["links"]["self"]


def test_who_waits_in_vain_gets_the_job(desk: Desk) -> None:
    accepted = told(desk.post("scrape?wait=0.05", {"url": URL}), 202)
    assert desk.state(accepted["id"]) is JobState.RUNNING
    assert desk.work() == [URL]


def test_nobody_waits_longer_than_the_server_allows(valkey_url: str, tmp_path: Path) -> None:
    with a_desk(valkey_url, tmp_path, api_wait_seconds=0.05) as desk, ThreadPoolExecutor(1) as pool:
        told(pool.submit(desk.post, "scrape?wait=300", {"url": URL}).result(5), 202)


def test_what_is_wrong_with_a_page_to_scrape_is_named(desk: Desk) -> None:
    assert list(flaws(desk.post("scrape", {"url": "nonsense"}))) == ["url"]
    assert list(flaws(desk.post("scrape", {}))) == ["url"]
    found = flaws(desk.post("scrape", {"url": URL, "fields": {"t": "[["}, "headers": {"a b": "c"}}))
    assert set(found) == {"fields.t", "headers"}
    found = flaws(desk.post("scrape", {"url": 7, "feilds": {}, "timeout": 0}))
    assert found["feilds"] == "there is no such setting; did you mean 'fields'?"
    assert set(found) == {"url", "feilds", "timeout"}
    for wait in ("-1", "301", "x", "nan", "inf"):
        assert list(flaws(desk.post(f"scrape?wait={wait}", {"url": URL}))) == ["wait"]
    assert list(desk.rows("jobs")) == []


# --- events ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Told:
    """One message of the stream."""

    id: str
    kind: str
    data: dict[str, Any]


@dataclass
class Listener:
    """Somebody who listens to a job, in a thread."""

    answer: TestResponse
    heard: list[Told] = field(default_factory=list[Told])
    comments: list[str] = field(default_factory=list[str])

    def __post_init__(self) -> None:
        self.thread = threading.Thread(target=self._listen, daemon=True)
        self.thread.start()

    def _listen(self) -> None:
        rest = ""
        with self.answer:
            for chunk in self.answer.response:
                *messages, rest = (rest + cast(bytes, chunk).decode()).split("\n\n")
                for message in messages:
                    self._hear(message)

    def _hear(self, message: str) -> None:
        lines = dict(line.split(": ", 1) for line in message.split("\n") if not line.startswith(":"))
        if "event" in lines:
            self.heard.append(Told(lines["id"], lines["event"], json.loads(lines["data"])))
        else:
            self.comments.append(message)

    def kinds(self) -> list[str]:
        """What was told, but for sums."""
        return [f"{told.kind} {told.data['state']}" for told in self.heard if told.kind != "counters"]

    def counters(self) -> dict[str, Any]:
        """The last sums."""
        return [told.data for told in self.heard if told.kind == "counters"][-1]

    def wait_for(self, kind: str) -> Told:
        wait_until(lambda: any(told.kind == kind for told in self.heard), within=SOON)
        return next(told for told in self.heard if told.kind == kind)

    def wait_for_the_end(self) -> None:
        self.thread.join(SOON.total_seconds())
        assert not self.thread.is_alive()


def _listen(client: Client, job: str, last: str | None = None) -> Listener:
    answer = client.get(f"jobs/{job}/events", headers={"Last-Event-ID": last} if last else {})
    assert answer.status_code == 200, answer.get_data()
    assert answer.mimetype == "text/event-stream"
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.headers["X-Accel-Buffering"] == "no"
    return Listener(answer)


def test_a_listener_hears_sums_states_and_the_end(desk: Desk) -> None:
    job = desk.submit(URL + "1", URL + "2")
    listener = _listen(desk.client(), job)
    assert listener.wait_for("counters").data["pending"] == 2
    told(desk.post(f"jobs/{job}/pause"))
    told(desk.post(f"jobs/{job}/resume"))
    desk.work()
    listener.wait_for_the_end()
    assert listener.kinds() == ["state paused", "state running", "ended finished"]
    sums = listener.counters()
    assert (sums["job"], sums["state"], sums["pages"], sums["pending"]) == (job, "finished", 2, 0)
    assert (sums["reconciles"], sums["counters"]["done"]) == (True, 2)
    assert listener.heard[-1].kind == "ended"
    assert listener.comments[0] == "retry: 2000"


def test_sums_follow_the_work_once_a_second(desk: Desk) -> None:
    job = desk.submit(*(f"{URL}{n}" for n in range(10)))
    listener = _listen(desk.client(), job)
    listener.wait_for("counters")
    desk.work(at_most=4)
    wait_until(lambda: listener.counters()["pages"] == 4, within=SOON)
    assert listener.kinds() == []


def test_a_job_that_has_ended_is_told_at_once(desk: Desk) -> None:
    job = desk.submit(URL)
    desk.work()
    listener = _listen(desk, job)
    listener.wait_for_the_end()
    assert listener.kinds() == ["ended finished"]
    assert listener.counters()["pages"] == 1


def test_who_comes_back_hears_what_was_missed(desk: Desk) -> None:
    job = desk.submit(URL)
    first = _listen(desk.client(), job)
    told(desk.post(f"jobs/{job}/pause"))
    seen = first.wait_for("state").id
    told(desk.post(f"jobs/{job}/resume"))
    desk.work()
    first.wait_for_the_end()
    again = _listen(desk, job, seen)
    again.wait_for_the_end()
    assert again.kinds() == ["state running", "ended finished"]


def test_who_has_heard_the_end_is_told_to_stay_away(desk: Desk) -> None:
    job = desk.submit(URL)
    listener = _listen(desk.client(), job)
    desk.work()
    last = listener.wait_for("ended").id
    answer = desk.get(f"jobs/{job}/events", headers={"Last-Event-ID": last})
    assert (answer.status_code, answer.get_data()) == (204, b"")


def test_events_of_other_jobs_are_not_told(desk: Desk) -> None:
    job, other = desk.submit(URL), desk.submit(URL + "2")
    listener = _listen(desk.client(), job)
    listener.wait_for("counters")
    told(desk.post(f"jobs/{other}/cancel"))
    told(desk.post(f"jobs/{job}/cancel"))
    listener.wait_for_the_end()
    assert {told.data["job"] for told in listener.heard} == {job}


def test_a_deleted_job_ends_for_its_listeners(desk: Desk) -> None:
    job = desk.submit(URL)
    listener = _listen(desk.client(), job)
    listener.wait_for("counters")
    assert desk.delete(f"jobs/{job}").status_code == 204
    listener.wait_for_the_end()
    assert listener.heard[-1].kind == "ended"


@pytest.mark.parametrize("last", ["x", "1", "1-", "-1", "0-0-0", "9" * 25, f"{2**64}-0", "1-1\u00e9"])
def test_an_event_that_was_never_told_is_refused(desk: Desk, last: str) -> None:
    job = desk.submit(URL)
    assert list(flaws(desk.get(f"jobs/{job}/events", headers={"Last-Event-ID": last}))) == ["Last-Event-ID"]


@pytest.mark.parametrize("last", ["0-0", "9" * 19 + "-" + "9" * 19])
def test_any_event_that_could_be_is_a_place_to_start(desk: Desk, last: str) -> None:
    job = desk.submit(URL)
    desk.work()
    answer = desk.get(f"jobs/{job}/events", headers={"Last-Event-ID": last})
    assert answer.status_code == (200 if last == "0-0" else 204)
    answer.close()


def test_many_listeners_cost_one_reader_of_redis(desk: Desk) -> None:
    jobs = [desk.submit(URL), desk.submit(URL + "2")]
    first = _listen(desk.client(), jobs[0])
    first.wait_for("counters")
    wait_until(lambda: _readers(desk) == 1)
    before = _clients(desk)
    listeners = [_listen(desk.client(), jobs[n % 2]) for n in range(40)]
    for listener in listeners:
        listener.wait_for("counters")
    wait_until(lambda: _readers(desk) == 1)
    assert _clients(desk) - before <= 2  # the pool of the process, not one a listener
    desk.work()
    for listener in (first, *listeners):
        listener.wait_for_the_end()
        assert listener.kinds() == ["ended finished"]


def _clients(desk: Desk) -> int:
    return len(_client_list(desk))


def _readers(desk: Desk) -> int:
    """Connections that wait for events; those of other tests end within a second."""
    return _client_list(desk).count("xread")


def _client_list(desk: Desk) -> list[str]:
    client = cast(Any, connect(redis_urls(desk.platform.settings).frontier))
    try:
        return [found["cmd"] for found in client.client_list()]
    finally:
        client.close()


def test_there_is_room_for_so_many_listeners(valkey_url: str, tmp_path: Path) -> None:
    with a_desk(valkey_url, tmp_path, api_threads=34) as desk:  # of which 32 are for others
        job, other = desk.submit(URL), desk.submit(URL + "2")
        first, second = _listen(desk.client(), job), _listen(desk.client(), other)
        answer = desk.get(f"jobs/{job}/events")
        assert "2 clients" in refused(answer, 429)["detail"]
        assert int(answer.headers["Retry-After"]) > 0
        told(desk.post("scrape?wait=5", {"url": URL}), 202)  # accepted all the same, with nobody to wait for it
        told(desk.post(f"jobs/{job}/cancel"))
        first.wait_for_the_end()

        def is_served() -> bool:
            with desk.get(f"jobs/{job}/events") as again:
                return again.status_code == 200

        wait_until(is_served)
        told(desk.post(f"jobs/{other}/cancel"))
        second.wait_for_the_end()


def test_a_client_that_goes_leaves_its_place(valkey_url: str, tmp_path: Path) -> None:
    with a_desk(valkey_url, tmp_path, api_threads=8) as desk:  # one listener, however few the threads
        job = desk.submit(URL)
        for _ in range(3):
            answer = desk.get(f"jobs/{job}/events")
            assert answer.status_code == 200
            refused(desk.get(f"jobs/{job}/events"), 429)
            next(iter(answer.response))
            answer.close()
        answer = desk.get(f"jobs/{job}/events")
        answer.close()  # before it has read anything
        desk.get(f"jobs/{job}/events").close()


def test_who_could_not_be_served_takes_no_place(
    valkey_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(_: object) -> str:
        raise RedisUnavailable("gone")

    with a_desk(valkey_url, tmp_path, api_threads=8) as desk:
        job = desk.submit(URL)
        with monkeypatch.context() as patch:
            patch.setattr(Watch, "last_event", away)
            for _ in range(3):
                refused(desk.get(f"jobs/{job}/events"), 503)
        with monkeypatch.context() as patch:
            patch.setattr(desk.platform.frontier, "status", away)
            for _ in range(3):
                refused(desk.get(f"jobs/{job}/events"), 503)
        with desk.get(f"jobs/{job}/events") as answer:
            assert answer.status_code == 200


def test_the_reader_outlives_whatever_goes_wrong(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> Any:
        raise RuntimeError("on purpose")

    job = desk.submit(URL)
    with monkeypatch.context() as patch, structlog.testing.capture_logs() as logs:
        patch.setattr(Watch, "next_events", broken)
        listener = _listen(desk.client(), job)
        listener.wait_for("counters")
        wait_until(lambda: any(line["event"] == "events_failed" for line in logs))
    told(desk.post(f"jobs/{job}/pause"))
    assert listener.wait_for("state").data["state"] == "paused"


def test_when_redis_comes_back_listeners_hear_on(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: object) -> Any:
        raise RedisUnavailable("gone")

    job = desk.submit(URL)
    listener = _listen(desk.client(), job)
    with monkeypatch.context() as patch, structlog.testing.capture_logs() as logs:
        patch.setattr(Watch, "next_events", away)
        told(desk.post(f"jobs/{job}/pause"))
        wait_until(lambda: any(entry["event"] == "events_failed" for entry in logs), within=SOON)
    assert listener.wait_for("state").data["state"] == "paused"


def test_a_server_that_stops_lets_its_listeners_go(desk: Desk) -> None:
    job = desk.submit(URL)
    listener = _listen(desk.client(), job)
    listener.wait_for("counters")
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(desk.client().post, "scrape?wait=20", {"url": URL + "2"})
        wait_until(lambda: len(list(desk.rows("jobs"))) == 2)
        stop = desk.app.extensions[STOP_STREAMS]
        wait_until(lambda: stop() or waiting.done(), within=SOON)
        told(waiting.result(5), 202)
    listener.wait_for_the_end()
    assert listener.kinds() == []


def test_the_stream_is_what_browsers_read(desk: Desk) -> None:
    job = desk.submit(URL)
    desk.work()
    with desk.get(f"jobs/{job}/events") as answer:
        text = answer.get_data(as_text=True)
    for message in text.removesuffix("\n\n").split("\n\n"):
        assert re.fullmatch(r"retry: \d+|id: \d+-\d+\nevent: [a-z]+\ndata: \{.*\}", message), message
