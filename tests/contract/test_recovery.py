"""The frontier emptied or taken back in time: rebuilt from database and archive, as if nothing had been."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any, cast

import pytest
import redis
import sqlalchemy as sa

from shoal import reconcile
from shoal.core.explanation import Verdict
from shoal.core.frozen import names_of
from shoal.core.job_status import Counters, JobStatus
from shoal.core.model import ALL_QUEUES, JobState, Lease, Outcome
from shoal.core.spec import JobSpec
from shoal.core.url import parse
from shoal.errors import FetchError, NotFound, RedisUnavailable, StoreUnavailable
from shoal.fetch.port import Response
from shoal.frontier.frontier import Frontier
from shoal.frontier.scripts import connect
from shoal.intake.lines import Line
from shoal.recovery import recovery, way_back
from shoal.recovery.losses import DOUBT
from shoal.recovery.place import Part, Place
from shoal.recovery.recovery import Recovery
from shoal.render.port import Rendered
from shoal.store.dead import DeadLetters, Selection
from shoal.store.job_rows import NewJob
from shoal.store.tables import jobs, pages
from shoal.wiring import Platform, no_ring, redis_urls, sync_hosts
from shoal.worker.context import JobContext
from shoal.worker.delivery import Delivery
from shoal.worker.reader import Reader
from shoal.worker.reading import read_page, read_redirect
from shoal.worker.rendering import read_rendered
from shoal.worker.result import Result, given_up
from tests.contract.api import Desk, a_desk
from tests.contract.keyspace import clear, key_names, leaks, read_keys, wrong_depths
from tests.servers import running, valkey
from tests.waiting import wait_until

HOST = "http://shop.example"
LONG = timedelta(minutes=1)
SOON_MS = 1


@dataclass
class Web:
    """A small site: a tree with cross links, a redirect, a page that fails, one that is not to be kept, strangers."""

    pages: int = 40
    asked: list[str] = field(default_factory=list[str])
    contexts: dict[str, JobContext] = field(default_factory=dict[str, JobContext])
    """As in a worker process: what was sent once is not sent again."""

    def visit(self, desk: Desk) -> Callable[[Lease], Result]:
        return lambda lease: self._visit(desk, lease)

    def _visit(self, desk: Desk, lease: Lease) -> Result:
        url = lease.request.url
        self.asked.append(str(url))
        if lease.job not in self.contexts:
            row = desk.platform.jobs.get(lease.job)
            assert row is not None
            self.contexts[lease.job] = JobContext.of(lease.job, row.spec)
        context = self.contexts[lease.job]
        target = url.target
        if target.startswith("/gone"):
            return given_up(lease, Outcome.DEAD, FetchError("http_404", "on purpose"))
        if target.startswith("/closed"):
            return given_up(lease, Outcome.ROBOTS, FetchError("robots", "on purpose"))
        headers: tuple[tuple[bytes, bytes], ...] = ((b"content-type", b"text/html; charset=utf-8"),)
        if target.startswith("/moved"):
            answer = Response(url, 302, "Found", headers, b"", timedelta())
            return read_redirect(context, lease, answer, f"/target{target.removeprefix('/moved')}")
        answer = Response(url, 200, "OK", headers, self._body(target), timedelta(milliseconds=5))
        return self.read(context, lease, answer)

    def read(self, context: JobContext, lease: Lease, answer: Response) -> Result:
        """A page that is there."""
        return asyncio.run(read_page(context, lease, answer, Reader()))

    def _body(self, target: str) -> bytes:
        digits = "0" if target == "/" else target.removeprefix("/p/")
        if not digits.isdigit():
            return b"<h1>a leaf</h1>"
        n = int(digits)
        links = [f"/p/{child}" for child in (2 * n + 1, 2 * n + 2, (7 * n) % self.pages) if child < self.pages]
        links += ["http://elsewhere.example/", f"/gone/{n}" if n % 9 == 4 else "", f"/moved/{n}" if n % 9 == 5 else ""]
        links += [f"/closed/{n}" if n % 9 == 6 else ""]
        mark = '<meta name="robots" content="noindex">' if n % 10 == 3 else ""
        anchors = "".join(f'<a href="{link}">x</a>' for link in links if link)
        return f"<head>{mark}</head>{anchors}".encode()


@pytest.fixture
def each(each: Desk) -> Iterator[Desk]:
    """A desk on each database, with a frontier that was looked at and has no leaks afterwards."""
    yield from _checked(each)


@pytest.fixture
def desk(desk: Desk) -> Iterator[Desk]:
    """The same on SQLite."""
    yield from _checked(desk)


@pytest.fixture
def web() -> Web:
    return Web()


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many steps, also for a few rows."""
    monkeypatch.setattr(way_back, "ROWS_AT_ONCE", 3)
    monkeypatch.setattr(way_back, "BODIES_AT_ONCE", 2)


@pytest.fixture
def another() -> Generator[Callable[[Desk], Recovery]]:
    """Another process that rebuilds."""
    opened: list[Platform] = []

    def open_(desk: Desk) -> Recovery:
        frontier = Frontier(_client(desk), desk.platform.settings.prefix)
        opened.append(Platform.open(desk.platform.settings, frontier, no_ring))
        return opened[-1].recovery

    yield open_
    for platform in opened:
        platform.close()


def _checked(desk: Desk) -> Iterator[Desk]:
    desk.platform.recovery.look()
    yield desk
    stored = read_keys(_client(desk), desk.platform.settings.prefix)
    assert not leaks(stored)
    assert not wrong_depths(stored)


def _client(desk: Desk) -> redis.Redis:
    return connect(redis_urls(desk.platform.settings).frontier)


def _flush(desk: Desk) -> None:
    clear(_client(desk), desk.platform.settings.prefix)


def _saved(desk: Desk) -> dict[str, tuple[int, bytes]]:
    client = cast(Any, redis.Redis).from_url(redis_urls(desk.platform.settings).frontier)
    names = key_names(_client(desk), desk.platform.settings.prefix)
    return {name: (max(0, client.pttl(name)), client.dump(name)) for name in names}


def _go_back(desk: Desk, saved: dict[str, tuple[int, bytes]]) -> None:
    """The frontier as it was when it was saved."""
    _flush(desk)
    client = cast(Any, redis.Redis).from_url(redis_urls(desk.platform.settings).frontier)
    for name, (lifetime_ms, dumped) in saved.items():
        client.restore(name, lifetime_ms, dumped)


def _crawl(desk: Desk, **settings: Any) -> str:
    return desk.submit(f"{HOST}/", **{"follow": True, "robots": False, "noindex": True, **settings})


def _lost_crawl(desk: Desk, web: Web) -> str:
    """A job of which twenty pages were fetched before the frontier was lost, at the beginning of its rebuild."""
    job = _crawl(desk)
    desk.work(web.visit(desk), at_most=20)
    _flush(desk)
    desk.platform.recovery.look()
    return job


def _recover(desk: Desk) -> None:
    while desk.platform.recovery.tick():
        pass


def _status(desk: Desk, job: str) -> JobStatus:
    return desk.platform.control.status(job)


def _sums(desk: Desk, job: str) -> tuple[dict[str, int], dict[str, int]]:
    """What must be the same whether the frontier was lost or not."""
    status = _status(desk, job)
    assert status.counters.reconciles, status
    left_out = ("duplicates", "lost", "retries", "received")  # bytes of what was not stored are not known
    counters = {name: getattr(status.counters, name) for name in names_of(Counters) if name not in left_out}
    return counters, status.reasons


