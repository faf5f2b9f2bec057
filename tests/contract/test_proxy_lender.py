"""Proxies for the fetches of one process, on a real server: batches, waits, returns, and what is cut short."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import TypeVar

import pytest
import redis
import uvloop

from shoal.core.proxies import ProxyPool, Verdict, verdict_of
from shoal.core.url import Url, parse
from shoal.errors import FetchError, RedisUnavailable
from shoal.fetch.http import HttpClient
from shoal.fetch.port import FetchLimits
from shoal.frontier.proxies import Lent, ProxyDesk, Return, Want
from shoal.proxy_pools import ProxyPools
from shoal.worker.proxies import BATCH, Loan, ProxyLender
from tests.guards import guard_of_loopback
from tests.proxies import http_proxy, socks_proxy
from tests.site.bookshop import Bookshop
from tests.site.server import serve

T = TypeVar("T")

PAGE = parse("http://shop.example/a")
POOL = ProxyPool(list=("http://u:secret@a.example:1", "http://u:secret@b.example:2"))


class CountingDesk(ProxyDesk):
    """A real desk that counts its calls."""

    def __init__(self, client: redis.Redis, prefix: str) -> None:
        super().__init__(client, prefix)
        self.borrowed: list[int] = []
        self.returned: list[int] = []
        self.away: Exception | None = None

    def borrow(self, wants: Sequence[Want]) -> list[Lent | timedelta]:
        self.borrowed.append(len(wants))
        if self.away:
            raise self.away
        return super().borrow(wants)

    def give_back(self, returns: Sequence[Return]) -> int:
        self.returned.append(len(returns))
        if self.away:
            raise self.away
        return super().give_back(returns)


@pytest.fixture
def desk(client: redis.Redis, prefix: str) -> CountingDesk:
    return CountingDesk(client, prefix)


@pytest.fixture
def threads() -> Generator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as threads:
        yield threads


@pytest.fixture
def lender(desk: CountingDesk, threads: ThreadPoolExecutor, tmp_path: Path) -> ProxyLender:
    path = tmp_path / "pools.yaml"
    path.write_text("pools: {named: {list: ['http://c.example:3']}}", encoding="utf-8")
    return ProxyLender(desk, ProxyPools(path), threads)


def run(main: Callable[[], Awaitable[T]]) -> T:
    async def outer() -> T:
        return await main()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(outer())


def test_what_is_wanted_and_returned_together_goes_in_few_calls(lender: ProxyLender, desk: CountingDesk) -> None:
    async def main() -> list[Loan]:
        loans = await asyncio.gather(*(lender.borrow("job", POOL, PAGE) for _ in range(3 * BATCH)))
        for loan in loans:
            lender.give_back(loan, Verdict.OK)
        await lender.close()
        return loans

    loans = run(main)
    assert {loan.proxy.host for loan in loans} == {"a.example", "b.example"}
    assert desk.borrowed == desk.returned == [BATCH] * 3
    assert [state.in_flight for state in desk.look(POOL.names)] == [0, 0]


def test_a_pool_of_the_operators_is_found_by_its_name(lender: ProxyLender) -> None:
    async def main() -> Loan:
        loan = await lender.borrow("job", "named", PAGE)
        lender.give_back(loan, Verdict.OK)
        await lender.close()
        return loan

    assert run(main).proxy.host == "c.example"


def test_a_pool_that_this_worker_does_not_know_is_left_to_others(lender: ProxyLender, desk: CountingDesk) -> None:
    with pytest.raises(FetchError) as caught:
        run(lambda: lender.borrow("job", "unknown", PAGE))
    assert caught.value.reason == "proxy_wait"
    assert caught.value.retry_after == timedelta(seconds=15)
    assert desk.borrowed == []


def test_when_none_has_room_the_request_is_told_when_to_come_again(lender: ProxyLender) -> None:
    tight = ProxyPool(list=("http://a.example:1",), parallel=1)

    async def main() -> FetchError:
        loan = await lender.borrow("job", tight, PAGE)
        with pytest.raises(FetchError) as caught:
            await lender.borrow("job", tight, PAGE)
        lender.give_back(loan, Verdict.OK)
        await lender.close()
        lender.give_back(await lender.borrow("job", tight, PAGE), Verdict.OK)
        await lender.close()
        return caught.value

    error = run(main)
    assert error.reason == "proxy_wait"
    assert error.retry_after is not None
    assert timedelta() < error.retry_after < timedelta(seconds=1)


def test_verdicts_reach_the_desk(lender: ProxyLender, desk: CountingDesk) -> None:
    async def main() -> str:
        loan = await lender.borrow("job", POOL, PAGE)
        lender.give_back(loan, Verdict.REFUSED)
        await lender.close()
        return loan.proxy.id

    (state,) = desk.look([run(main)])
    assert state.rest > timedelta(seconds=20)


def test_a_job_keeps_to_its_proxy(lender: ProxyLender) -> None:
    sticky = ProxyPool.model_validate({"list": POOL.list, "rotate": "session"})

    async def main() -> set[str]:
        loans = [await lender.borrow("job", sticky, parse(f"http://h{number}.example/")) for number in range(5)]
        for loan in loans:
            lender.give_back(loan, Verdict.OK)
        await lender.close()
        return {loan.proxy.host for loan in loans}

    assert len(run(main)) == 1


@pytest.mark.parametrize("pauses", [0, 1, 3])
def test_what_nobody_waits_for_any_more_goes_back(lender: ProxyLender, desk: CountingDesk, pauses: int) -> None:
    async def main() -> None:
        task = asyncio.create_task(lender.borrow("job", POOL, PAGE))
        for _ in range(pauses):
            await asyncio.sleep(0.002)
        task.cancel()
        loans = await asyncio.gather(task, return_exceptions=True)
        for loan in loans:
            if isinstance(loan, Loan):
                lender.give_back(loan, Verdict.NONE)
        await lender.close()

    run(main)
    assert [state.in_flight for state in desk.look(POOL.names)] == [0, 0]


def test_while_redis_is_away_requests_wait_and_nothing_goes_out_without_a_proxy(
    lender: ProxyLender, desk: CountingDesk
) -> None:
    async def main() -> FetchError:
        loan = await lender.borrow("job", POOL, PAGE)
        desk.away = RedisUnavailable()
        with pytest.raises(FetchError) as caught:
            await lender.borrow("job", POOL, PAGE)
        lender.give_back(loan, Verdict.OK)
        await lender.close()
        return caught.value

    error = run(main)
    assert (error.reason, error.retry_after) == ("proxy_wait", timedelta(seconds=5))


def test_a_fault_of_our_own_reaches_those_who_wait(lender: ProxyLender, desk: CountingDesk) -> None:
    async def main() -> None:
        desk.away = RuntimeError("a fault")
        with pytest.raises(RuntimeError, match="a fault"):
            await lender.borrow("job", POOL, PAGE)
        desk.away = None
        lender.give_back(await lender.borrow("job", POOL, PAGE), Verdict.OK)
        await lender.close()

    run(main)


def test_no_error_names_credentials(lender: ProxyLender) -> None:
    async def main() -> str:
        tight = ProxyPool(list=POOL.list, parallel=1)
        loans = [await lender.borrow("job", tight, PAGE) for _ in range(2)]
        with pytest.raises(FetchError) as caught:
            await lender.borrow("job", tight, PAGE)
        for loan in loans:
            lender.give_back(loan, Verdict.OK)
        await lender.close()
        return f"{caught.value!r} {loans!r}"

    assert "secret" not in run(main)


def test_a_proxy_that_dies_is_left_and_the_others_carry_on(lender: ProxyLender, desk: CountingDesk) -> None:
    """The whole way: borrow, fetch through it, give it back with what the fetch tells."""

    async def visit(client: HttpClient, pool: ProxyPool, url: Url) -> str:
        loan = await lender.borrow("job", pool, url)
        error: FetchError | None = None
        try:
            await client.fetch(url, {}, FetchLimits(), loan.proxy)
        except FetchError as exc:
            error = exc
        lender.give_back(loan, verdict_of(error))
        await lender.close()
        return error.reason if error else "done"

    async def main(pool: ProxyPool, url: Url) -> list[str]:
        client = HttpClient("x", guard_of_loopback())
        outcomes = [await visit(client, pool, url) for _ in range(20)]
        await client.close()
        return outcomes

    with (
        serve(Bookshop(slow_seconds=0)) as site,
        http_proxy() as good,
        socks_proxy() as other,
        http_proxy(resets=True) as dead,
    ):
        pool = ProxyPool(list=(good.url(), other.url("socks5"), dead.url()))
        outcomes = run(lambda: main(pool, parse(site.url)))
    assert 1 <= outcomes.count("proxy_failed") <= 3
    assert set(outcomes) == {"done", "proxy_failed"}
    assert 5 < len(good.passed) < outcomes.count("done") - 5  # they share the work; a SOCKS connection is used again
    assert (len(other.passed), dead.passed) == (1, [])
