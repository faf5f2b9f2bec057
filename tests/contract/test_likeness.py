"""Pages that say the same, found over all workers: in the frontier, in rows, and after Redis was lost."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import cast

import redis
from sqlalchemy.engine import Engine

from shoal.control import Ending
from shoal.core.likeness import Duplicates, Likeness
from shoal.core.model import Outcome, Request, Settlement
from shoal.core.spec import JobSpec
from shoal.core.url import parse
from shoal.frontier.frontier import Frontier
from shoal.frontier.likeness import Said
from shoal.store.archive import ArchiveWriter
from shoal.store.history import HistoryStore
from shoal.store.items import ItemRow
from shoal.store.job_rows import NewJob
from shoal.store.jobs import JobStore
from shoal.store.page_rows import PageRow
from shoal.store.pages import PageStore
from shoal.worker.delivery import Delivery
from shoal.worker.result import Result
from tests.contract.frontier_calls import counters, lease, pages, start, status_of

SIMHASH = 0x0123_4567_89AB_CDEF


def said(fingerprint: int, simhash: int = SIMHASH, *, job: str = "job", distance: int = 3, content: int = 1) -> Said:
    return Said(job, fingerprint, Likeness(content, simhash), distance)


def flipped(bits: int) -> int:
    return SIMHASH ^ sum(1 << bit for bit in random.Random(bits).sample(range(63), bits))


def test_a_page_within_the_distance_of_an_earlier_one_is_like_it(frontier: Frontier) -> None:
    start(frontier, "job", pages("a.test", 1))
    for distance in range(8):
        book = f"job{distance}"
        start(frontier, book, pages("a.test", 1))
        assert frontier.resemble([said(1, job=book, distance=distance)]) == [None]
        for bits in range(1, 12):
            like = frontier.resemble([said(100 + bits, flipped(bits), job=book, distance=distance or 1)]) == [1]
            assert like is (bits <= distance) or distance == 0
    assert frontier.resemble([said(1), said(-2), said(3, 7)]) == [None, 1, None], "in one call, too"
    for job in ("job", *(f"job{distance}" for distance in range(8))):
        frontier.cancel(job)


def test_with_a_distance_of_nothing_all_words_must_be_the_same(frontier: Frontier) -> None:
    start(frontier, "job", pages("a.test", 1))
    told = [said(1, distance=0, content=5), said(2, distance=0, content=6), said(3, 9, distance=0, content=5)]
    assert frontier.resemble(told) == [None, None, 1]


def test_telling_it_twice_changes_nothing(frontier: Frontier, client: redis.Redis, prefix: str) -> None:
    start(frontier, "job", pages("a.test", 1))
    told = [said(1), said(2), said(3, flipped(2))]
    assert frontier.resemble(told) == [None, 1, 1]
    size = client.hlen(f"{prefix}:alike:job")
    assert frontier.resemble(told) == [None, 1, 1]
    assert client.hlen(f"{prefix}:alike:job") == size


def test_jobs_are_not_held_against_each_other_and_an_unknown_one_leaves_nothing(
    frontier: Frontier, client: redis.Redis, prefix: str
) -> None:
    start(frontier, "one", pages("a.test", 1))
    start(frontier, "two", pages("a.test", 1))
    told = [said(1, job="one"), said(2, job="two"), said(3, job="none"), said(4, job="none")]
    assert frontier.resemble(told) == [None, None, None, None]
    assert not client.exists(f"{prefix}:alike:none")
    frontier.cancel("one")
    frontier.forget("one")
    assert not client.exists(f"{prefix}:alike:one")


def test_pages_that_share_some_bits_do_not_fill_redis(frontier: Frontier, client: redis.Redis, prefix: str) -> None:
    """Who knows how they are found can write pages that all stand in one band."""
    start(frontier, "job", pages("a.test", 1))
    told = [said(number, (number * 0x9E3779B97F4A7C15 & 0xFFFF_FFFF_FFFF) | 7 << 48) for number in range(1, 1_000)]
    frontier.resemble(told)
    assert client.hstrlen(f"{prefix}:alike:job", "0:0007") == 200 * 16


def test_memory_for_a_page_is_what_the_guide_says(frontier: Frontier, client: redis.Redis, prefix: str) -> None:
    start(frontier, "job", pages("a.test", 1))
    source = random.Random(3)
    told = [said(source.getrandbits(62), source.getrandbits(63)) for _ in range(5_000)]
    frontier.resemble(told)
    size = cast("int", client.memory_usage(f"{prefix}:alike:job", samples=0))  # pyright: ignore[reportUnknownMemberType]
    assert 100 < size / len(told) < 400


def depot(
    frontier: Frontier, engine: Engine, root: Path, asked: Duplicates
) -> tuple[Delivery, PageStore, list[Result]]:
    jobs, store, writer = JobStore(engine), PageStore(engine), ArchiveWriter(root, 10**9)
    spec = JobSpec(urls=("https://a.test/",), rate="unlimited", duplicates=asked)
    jobs.create(NewJob("job", spec, 1), [["https://a.test/"]])
    frontier.create("job", spec)
    frontier.admit("job", pages("a.test", 3))
    frontier.close("job")
    results: list[Result] = []
    for number, each in enumerate(lease(frontier, 3)):
        url = each.request.url
        row = PageRow("job", url.fingerprint, str(url), url.host, 200, 0, 0, "text/html", "", 1, 1.0, 1)
        row = replace(row, content_hash=number // 2, simhash=SIMHASH if number < 2 else 5)
        item = ItemRow("job", url.fingerprint, 0, str(url), {"n": number})
        links = [Request(parse(f"https://a.test/from/{number}"), 1)]
        settlement = Settlement(each, Outcome.DONE)
        results.append(Result(settlement, page=row, items=(item,), candidates=[*links], alike=asked))
    return Delivery(frontier, store, writer, Ending(frontier, jobs, HistoryStore(engine)).finalise), store, results


def test_duplicates_are_marked_in_their_rows_and_counted(frontier: Frontier, engine: Engine, tmp_path: Path) -> None:
    delivery, store, results = depot(frontier, engine, tmp_path, Duplicates())
    delivery.deliver(results)
    rows = list(store.pages("job"))
    assert [row.duplicate_of for row in rows] == [None, rows[0].fingerprint, None]
    assert [row.simhash for row in rows] == [SIMHASH, SIMHASH, 5]
    assert len(list(store.items("job"))) == 3
    assert status_of(frontier, "job").reasons["done:duplicate"] == 1
    assert counters(frontier, "job").queued == 3, "their links are followed"
    frontier.cancel("job")


def test_links_and_items_of_duplicates_can_be_left_out(frontier: Frontier, engine: Engine, tmp_path: Path) -> None:
    delivery, store, results = depot(frontier, engine, tmp_path, Duplicates(follow=False, items=False))
    delivery.deliver(results[:1])
    delivery.deliver(results[1:])
    assert [item.data["n"] for item in store.items("job")] == [0, 2]
    assert counters(frontier, "job").queued == 2
    assert [found.urls for _, found in store.links_after("job", 0)] == [
        ("https://a.test/from/0",),
        ("https://a.test/from/2",),
    ]
    frontier.cancel("job")


def test_a_batch_that_is_delivered_again_is_marked_as_before(
    frontier: Frontier, engine: Engine, tmp_path: Path
) -> None:
    delivery, store, results = depot(frontier, engine, tmp_path, Duplicates())
    frontier.resemble([said(results[0].settlement.lease.request.url.fingerprint)])  # and then its worker died
    delivery.deliver(results)
    rows = list(store.pages("job"))
    assert [row.duplicate_of for row in rows] == [None, rows[0].fingerprint, None]
    frontier.cancel("job")