def _undisturbed(valkey_url: str, folder: Path, **settings: Any) -> tuple[dict[str, int], dict[str, int]]:
    with a_desk(valkey_url, folder) as desk:
        job = _crawl(desk, **settings)
        web = Web()
        desk.work(web.visit(desk))
        assert Counter(web.asked).most_common(1)[0][1] == 1
        return _sums(desk, job)


# --- a flush ---------------------------------------------------------------------------------------------------------


def test_a_crawl_goes_on_after_a_flush_as_if_nothing_had_been(
    each: Desk, web: Web, valkey_url: str, tmp_path: Path, small: None
) -> None:
    job = _crawl(each)
    each.work(web.visit(each), at_most=20)
    _flush(each)
    assert each.platform.frontier.known_jobs() == []
    _recover(each)
    assert _status(each, job).counters.reconciles
    each.work(web.visit(each))
    assert Counter(web.asked).most_common(1)[0][1] == 1
    assert _status(each, job).state is JobState.FINISHED
    assert _sums(each, job) == _undisturbed(valkey_url, tmp_path / "undisturbed")


def test_links_of_pages_without_a_body_are_found_again(
    each: Desk, web: Web, valkey_url: str, tmp_path: Path, small: None
) -> None:
    job = _crawl(each, archive=False)
    each.work(web.visit(each), at_most=20)
    _flush(each)
    _recover(each)
    each.work(web.visit(each))
    assert Counter(web.asked).most_common(1)[0][1] == 1
    expected, reasons = _undisturbed(valkey_url, tmp_path / "undisturbed", archive=False)
    found, found_reasons = _sums(each, job)
    for name in ("done", "dead", "dropped", "admitted"):
        assert found[name] == expected[name]
    assert {**found_reasons, "filtered:other_host": 0} == {**reasons, "filtered:other_host": 0}
    assert each.platform.pages.links_after(job, 0)


@pytest.mark.parametrize("archive", [True, False])
def test_pages_know_where_they_were_found_although_the_frontier_was_lost(
    each: Desk, web: Web, small: None, archive: bool
) -> None:
    job = _crawl(each, archive=archive)
    each.work(web.visit(each), at_most=20)
    _flush(each)
    _recover(each)
    each.work(web.visit(each))
    row = each.platform.control.job(job)
    for url in web.asked[1:]:
        origin = each.platform.explainer.explain(row, url).steps[0]
        assert (origin.name, origin.detail["page"] in web.asked) == ("found", True), (url, origin)
    assert _status(each, job).reconciles


def test_a_url_of_a_lost_job_is_not_called_never_seen(desk: Desk, web: Web, small: None) -> None:
    job = _crawl(desk)
    desk.work(web.visit(desk), at_most=5)
    _flush(desk)
    waiting = f"{HOST}/p/6"
    lost = desk.platform.explainer.explain(desk.platform.control.job(job), waiting)
    assert (lost.verdict, lost.certain, lost.steps[0].name) == (Verdict.MOVING, False, "job_lost")
    desk.platform.recovery.look()
    coming = desk.platform.explainer.explain(desk.platform.control.job(job), waiting)
    assert (coming.verdict, "being rebuilt" in coming.summary) == (Verdict.MOVING, True)
    _recover(desk)
    back = desk.platform.explainer.explain(desk.platform.control.job(job), waiting)
    assert back.verdict is Verdict.QUEUED
    desk.platform.control.cancel(job)


class RenderedWeb(Web):
    """The same site made by scripts: what comes over the wire has no links."""

    def read(self, context: JobContext, lease: Lease, answer: Response) -> Result:
        shell = replace(answer, wire_body=b"<div id=app></div><script src=/app.js></script>")
        return asyncio.run(read_rendered(context, lease, Rendered(shell, answer.wire_body.decode()), Reader()))


@pytest.mark.parametrize("engine", ["browser", "auto"])
def test_links_of_rendered_pages_are_found_again(
    each: Desk, valkey_url: str, tmp_path: Path, small: None, engine: str
) -> None:
    web = RenderedWeb()
    job = _crawl(each, engine=engine)
    each.work(web.visit(each), at_most=20)
    _flush(each)
    _recover(each)
    each.work(web.visit(each))
    assert Counter(web.asked).most_common(1)[0][1] == 1
    expected, _ = _undisturbed(valkey_url, tmp_path / "undisturbed")
    found, _ = _sums(each, job)
    for name in ("done", "dead", "dropped", "admitted"):
        assert found[name] == expected[name]
    rows = [row for row in each.platform.pages.pages(job) if row.redirect is None]
    assert {row.engine for row in rows} == {"browser"}
    assert all(row.archive and row.capture("document") for row in rows)


class EchoWeb(Web):
    """A site that says five things again and again, with a word changed; each page has a leaf of its own."""

    def _body(self, target: str) -> bytes:
        n = self.number(target)
        if n is None:
            return b"<h1>a leaf</h1>"
        words = Random(n % 5).choices([f"word{number}" for number in range(500)], k=400)
        text = " ".join([*words[:200], f"page{n}", *words[200:]])
        links = [f"/from/{n}", *(f"/p/{child}" for child in (2 * n + 1, 2 * n + 2) if child < self.pages)]
        anchors = "".join(f'<a href="{link}">x</a>' for link in links)
        return f"<body><main><p>{text}</p></main>{anchors}</body>".encode()

    def number(self, target: str) -> int | None:
        digits = "0" if target == "/" else target.removeprefix("/p/")
        return int(digits) if digits.isdigit() else None


@pytest.mark.parametrize("moment", [1, 7, 30])
@pytest.mark.parametrize("follow", [True, False])
def test_what_earlier_pages_say_is_known_again(each: Desk, small: None, moment: int, follow: bool) -> None:
    web = EchoWeb()
    job = _crawl(each, duplicates={"distance": 7, "follow": follow})
    each.work(web.visit(each), at_most=moment)
    known = _alike(each, job)
    _flush(each)
    _recover(each)
    assert _alike(each, job) == known
    each.work(web.visit(each))
    assert Counter(web.asked).most_common(1)[0][1] == 1
    rows = {row.url.removeprefix(HOST): row for row in each.platform.pages.pages(job)}
    first: dict[int, int] = {}
    for target, row in rows.items():
        n = web.number(target)
        if n is not None:
            assert row.duplicate_of == first.get(n % 5)
            assert (f"/from/{n}" in rows) is (follow or n % 5 not in first)
            first.setdefault(n % 5, row.fingerprint)
    assert len(first) == 5
    assert _status(each, job).reasons["done:duplicate"] == sum(row.duplicate_of is not None for row in rows.values())
    assert _status(each, job).counters.reconciles


def _alike(desk: Desk, job: str) -> dict[str, str]:
    return cast(Any, _client(desk)).hgetall(f"{desk.platform.settings.prefix}:alike:{job}")


def test_links_are_removed_with_their_job(each: Desk, web: Web) -> None:
    job = _crawl(each, archive=False)
    each.work(web.visit(each))
    assert each.platform.pages.links_after(job, 0)
    while not each.platform.pages.remove(job):
        pass
    assert each.platform.pages.links_after(job, 0) == []


@pytest.mark.parametrize("moment", [0, 1, 7, 33])
def test_the_moment_of_the_flush_does_not_matter(
    desk: Desk, web: Web, moment: int, valkey_url: str, tmp_path: Path
) -> None:
    job = _crawl(desk)
    desk.work(web.visit(desk), at_most=moment)
    _flush(desk)
    _recover(desk)
    desk.work(web.visit(desk))
    assert Counter(web.asked).most_common(1)[0][1] == 1
    assert _sums(desk, job) == _undisturbed(valkey_url, tmp_path / "undisturbed")


