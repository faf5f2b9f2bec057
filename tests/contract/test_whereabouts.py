"""Where a URL of a job is, on each server: in long queues, with whatever stands in its path, while it moves."""

from __future__ import annotations

from datetime import timedelta

import pytest
import redis

from shoal.core.model import JobState, Outcome, Rejected, Request, Settlement
from shoal.core.spec import JobSpec
from shoal.core.url import Url, parse
from shoal.frontier import whereabouts as module
from shoal.frontier.frontier import Frontier
from shoal.frontier.whereabouts import Where, Whereabouts

HTTP = ("http.batch",)
MINUTE = timedelta(minutes=1)
ODD = ("/a", "/a/", "/a?b=[c]*&d=%5C", "/a,1,2,3/~x", "/h0~AAAAAAAAAAA/a", "/*?*")


def url_of(target: str) -> Url:
    return parse(f"http://shop.example{target}")


@pytest.fixture
def eyes(client: redis.Redis, prefix: str, monkeypatch: pytest.MonkeyPatch) -> Whereabouts:
    """Short-sighted, so that every queue is a long one."""
    monkeypatch.setattr(module, "ENTRIES_AT_ONCE", 3)
    return Whereabouts(client, prefix)


@pytest.fixture
def job(frontier: Frontier) -> str:
    frontier.create("job", JobSpec(urls=("http://shop.example/",), rate="unlimited", parallel=1000))
    return "job"


def test_every_queued_url_is_found_at_its_place(frontier: Frontier, eyes: Whereabouts, job: str) -> None:
    targets = [*ODD, *(f"/page/{number}" for number in range(20))]
    page = url_of("/").fingerprint
    frontier.admit(job, [Request(url_of(target), 2, found_on=page) for target in targets])
    for place, target in enumerate(targets):
        found = eyes.look(job, url_of(target)).found
        assert found is not None, target
        assert (found.where, found.before, found.request.url) == (Where.QUEUED, place, url_of(target))
        assert (found.request.depth, found.request.found_on) == (2, page)
    frontier.cancel(job)


def test_urgent_ones_come_first_and_what_a_spider_sent_along_does_not_hide_a_url(
    frontier: Frontier, eyes: Whereabouts, job: str
) -> None:
    frontier.admit_submitted(job, [url_of("/1"), url_of("/2")])
    frontier.admit(job, [Request(url_of("/3"), callback="detail", meta='{"next": "/4"}')])
    third = eyes.look(job, url_of("/3"))
    assert third.found is not None
    assert (third.found.before, third.queued, third.found.request.callback) == (2, 3, "detail")
    assert eyes.look(job, url_of("/4")).found is None, "it is only spoken of"
    frontier.cancel(job)


def test_seen_and_filtered_is_not_never_seen(frontier: Frontier, eyes: Whereabouts, job: str) -> None:
    frontier.admit(job, [Rejected(url_of("/denied"), "denied")])
    assert (eyes.look(job, url_of("/denied")).seen, eyes.look(job, url_of("/new")).seen) == (True, False)
    assert eyes.look("nobody", url_of("/new")).state is None
    assert eyes.look(job, url_of("/new")).state is JobState.RUNNING
    frontier.cancel(job)


def test_a_lease_names_who_has_it_and_until_when(client: redis.Redis, prefix: str, job: str, eyes: Whereabouts) -> None:
    worker = Frontier(client, prefix, holder="machine:12:34")
    worker.admit_submitted(job, [url_of(target) for target in ODD])
    leases = worker.lease(queues=HTTP, limit=10, lease_for=MINUTE).leases
    sighting = eyes.look(job, url_of(ODD[2]))
    assert sighting.found is not None
    assert (sighting.found.where, sighting.found.holder) == (Where.LEASED, "machine:12:34")
    assert 0 < sighting.found.until_ms - sighting.now_ms <= 60_000
    worker.renew({lease.group for lease in leases}, 2 * MINUTE)
    renewed = eyes.look(job, url_of(ODD[2])).found
    assert renewed is not None
    assert (renewed.until_ms > sighting.found.until_ms, renewed.holder) == (True, "machine:12:34")
    worker.settle([Settlement(lease, Outcome.DONE) for lease in leases])
    gone = eyes.look(job, url_of(ODD[2]))
    assert (gone.seen, gone.found) == (True, None)
    worker.cancel(job)


def test_a_retry_is_found_with_its_time(frontier: Frontier, eyes: Whereabouts, job: str) -> None:
    frontier.admit(job, [Request(url_of(target), 1, found_on=7) for target in ODD])
    leases = frontier.lease(queues=HTTP, limit=10, lease_for=MINUTE).leases
    frontier.settle([Settlement(lease, Outcome.RETRY, "http_503", MINUTE) for lease in leases])
    for target in ODD:
        sighting = eyes.look(job, url_of(target))
        assert sighting.found is not None, target
        assert (sighting.found.where, sighting.found.request.attempt) == (Where.DELAYED, 1)
        assert (sighting.found.request.url, sighting.found.request.found_on) == (url_of(target), 7)
        assert 0 < sighting.found.until_ms - sighting.now_ms <= 60_000
    frontier.cancel(job)


def test_a_lost_lease_forgets_neither_its_page_nor_its_loss(frontier: Frontier, eyes: Whereabouts, job: str) -> None:
    frontier.admit(job, [Request(url_of("/a"), 3, found_on=-5)])
    frontier.lease(queues=HTTP, limit=1, lease_for=timedelta(0))
    assert frontier.reap()[0] == 1
    found = eyes.look(job, url_of("/a")).found
    assert found is not None
    assert (found.request.losses, found.request.found_on, found.request.depth) == (1, -5, 3)
    (again,) = frontier.lease(queues=HTTP, limit=1, lease_for=MINUTE).leases
    assert (again.request.losses, again.request.found_on) == (1, -5)
    frontier.settle([Settlement(again, Outcome.DONE)])
    frontier.cancel(job)


def test_a_queue_that_is_too_long_is_told_so(
    frontier: Frontier, eyes: Whereabouts, job: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_ENTRIES", 6)
    frontier.admit(job, [Request(url_of(f"/{number}")) for number in range(20)])
    early, late = eyes.look(job, url_of("/0")), eyes.look(job, url_of("/19"))
    assert (early.seen, early.found, early.unsearched) == (True, None, True)
    assert late.found is not None
    assert late.found.before == 19
    frontier.cancel(job)