def test_flush_after_flush(desk: Desk, web: Web, valkey_url: str, tmp_path: Path, small: None) -> None:
    job = _crawl(desk)
    for _ in range(6):
        desk.work(web.visit(desk), at_most=6)
        _flush(desk)
        desk.platform.recovery.look()
        for _ in range(4):  # cut short by the next
            desk.platform.recovery.way.step(job)
    _flush(desk)
    _recover(desk)
    desk.work(web.visit(desk))
    assert _sums(desk, job) == _undisturbed(valkey_url, tmp_path / "undisturbed")
    assert Counter(web.asked).most_common(1)[0][1] == 1


def test_submitted_urls_come_back_in_their_order(desk: Desk) -> None:
    urls = [f"{HOST}/{n}" for n in range(50)]
    job = desk.submit(*urls)
    done = desk.work(at_most=20)
    _flush(desk)
    _recover(desk)
    assert done + desk.work() == urls
    assert _status(desk, job).counters.done == 50


def test_a_job_of_which_all_is_stored_ends_with_its_rebuild(each: Desk) -> None:
    job = each.submit(f"{HOST}/1", f"{HOST}/2")
    leases = each.platform.frontier.lease(queues=ALL_QUEUES, limit=2, lease_for=LONG).leases
    delivery = Delivery(each.platform.frontier, each.platform.pages, each.archive, each.platform.ending.finalise)
    _flush(each)
    web = Web()
    delivery.deliver([web.visit(each)(lease) for lease in leases])
    assert each.state(job) is JobState.RUNNING
    _recover(each)
    row = each.platform.jobs.get(job)
    assert row is not None
    assert row.status is not None
    assert (row.state, row.status.counters.done) == (JobState.FINISHED, 2)
    assert each.platform.frontier.known_jobs() == []


def test_links_of_a_page_that_comes_late_are_not_lost(desk: Desk, web: Web, valkey_url: str, tmp_path: Path) -> None:
    """Its lease is from before the flush; its row is there, and the frontier takes no links of a lost job."""
    for moment in range(10):
        job = _crawl(desk)
        delivery = Delivery(desk.platform.frontier, desk.platform.pages, desk.archive, desk.platform.ending.finalise)
        desk.work(web.visit(desk), at_most=3)
        held = [desk.platform.frontier.lease(queues=ALL_QUEUES, limit=1, lease_for=LONG).leases for _ in range(2)]
        _flush(desk)
        results = [[web.visit(desk)(lease) for lease in leases] for leases in held]
        delivery.deliver(results[0])
        desk.platform.recovery.look()
        for _ in range(moment):
            desk.platform.recovery.way.step(job)
        report = delivery.deliver(results[1])
        assert report.late == 1
        _recover(desk)
        desk.work(web.visit(desk))
        repeated = {url for url, n in Counter(web.asked).items() if n > 1}
        assert repeated <= {str(leases[0].request.url) for leases in held}
        counters, reasons = _sums(desk, job)
        assert (counters, reasons) == _undisturbed(valkey_url, tmp_path / f"undisturbed{moment}")
        web.asked.clear()


# --- what a job was --------------------------------------------------------------------------------------------------


def test_a_paused_job_stays_paused(each: Desk, web: Web) -> None:
    job = _crawl(each)
    each.work(web.visit(each), at_most=10)
    each.platform.control.pause(job)
    _flush(each)
    _recover(each)
    assert each.state(job) is JobState.PAUSED
    assert each.work(web.visit(each)) == []
    assert each.platform.control.resume(job) is JobState.RUNNING
    each.work(web.visit(each))
    assert each.state(job) is JobState.FINISHED
    assert Counter(web.asked).most_common(1)[0][1] == 1


def test_a_lost_job_that_was_paused_is_resumed_at_once(each: Desk, web: Web) -> None:
    job = _crawl(each)
    each.work(web.visit(each), at_most=10)
    each.platform.control.pause(job)
    _flush(each)
    assert each.platform.control.resume(job) is JobState.RUNNING
    _recover(each)
    assert each.state(job) is JobState.RUNNING
    each.work(web.visit(each))
    assert each.state(job) is JobState.FINISHED
    assert Counter(web.asked).most_common(1)[0][1] == 1


def test_a_lost_job_is_paused_at_once(each: Desk, web: Web) -> None:
    job = _crawl(each)
    each.work(web.visit(each), at_most=10)
    _flush(each)
    assert each.platform.control.pause(job) is JobState.PAUSED
    _recover(each)
    assert each.state(job) is JobState.PAUSED
    assert each.work(web.visit(each)) == []


@pytest.mark.parametrize("word", [JobState.PAUSED, JobState.RUNNING])
@pytest.mark.parametrize("moment", ["drop", "begin"])
def test_what_is_said_to_a_job_at_the_beginning_of_its_rebuild_counts(
    desk: Desk, word: JobState, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody pauses or resumes it after the one who rebuilds has read its row."""
    job = desk.submit(f"{HOST}/1")
    control, rebuild = desk.platform.control, desk.platform.rebuild
    say, other = (control.pause, control.resume) if word is JobState.PAUSED else (control.resume, control.pause)
    other(job)
    right = getattr(rebuild, moment)

    def late(*arguments: Any) -> Any:
        monkeypatch.undo()
        say(job)
        return right(*arguments)

    monkeypatch.setattr(rebuild, moment, late)
    desk.platform.recovery.way.begin(job, force=True)
    _recover(desk)
    assert desk.state(job) is word


def test_a_pause_does_not_undo_the_end_of_a_job(each: Desk) -> None:
    job = each.submit(f"{HOST}/1")
    each.work()
    assert each.platform.control.pause(job) is JobState.FINISHED
    assert each.platform.control.resume(job) is JobState.FINISHED
    row = each.platform.jobs.get(job)
    assert row is not None
    assert row.state is JobState.FINISHED


def test_an_open_job_stays_open_and_takes_more(each: Desk) -> None:
    job = each.submit(f"{HOST}/1", open=True)
    assert each.send(job, f"{HOST}/2\n{HOST}/3\n").status_code == 200
    each.work(at_most=1)
    _flush(each)
    _recover(each)
    assert each.work() == [f"{HOST}/2", f"{HOST}/3"]
    assert each.state(job) is JobState.RUNNING
    assert each.send(job, f"{HOST}/3\n{HOST}/4\n").status_code == 200
    assert each.work() == [f"{HOST}/4"]
    assert each.platform.control.close(job) is JobState.FINISHED


def test_an_open_job_that_is_closed_while_it_is_lost_ends_when_it_is_rebuilt(desk: Desk) -> None:
    job = desk.submit(f"{HOST}/1", f"{HOST}/2", open=True)
    desk.work(at_most=1)
    _flush(desk)
    assert desk.platform.control.close(job) is JobState.RUNNING
    _recover(desk)
    assert desk.work() == [f"{HOST}/2"]
    assert desk.state(job) is JobState.FINISHED
    assert _status(desk, job).counters.done == 2


def test_urls_for_a_job_that_is_being_rebuilt_are_not_lost(desk: Desk) -> None:
    job = desk.submit(f"{HOST}/1", open=True)
    _flush(desk)
    row = desk.platform.jobs.get(job)
    assert row is not None
    lines: list[Line] = [(1, f"{HOST}/2", "")]
    with pytest.raises(RedisUnavailable, match="being rebuilt"):
        desk.platform.intake.add(row, lines)
    _recover(desk)
    assert desk.work() == [f"{HOST}/1", f"{HOST}/2"]


def test_a_lost_job_can_be_cancelled(desk: Desk) -> None:
    job = desk.submit(f"{HOST}/1", f"{HOST}/2")
    _flush(desk)
    assert desk.platform.control.cancel(job) is JobState.CANCELLED
    _recover(desk)
    assert desk.platform.frontier.known_jobs() == []
    assert desk.state(job) is JobState.CANCELLED


def test_a_lost_job_that_is_cancelled_keeps_the_sums_of_what_is_stored(each: Desk, web: Web, small: None) -> None:
    stored = [
        f"{HOST}/{path}" for path in ("gone/1", "gone/2", "closed/1", "moved/1", *(f"p/{n}" for n in range(20, 25)))
    ]
    job = each.submit(*stored, f"{HOST}/p/30", f"{HOST}/p/31", robots=False)
    each.work(web.visit(each), at_most=len(stored))
    before = _status(each, job)
    _flush(each)
    assert each.platform.control.cancel(job) is JobState.CANCELLED
    row = each.platform.jobs.get(job)
    assert row is not None
    assert row.status is not None
    after = row.status
    assert after.ended_ms is not None
    assert after.started_ms == pytest.approx(before.started_ms, abs=10_000)
    for name in ("done", "dead", "dropped", "received"):
        assert getattr(after.counters, name) == getattr(before.counters, name), name
    assert (after.counters.done, after.counters.dead, after.counters.dropped) == (6, 2, 1)
    assert after.counters.reconciles
    assert after.reasons == before.reasons
    assert each.platform.frontier.known_jobs() == []


@pytest.mark.parametrize("steps", [0, 1, 3])
def test_a_job_that_is_cancelled_while_it_is_rebuilt_has_the_sums_of_what_is_stored(
    desk: Desk, steps: int, small: None
) -> None:
    job = desk.submit(*(f"{HOST}/{n}" for n in range(15)))
    desk.work(at_most=10)
    _flush(desk)
    desk.platform.recovery.look()
    for _ in range(steps):
        desk.platform.recovery.way.step(job)
    assert desk.platform.control.cancel(job) is JobState.CANCELLED
    row = desk.platform.jobs.get(job)
    assert row is not None
    assert row.status is not None
    assert (row.status.counters.done, row.status.counters.reconciles) == (10, True)
    assert row.status.ended_ms is not None


@pytest.mark.parametrize("moment", [1, 12, 30])
def test_links_to_what_was_seen_before_are_counted_as_they_were(
    desk: Desk, web: Web, moment: int, valkey_url: str, tmp_path: Path, small: None
) -> None:
    with a_desk(valkey_url, tmp_path / "undisturbed") as calm:
        untouched = _crawl(calm, noindex=False)
        calm.work(Web().visit(calm))
        expected = _status(calm, untouched).counters.duplicates
    job = _crawl(desk, noindex=False)
    for _ in range(2):
        desk.work(web.visit(desk), at_most=moment)
        before = _status(desk, job).counters.duplicates
        _flush(desk)
        _recover(desk)
        assert _status(desk, job).counters.duplicates == before
    desk.work(web.visit(desk))
    assert _status(desk, job).counters.duplicates == expected > 0


def test_a_page_budget_counts_what_is_stored(each: Desk, web: Web) -> None:
    job = _crawl(each, pages=25, noindex=False)
    each.work(web.visit(each), at_most=15)
    before = _status(each, job)
    _flush(each)
    _recover(each)
    after = _status(each, job)
    assert _pages_counted(before) == _pages_counted(after) == 25
    each.work(web.visit(each))
    assert _pages_counted(_status(each, job)) <= 25
    assert Counter(web.asked).most_common(1)[0][1] == 1


def test_a_page_budget_is_exceeded_by_no_more_than_what_was_leased_at_the_loss(
    each: Desk, web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The budget of what is in workers' hands is given to others; who stores it nevertheless adds to it."""
    monkeypatch.setattr(reconcile, "SETTLED", timedelta(minutes=-1))
    job = _crawl(each, pages=12, noindex=False)
    delivery = Delivery(each.platform.frontier, each.platform.pages, each.archive, each.platform.ending.finalise)
    each.work(web.visit(each), at_most=4)
    held = each.platform.frontier.lease(queues=ALL_QUEUES, limit=4, lease_for=LONG).leases
    results = [web.visit(each)(lease) for lease in held]
    _flush(each)
    each.platform.recovery.look()
    each.platform.recovery.way.recall(job)
    assert delivery.deliver(results).late == len(held)  # their links come first, and are given all that is left
    _recover(each)
    each.work(web.visit(each))
    assert each.state(job) is JobState.FINISHED
    stored = list(each.platform.pages.pages(job))
    assert 12 < sum(not page.redirect for page in stored) <= 12 + len(held)
    assert _status(each, job).counters.done < len(stored)
    each.platform.housekeeper.reconciler.ended_sums()
    counters = _status(each, job).counters
    assert (counters.done, counters.reconciles) == (len(stored), True)


def _pages_counted(status: JobStatus) -> int:
    """What a page budget counts."""
    return status.counters.admitted - status.counters.dead - status.counters.dropped - status.redirects


def test_budgets_of_hosts_count_what_is_stored(each: Desk) -> None:
    urls = [f"http://{host}.example/{n}" for n in range(6) for host in ("a", "b")]
    job = each.submit(*urls, host_pages=4)
    each.work(lambda lease: _page_of(lease, received=10), at_most=5)
    before = _spent(each, job)
    _flush(each)
    _recover(each)
    after = _spent(each, job)
    assert {name: after[name] for name in before} == before
    each.work(lambda lease: _page_of(lease, received=10))
    counters = _status(each, job).counters
    assert (counters.done, counters.filtered) == (8, 4)


def test_bytes_and_time_of_a_job_count_what_is_stored(each: Desk) -> None:
    job = each.submit(*(f"{HOST}/{n}" for n in range(20)), bytes=105, seconds=3600, host_bytes=105, host_seconds=3600)
    each.work(lambda lease: _page_of(lease, received=10), at_most=8)
    before, spent = _status(each, job), _spent(each, job)
    _flush(each)
    _recover(each)
    after, spent_after = _status(each, job), _spent(each, job)
    assert after.counters.received == before.counters.received == 80
    assert spent_after["b shop.example"] == spent["b shop.example"] == "80"
    assert abs(int(spent_after["s shop.example"]) - int(spent["s shop.example"])) < 10_000
    assert before.started_ms is not None
    assert after.started_ms is not None
    assert abs(before.started_ms - after.started_ms) < 10_000
    deadline = cast(Any, _client(each)).hget(f"{each.platform.settings.prefix}:job:{job}", "deadline")
    assert int(deadline) == after.started_ms + 3_600_000
    each.work(lambda lease: _page_of(lease, received=10), at_most=3)
    each.work(lambda lease: _page_of(lease, received=10))
    assert _status(each, job).counters.done == 11
    assert _status(each, job).reasons["filtered:over_bytes"] == 9


@pytest.mark.parametrize("hours", [-1, 1])
def test_a_workers_clock_costs_a_rebuilt_job_no_time(each: Desk, hours: int) -> None:
    """Times of rows are workers' times: nothing was asked for before the job was made, nor in times to come."""
    job = each.submit(*(f"{HOST}/{n}" for n in range(20)), seconds=600, host_seconds=600)

    def visit(lease: Lease) -> Result:
        result = _page_of(lease, received=10)
        assert result.page is not None
        return replace(result, page=replace(result.page, fetched_ms=result.page.fetched_ms + hours * 3_600_000))

    each.work(visit, at_most=3)
    before = _status(each, job).started_ms
    _flush(each)
    _recover(each)
    after = _status(each, job).started_ms
    assert before is not None
    assert after is not None
    assert abs(after - before) < 60_000
    assert abs(int(_spent(each, job)["s shop.example"]) - before) < 60_000
    assert len(each.work(visit)) == 17
    assert _status(each, job).counters.done == 20


def test_the_start_of_a_job_that_is_written_down_is_not_changed_by_a_rebuild(desk: Desk) -> None:
    job = desk.submit(*(f"{HOST}/{n}" for n in range(5)), seconds=600)
    desk.work(lambda lease: _page_of(lease, received=10), at_most=3)
    desk.platform.control.pause(job)
    with desk.platform.engine.begin() as connection:
        connection.execute(sa.update(pages).values(fetched_ms=pages.c.fetched_ms - 3_600_000))
        connection.execute(sa.update(jobs).values(created_ms=jobs.c.created_ms - 3_600_000))
    before = _status(desk, job).started_ms
    _flush(desk)
    _recover(desk)
    assert _status(desk, job).started_ms == before


def _page_of(lease: Lease, *, received: int) -> Result:
    context = JobContext.of(lease.job, JobSpec(follow=False))
    headers = ((b"content-type", b"text/plain"),)
    answer = Response(lease.request.url, 200, "OK", headers, b"x" * received, timedelta())
    return asyncio.run(read_page(context, lease, answer, Reader()))


def _spent(desk: Desk, job: str) -> dict[str, str]:
    found = cast(Any, _client(desk)).hgetall(f"{desk.platform.settings.prefix}:spend:{job}")
    return {name: value for name, value in found.items() if name[0] in "bs" or not value.startswith("-")}


# --- redirects and dead letters --------------------------------------------------------------------------------------


def test_the_target_of_a_stored_redirect_is_fetched(each: Desk, web: Web) -> None:
    job = each.submit(f"{HOST}/moved/1", f"{HOST}/other", robots=False)
    each.work(web.visit(each), at_most=1)
    _flush(each)
    _recover(each)
    leases = each.platform.frontier.lease(queues=ALL_QUEUES, limit=5, lease_for=LONG).leases
    requests = {lease.request.url.target: lease.request for lease in leases}
    assert sorted(requests) == ["/other", "/target/1"]
    assert (requests["/target/1"].hops, requests["/target/1"].depth) == (1, 0)
    each.platform.frontier.release(leases)
    each.work(web.visit(each))
    assert _status(each, job).reasons == {"done:redirect": 1}
    assert _status(each, job).counters.done == 3


def test_hops_go_on_where_they_were(desk: Desk) -> None:
    desk.submit(f"{HOST}/0", robots=False)
    context = JobContext.of("", JobSpec(follow=False))

    def hop(lease: Lease) -> Result:
        answer = Response(lease.request.url, 302, "Found", (), b"", timedelta())
        return read_redirect(context, lease, answer, f"/{int(lease.request.url.target[1:]) + 1}")

    desk.work(hop, at_most=4)
    _flush(desk)
    _recover(desk)
    (lease,) = desk.platform.frontier.lease(queues=ALL_QUEUES, limit=5, lease_for=LONG).leases
    assert (lease.request.url.target, lease.request.hops) == ("/4", 4)
    desk.platform.frontier.release([lease])


def test_dead_letters_stay_dead_and_can_be_replayed(each: Desk) -> None:
    web = Web()
    job = each.submit(*(f"{HOST}/gone/{n}" for n in range(5)), f"{HOST}/closed/1", f"{HOST}/p/3", f"{HOST}/p/5")
    each.work(web.visit(each), at_most=7)
    _flush(each)
    _recover(each)
    status = _status(each, job)
    assert (status.counters.dead, status.counters.dropped, status.counters.queued) == (5, 1, 1)
    assert status.reasons == {"dead:http_404": 5, "robots:robots": 1}
    row = each.platform.jobs.get(job)
    assert row is not None
    assert each.platform.intake.replay(row, Selection(reason="http_404")) == 5
    assert len(each.work()) == 6
    assert (_status(each, job).counters.done, _status(each, job).counters.dead) == (7, 0)


def test_dead_letters_on_their_way_back_are_not_lost(desk: Desk) -> None:
    web = Web()
    job = desk.submit(f"{HOST}/gone/1", f"{HOST}/gone/2", f"{HOST}/1")
    desk.work(web.visit(desk), at_most=2)
    row = desk.platform.jobs.get(job)
    assert row is not None
    desk.platform.intake.replay(row, Selection())  # these wait in the frontier
    _flush(desk)
    _recover(desk)
    assert sorted(desk.work()) == [f"{HOST}/1", f"{HOST}/gone/1", f"{HOST}/gone/2"]
    counters = _status(desk, job).counters
    assert counters.reconciles
    assert (counters.done, counters.dead) == (3, 0)


def test_a_replay_that_was_cut_short_is_carried_out_after_the_rebuild(desk: Desk) -> None:
    web = Web()
    job = desk.submit(f"{HOST}/gone/1", f"{HOST}/gone/2", f"{HOST}/1")
    desk.work(web.visit(desk), at_most=2)
    dead = DeadLetters(desk.platform.engine)
    assert dead.take(job, Selection(), SOON_MS, dead.newest(job)) is not None
    _flush(desk)
    desk.platform.recovery.look()
    desk.platform.housekeeper.tick()
    _recover(desk)
    desk.platform.housekeeper.tick()
    assert sorted(desk.work()) == [f"{HOST}/1", f"{HOST}/gone/1", f"{HOST}/gone/2"]
    counters = _status(desk, job).counters
    assert counters.reconciles
    assert (counters.done, counters.dead) == (3, 0)


# --- crashes, others -------------------------------------------------------------------------------------------------


def test_a_rebuild_that_is_cut_short_anywhere_goes_on(
    desk: Desk, another: Callable[[Desk], Recovery], web: Web, valkey_url: str, tmp_path: Path, small: None
) -> None:
    job = _lost_crawl(desk, web)
    for _ in range(1_000):
        if job not in desk.platform.recovery.under_way():
            break
        another(desk).way.step(job)  # each process does one step and dies
    assert desk.platform.recovery.under_way() == []
    desk.work(web.visit(desk))
    assert Counter(web.asked).most_common(1)[0][1] == 1
    assert _sums(desk, job) == _undisturbed(valkey_url, tmp_path / "undisturbed")


def test_a_step_whose_end_was_not_noted_is_repeated_without_harm(
    desk: Desk, web: Web, valkey_url: str, tmp_path: Path, small: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = _lost_crawl(desk, web)
    calls = 0
    rebuild = desk.platform.rebuild
    advance = rebuild.advance

    def lame(job: str, place: str, to: str) -> tuple[str, bool]:
        nonlocal calls
        calls += 1
        if calls % 2:
            raise RedisUnavailable("on purpose")
        return advance(job, place, to)

    monkeypatch.setattr(rebuild, "advance", lame)
    for _ in range(1_000):
        if job not in desk.platform.recovery.under_way():
            break
        desk.platform.recovery.tick(timedelta(milliseconds=1))
    desk.work(web.visit(desk))
    assert calls > 20
    assert _sums(desk, job) == _undisturbed(valkey_url, tmp_path / "undisturbed")


def test_two_who_rebuild_at_once_do_not_count_twice(
    desk: Desk, another: Callable[[Desk], Recovery], web: Web, valkey_url: str, tmp_path: Path, small: None
) -> None:
    job = _lost_crawl(desk, web)
    others = [another(desk), another(desk)]
    while not all(done.complete for done in [other.way.step(job) for other in others]):
        desk.work(web.visit(desk), at_most=1)
    desk.work(web.visit(desk))
    assert Counter(web.asked).most_common(1)[0][1] == 1
    assert _sums(desk, job) == _undisturbed(valkey_url, tmp_path / "undisturbed")
    assert desk.platform.watch.stats()["rebuilt"] == 1


def test_a_rebuild_is_done_step_by_step_while_workers_fetch(desk: Desk, web: Web, small: None) -> None:
    job = _lost_crawl(desk, web)
    parts: list[Part] = []
    while place := desk.platform.rebuild.places([job])[0]:
        parts.append(Place.read(place).part)
        if parts[-1].startswith("recall"):
            assert desk.work(web.visit(desk)) == []
        else:
            desk.work(web.visit(desk), at_most=1)
        desk.platform.recovery.way.step(job)
    assert list(dict.fromkeys(parts)) == [Part.PAGES, Part.LETTERS, Part.REPLAYS, Part.URLS, Part.LINKS, Part.FOUND]
    assert parts.count(Part.PAGES) > 3
    assert parts.count(Part.LINKS) > 3
    desk.work(web.visit(desk))
    assert Counter(web.asked).most_common(1)[0][1] == 1


def test_a_body_that_is_gone_costs_its_links_only(desk: Desk, web: Web, tmp_path: Path) -> None:
    job = _crawl(desk)
    desk.work(web.visit(desk), at_most=10)
    desk.archive.close()
    for segment in desk.platform.settings.archive_path.rglob("*.warc.gz"):
        segment.unlink()
    _flush(desk)
    desk.platform.recovery.look()
    done = desk.platform.recovery.way.run(job)
    assert done.missing > 0
    assert desk.state(job) is JobState.RUNNING
    desk.work(web.visit(desk))
    assert desk.state(job) is JobState.FINISHED


# --- how it is noticed -----------------------------------------------------------------------------------------------


def test_an_older_frontier_is_noticed_and_its_jobs_are_rebuilt(
    each: Desk, web: Web, valkey_url: str, tmp_path: Path
) -> None:
    job, ended = _crawl(each), each.submit("http://other.example/1")
    each.work(web.visit(each), at_most=8)
    held = each.platform.frontier.lease(queues=ALL_QUEUES, limit=2, lease_for=LONG).leases
    saved = _saved(each)
    each.platform.frontier.release(held)
    each.work(web.visit(each), at_most=20)
    assert each.state(ended) is JobState.FINISHED
    each.platform.recovery.look()
    _go_back(each, saved)
    _recover(each)
    assert each.platform.frontier.known_jobs() == [job]
    assert each.state(ended) is JobState.FINISHED
    each.work(web.visit(each))
    assert Counter(web.asked).most_common(1)[0][1] == 1
    assert _sums(each, job) == _undisturbed(valkey_url, tmp_path / "undisturbed")


def test_a_fencing_token_is_not_given_twice_by_an_older_frontier(desk: Desk) -> None:
    desk.submit(*(f"{HOST}/{n}" for n in range(20)))
    desk.work(at_most=1)
    saved = _saved(desk)
    before = desk.platform.frontier.lease(queues=ALL_QUEUES, limit=3, lease_for=LONG).leases
    _go_back(desk, saved)
    after = desk.platform.frontier.lease(queues=ALL_QUEUES, limit=3, lease_for=LONG).leases
    assert {lease.group for lease in before}.isdisjoint({lease.group for lease in after})
    desk.platform.frontier.release(after)


def test_who_decides_and_is_held_up_until_another_has_decided_changes_nothing(
    each: Desk, another: Callable[[Desk], Recovery], web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    for job in range(3):
        each.submit(*(f"{HOST}/{job}/{n}" for n in range(5)))
    for _ in range(5):
        each.platform.recovery.look()
    each.work(web.visit(each), at_most=3)
    _flush(each)
    other, frontier, held = another(each), each.platform.frontier, list[Lease]()
    begin = each.platform.recovery.way.begin

    def frozen(job: str, **how: Any) -> bool:
        """For longer than its claim lasts, and while the other rebuilds everything."""
        monkeypatch.undo()
        _client(each).delete(f"{each.platform.settings.prefix}:ring:recovery")
        for _ in range(8):
            while other.tick():
                pass
        held.extend(frontier.lease(queues=ALL_QUEUES, limit=20, lease_for=LONG).leases)
        return begin(job, **how)

    monkeypatch.setattr(each.platform.recovery.way, "begin", frozen)
    each.platform.recovery.look()
    for _ in range(3):
        other.look()
    assert len(held) == 12
    assert frontier.renew({lease.group for lease in held}, LONG) == frozenset()
    assert each.platform.watch.stats()["rebuilt"] == 3
    frontier.release(held)
    assert len(each.work(web.visit(each))) == 12


def test_a_claim_is_given_back_by_its_owner_only(desk: Desk) -> None:
    rebuild = desk.platform.rebuild
    epoch = rebuild.next_epoch()
    stale = rebuild.claim()
    assert stale
    assert rebuild.claim() == ""
    rebuild.unclaim(stale)
    claim = rebuild.claim()
    assert claim
    rebuild.unclaim(stale)
    assert not rebuild.conclude(stale, epoch + 10, "stale")
    assert rebuild.claim() == ""
    assert rebuild.next_epoch() == epoch + 1
    assert rebuild.conclude(claim, epoch - 1, rebuild.server())
    assert rebuild.next_epoch() == epoch + 3
    assert rebuild.trusted() == rebuild.server()


def test_a_frontier_that_goes_on_is_left_alone(each: Desk, another: Callable[[Desk], Recovery]) -> None:
    job = each.submit(f"{HOST}/1", f"{HOST}/2")
    each.work(at_most=1)
    others = [each.platform.recovery, another(each)]
    before = _status(each, job).counters
    for _ in range(5):
        for other in others:
            assert not other.tick()
    assert _status(each, job).counters == before
    assert "rebuilt" not in each.platform.watch.stats()


def test_a_single_lost_job_is_found_out(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovery, "PATIENCE", timedelta(seconds=-1))
    lost, other = desk.submit(f"{HOST}/1", f"{HOST}/2"), desk.submit(f"{HOST}/3")
    desk.platform.rebuild.drop(lost)
    desk.platform.recovery.look()
    assert desk.platform.recovery.under_way() == [lost]
    _recover(desk)
    assert sorted(desk.work()) == [f"{HOST}/1", f"{HOST}/2", f"{HOST}/3"]
    assert desk.state(lost) is desk.state(other) is JobState.FINISHED


def test_a_submission_on_its_way_is_not_taken_for_lost(desk: Desk) -> None:
    now = desk.platform.rebuild.now_ms()
    desk.platform.jobs.create(NewJob("young", JobSpec(follow=False), now), [[f"{HOST}/1"]])
    desk.platform.jobs.create(NewJob("old", JobSpec(follow=False), SOON_MS), [[f"{HOST}/1"]])
    desk.platform.recovery.look()
    assert desk.platform.recovery.under_way() == []


def test_the_housekeeper_rebuilds_by_itself(each: Desk, web: Web) -> None:
    job = _crawl(each)
    each.platform.housekeeper.tick()
    each.work(web.visit(each), at_most=10)
    _flush(each)
    each.platform.housekeeper.tick()
    assert ("http.batch", each.platform.jobs.request_id(job)) in each.rings
    each.work(web.visit(each))
    assert each.state(job) is JobState.FINISHED
    assert Counter(web.asked).most_common(1)[0][1] == 1
    assert each.platform.watch.stats()["rebuilt"] == 1
    assert "shoal_jobs_rebuilt_total 1.0" in each.get("/metrics").get_data(as_text=True)


def test_a_job_that_the_frontier_knows_is_rebuilt_on_request(
    desk: Desk, web: Web, valkey_url: str, tmp_path: Path
) -> None:
    job = _crawl(desk)
    desk.work(web.visit(desk), at_most=10)
    held = desk.platform.frontier.lease(queues=ALL_QUEUES, limit=2, lease_for=LONG).leases
    assert not desk.platform.recovery.way.begin(job)
    assert desk.platform.recovery.way.begin(job, force=True)
    assert desk.platform.frontier.release(held).late == len(held)
    desk.platform.recovery.way.run(job)
    desk.work(web.visit(desk))
    assert Counter(web.asked).most_common(1)[0][1] == 1
    assert _sums(desk, job) == _undisturbed(valkey_url, tmp_path / "undisturbed")


def test_a_drop_that_was_cut_short_is_done_again(desk: Desk, web: Web) -> None:
    job = _crawl(desk)
    desk.work(web.visit(desk), at_most=10)
    key = f"{desk.platform.settings.prefix}:job:{job}"
    cast(Any, _client(desk)).hset(key, "rebuild", "recall drop 0 0 -")
    _recover(desk)
    desk.work(web.visit(desk))
    assert desk.state(job) is JobState.FINISHED
    assert Counter(web.asked).most_common(1)[0][1] == 1


def test_an_ended_job_is_not_brought_back(desk: Desk) -> None:
    job = desk.submit(f"{HOST}/1")
    desk.work()
    _flush(desk)
    _recover(desk)
    assert not desk.platform.recovery.way.begin(job, force=True)
    assert desk.platform.frontier.known_jobs() == []


def test_a_job_that_cannot_be_read_holds_up_no_other(desk: Desk) -> None:
    broken, whole = desk.submit(f"{HOST}/1"), desk.submit(f"{HOST}/2")
    with desk.platform.engine.begin() as connection:
        connection.execute(sa.update(jobs).where(jobs.c.id == broken).values(spec={"rate": {}}))
    with pytest.raises(StoreUnavailable):
        desk.platform.jobs.get(broken)
    _flush(desk)
    _recover(desk)
    assert desk.work() == [f"{HOST}/2"]
    assert desk.state(whole) is JobState.FINISHED
    with pytest.raises(NotFound):
        desk.platform.recovery.way.step(parse(HOST).host)


def test_nothing_is_leased_from_a_server_that_was_started_anew_before_it_was_looked_at(desk: Desk) -> None:
    with running(valkey()) as url:
        settings = desk.platform.settings.model_copy(update={"redis_url": url, "prefix": "anew"})
        frontier = Frontier.at(redis_urls(settings).frontier, settings.prefix)
        platform = Platform.open(settings, frontier, no_ring)
        try:
            platform.intake.submit(JobSpec(urls=(f"{HOST}/1",), follow=False))
            platform.rebuild.trust("another run")
            batch = frontier.lease(queues=ALL_QUEUES, limit=5, lease_for=LONG)
            assert (batch.leases, batch.trusted) == ((), False)
            assert batch.next_due is not None
            assert batch.next_due < timedelta(seconds=1)
            platform.recovery.look()
            (lease,) = frontier.lease(queues=ALL_QUEUES, limit=5, lease_for=LONG).leases
            assert str(lease.request.url) == f"{HOST}/1"
        finally:
            platform.close()


def test_numbers_of_leases_only_rise_and_once_for_each_run_of_the_server(desk: Desk) -> None:
    """Several look at once at a server that was started anew, and one of them may come late."""
    client, key, rebuild = cast(Any, _client(desk)), f"{desk.platform.settings.prefix}:sequence", desk.platform.rebuild
    rebuild.trust("the run before")
    client.set(key, 10**15)
    rebuild.skip_leases(rebuild.server(), timedelta(minutes=1))
    assert int(client.get(key)) == 10**15 + 480_000
    client.set(key, 10**15 + 500_000)  # leases were given meanwhile
    rebuild.skip_leases(rebuild.server(), timedelta(minutes=1))
    assert int(client.get(key)) > 10**15 + 500_000
    rebuild.trust(rebuild.server())
    before = client.get(key)
    rebuild.skip_leases(rebuild.server(), timedelta(minutes=1))
    assert client.get(key) == before


def test_nothing_is_leased_from_a_promoted_replica_before_it_was_looked_at_or_ten_seconds_are_over(
    desk: Desk,
) -> None:
    """It has run for as long as the primary before it, and so its uptime tells nothing."""
    client, prefix = cast(Any, _client(desk)), desk.platform.settings.prefix
    wait_until(lambda: client.info("server")["uptime_in_seconds"] > 10, within=timedelta(seconds=20))
    desk.submit(f"{HOST}/1")
    desk.platform.rebuild.trust("the run of the primary before it")
    frontier = desk.platform.frontier
    client.set(f"{prefix}:met", "anotherrun 0", ex=60)
    for _ in range(2):
        assert not frontier.lease(queues=ALL_QUEUES, limit=5, lease_for=LONG).trusted
    run, since = client.get(f"{prefix}:met").split()
    assert run == desk.platform.rebuild.server()
    assert 0 < client.ttl(f"{prefix}:met") <= 86_400
    client.set(f"{prefix}:met", f"{run} {int(since) - 10_001}", ex=60)  # nobody keeps house: work must go on
    (lease,) = frontier.lease(queues=ALL_QUEUES, limit=5, lease_for=LONG).leases
    assert str(lease.request.url) == f"{HOST}/1"


def test_numbers_of_leases_that_were_forgotten_are_not_given_again(desk: Desk) -> None:
    """By a server whose clock is late, too."""
    client, prefix = cast(Any, _client(desk)), desk.platform.settings.prefix
    desk.submit(f"{HOST}/1", f"{HOST}/2")
    (before,) = desk.platform.frontier.lease(queues=ALL_QUEUES, limit=1, lease_for=LONG).leases
    client.decrby(f"{prefix}:sequence", 1000)
    client.set(f"{prefix}:server", "before")
    desk.platform.recovery.look()
    (after,) = desk.platform.frontier.lease(queues=ALL_QUEUES, limit=1, lease_for=LONG).leases
    eighths = 8 * 59_000
    assert int(after.group) > int(before.group) + eighths


# --- a server that lost its last moments -----------------------------------------------------------------------------


def _restart(desk: Desk, saved: dict[str, tuple[int, bytes]]) -> None:
    """The server was started anew and has gone back, but not behind the last look."""
    epoch = cast(Any, _client(desk)).get(f"{desk.platform.settings.prefix}:epoch")
    _go_back(desk, saved)
    cast(Any, _client(desk)).set(f"{desk.platform.settings.prefix}:epoch", epoch)
    cast(Any, _client(desk)).set(f"{desk.platform.settings.prefix}:server", "before")


def test_more_stored_pages_than_the_frontier_could_have_are_noticed(
    each: Desk, web: Web, valkey_url: str, tmp_path: Path
) -> None:
    job = _crawl(each)
    each.work(web.visit(each), at_most=8)
    saved = _saved(each)
    each.work(web.visit(each), at_most=8)
    _restart(each, saved)
    _recover(each)
    each.work(web.visit(each))
    assert Counter(web.asked).most_common(1)[0][1] == 1
    assert _sums(each, job) == _undisturbed(valkey_url, tmp_path / "undisturbed")


def test_submissions_and_replays_that_a_server_lost_are_carried_out_again(each: Desk, web: Web) -> None:
    job = each.submit(f"{HOST}/gone/1", f"{HOST}/1", open=True)
    each.work(web.visit(each))
    saved = _saved(each)
    row = each.platform.jobs.get(job)
    assert row is not None
    each.platform.intake.add(row, [(1, f"{HOST}/2", "")])
    assert each.platform.intake.replay(row, Selection()) == 1
    _restart(each, saved)
    _recover(each)
    assert sorted(each.work()) == [f"{HOST}/2", f"{HOST}/gone/1"]
    counters = _status(each, job).counters
    assert (counters.done, counters.dead, counters.reconciles) == (3, 0, True)
    each.platform.recovery.look()
    assert each.work() == []


def test_a_restart_does_not_undo_a_cancel(each: Desk) -> None:
    job = each.submit(*(f"{HOST}/{n}" for n in range(5)))
    each.work(at_most=2)
    saved = _saved(each)
    each.platform.control.cancel(job)
    _restart(each, saved)
    _recover(each)
    assert each.work() == []
    assert each.state(job) is JobState.CANCELLED
    assert each.platform.frontier.known_jobs() == []


def test_a_restart_does_not_undo_a_cancel_of_what_is_under_way(each: Desk) -> None:
    job = each.submit(*(f"{HOST}/{n}" for n in range(5)))
    held = each.platform.frontier.lease(queues=ALL_QUEUES, limit=2, lease_for=LONG).leases
    saved = _saved(each)
    each.platform.control.cancel(job)
    _restart(each, saved)
    _recover(each)
    assert each.work() == []
    delivery = Delivery(each.platform.frontier, each.platform.pages, each.archive, each.platform.ending.finalise)
    assert delivery.deliver([_page_of(lease, received=10) for lease in held]).late == 0
    row = each.platform.jobs.get(job)
    assert row is not None
    assert row.status is not None
    assert (row.state, row.status.counters.done, row.status.counters.dropped) == (JobState.CANCELLED, 2, 3)
    assert row.status.ended_ms is not None


def test_a_restart_does_not_undo_the_end_of_a_job(each: Desk) -> None:
    job = each.submit(*(f"{HOST}/{n}" for n in range(5)))
    saved = _saved(each)
    each.work()
    _restart(each, saved)
    _recover(each)
    assert each.work() == []
    assert each.state(job) is JobState.FINISHED
    assert _status(each, job).counters.done == 5


def test_a_restart_does_not_bring_back_a_deleted_job(each: Desk) -> None:
    job = each.submit(*(f"{HOST}/{n}" for n in range(5)))
    saved = _saved(each)
    each.platform.control.delete(job)
    _restart(each, saved)
    _recover(each)
    assert each.work() == []
    assert each.platform.frontier.known_jobs() == []


def test_a_restart_undoes_neither_a_pause_nor_its_end(each: Desk) -> None:
    paused, resumed = (each.submit(*(f"{HOST}/{job}/{n}" for n in range(5))) for job in range(2))
    each.platform.control.pause(resumed)
    saved = _saved(each)
    each.platform.control.pause(paused)
    each.platform.control.resume(resumed)
    _restart(each, saved)
    _recover(each)
    assert len(each.work()) == 5
    assert each.state(paused) is JobState.PAUSED
    assert each.state(resumed) is JobState.FINISHED


def test_a_job_that_cannot_be_read_holds_up_no_restart(desk: Desk) -> None:
    broken, paused = desk.submit(f"{HOST}/1"), desk.submit(f"{HOST}/2")
    saved = _saved(desk)
    desk.platform.control.pause(paused)
    with desk.platform.engine.begin() as connection:
        connection.execute(sa.update(jobs).where(jobs.c.id == broken).values(spec={"rate": {}}))
    _restart(desk, saved)
    desk.platform.recovery.look()
    assert desk.state(paused) is JobState.PAUSED
    desk.platform.frontier.cancel(broken)
    desk.platform.frontier.forget(broken)


def test_what_was_replayed_and_is_stored_is_not_replayed_once_more_after_a_restart(each: Desk, web: Web) -> None:
    """What tells a replay from its repetition goes when the job ends; here it has ended in between."""
    job = each.submit("http://a.example/gone/1", "http://b.example/gone/1")
    each.work(web.visit(each))
    each.platform.intake.replay(each.platform.control.job(job), Selection(host="a.example"))
    assert each.work() == ["http://a.example/gone/1"]
    assert each.state(job) is JobState.FINISHED
    each.platform.intake.replay(each.platform.control.job(job), Selection(host="b.example"))
    _restart(each, _saved(each))
    _recover(each)
    assert each.work() == ["http://b.example/gone/1"]
    counters = _status(each, job).counters
    assert (counters.done, counters.dead, counters.reconciles) == (2, 0, True)


def test_what_was_replayed_twice_is_fetched_once_after_a_restart(each: Desk, web: Web) -> None:
    """It has died again in between, and the job has ended: of two replays without a row the last one counts."""
    job = each.submit(f"{HOST}/gone/1")
    each.work(web.visit(each))
    each.platform.intake.replay(each.platform.control.job(job), Selection())
    each.work(web.visit(each))
    assert each.state(job) is JobState.FINISHED
    each.platform.intake.replay(each.platform.control.job(job), Selection())
    _restart(each, _saved(each))
    _recover(each)
    assert each.work() == [f"{HOST}/gone/1"]
    counters = _status(each, job).counters
    assert (counters.done, counters.dead, counters.reconciles) == (1, 0, True)


def test_a_restart_without_a_loss_changes_nothing(desk: Desk, web: Web) -> None:
    job = _crawl(desk)
    desk.work(web.visit(desk), at_most=8)
    held = desk.platform.frontier.lease(queues=ALL_QUEUES, limit=2, lease_for=LONG).leases
    before = _status(desk, job).counters
    _restart(desk, _saved(desk))
    assert not desk.platform.recovery.tick()
    after = _status(desk, job).counters
    assert (after.admitted, after.done, after.leased) == (before.admitted, before.done, before.leased)
    assert desk.platform.frontier.release(held).late == 0


def test_a_server_that_was_started_anew_is_in_doubt_for_a_while(desk: Desk) -> None:
    """It may have forgotten that it gave requests away whose pages are stored."""
    rebuild = desk.platform.rebuild
    desk.platform.recovery.look()
    assert rebuild.doubt() == timedelta()
    _restart(desk, _saved(desk))
    desk.platform.recovery.look()
    assert timedelta() < rebuild.doubt() <= DOUBT
    _flush(desk)
    assert rebuild.doubt() == timedelta()
    desk.platform.recovery.look()
    assert timedelta() < rebuild.doubt() <= DOUBT


def test_operators_words_are_told_before_lost_jobs_come_back(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.submit("http://a.test/1")
    assert desk.patch("hosts/a.test", {"paused": True}).status_code == 200
    desk.platform.recovery.look()
    _flush(desk)
    paused: list[bool] = []
    look = Recovery.look

    def looked(recovery: Recovery) -> None:
        host = desk.platform.watch.host("a.test")
        paused.append(host is not None and host.paused)
        look(recovery)

    monkeypatch.setattr(Recovery, "look", looked)
    sync_hosts(desk.platform.settings)
    assert paused == [True]
