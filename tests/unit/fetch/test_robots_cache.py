"""robots.txt: fetched once for all workers, shared by all who wait, and never in doubt taken for consent."""

from __future__ import annotations

import asyncio
import gzip
import threading
import tracemalloc
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta

import pytest

from shoal.core.robots import MAX_BYTES, Robots, RobotsCopy, version_of
from shoal.core.robots import parse as parse_robots
from shoal.core.url import Url, parse
from shoal.errors import FetchError, StoreUnavailable
from shoal.fetch import robots_cache, robots_inquiry
from shoal.fetch.port import FetchLimits, Response
from shoal.fetch.robots_cache import (
    FAILURE_LIFETIME,
    FORBIDDEN_LIFETIME,
    LARGE,
    LONGEST_LIFETIME,
    RULE_BYTES,
    RobotsCache,
    RobotsUnreachable,
    Rules,
)
from shoal.fetch.robots_inquiry import LIFETIME, LONGEST_TURN, MAX_UNPACKED, SHORTEST_LIFETIME

PAGE = parse("http://a.example/private/page")
ORIGIN = PAGE.origin
ROBOTS = "http://a.example/robots.txt"
CLOSED = b"User-agent: *\nDisallow: /private/\n"

Header = tuple[bytes, bytes]


def reply(status: int = 200, body: bytes = b"", *headers: Header) -> Response:
    return Response(PAGE, status, "", headers, body, timedelta())


def moved(location: bytes, status: int = 301) -> Response:
    return reply(status, b"", (b"Location", location))


class Web:
    """A few answers; the last one of a list repeats."""

    def __init__(self, answers: Mapping[str, Response | Exception | Sequence[Response | Exception]]) -> None:
        self.answers = answers
        self.asked: list[str] = []
        self.limits: set[FetchLimits] = set()
        self.counts: Counter[str] = Counter()
        self.open = asyncio.Event()
        self.open.set()

    async def __call__(self, url: Url, limits: FetchLimits) -> Response:
        self.asked.append(str(url))
        self.limits.add(limits)
        number = self.counts[str(url)]
        self.counts[str(url)] += 1
        await self.open.wait()
        answer = self.answers[str(url)]
        if isinstance(answer, Sequence):
            answer = answer[min(number, len(answer) - 1)]
        if isinstance(answer, Exception):
            raise answer
        return answer


class Shelf:
    """What several caches share; `taken` are origins that somebody else is fetching."""

    def __init__(self, *copies: RobotsCopy) -> None:
        self.copies = {copy.origin: copy for copy in copies}
        self.delays: dict[str, float | None] = {}
        self.taken: set[str] = set()
        self.turns: list[str] = []
        self.waits: dict[str, timedelta | None] = {}
        self.loads = 0
        self.on_claim: Callable[[], None] = lambda: None

    async def load(self, origin: str) -> RobotsCopy | None:
        self.loads += 1
        await asyncio.sleep(0)
        return self.copies.get(origin)

    async def claim(self, origin: str) -> bool:
        await asyncio.sleep(0)
        self.on_claim()
        if origin in self.taken:
            return False
        self.taken.add(origin)
        return True

    async def remind(self, origin: str, crawl_delay: float) -> None:
        await asyncio.sleep(0)
        self.delays[origin] = crawl_delay

    async def turn(self, host: str) -> timedelta | None:
        await asyncio.sleep(0)
        self.turns.append(host)
        return self.waits.get(host, timedelta())

    async def give_up(self, origin: str) -> None:
        await asyncio.sleep(0)
        self.taken.discard(origin)

    async def save(self, copy: RobotsCopy, crawl_delay: float | None) -> None:
        await asyncio.sleep(0)
        self.copies[copy.origin] = copy
        self.delays[copy.origin] = crawl_delay
        self.taken.discard(copy.origin)


class Clock:
    """Time that passes when told to."""

    def __init__(self) -> None:
        self.now = 1_700_000_000.0

    def monotonic(self) -> float:
        return self.now

    def time_ns(self) -> int:
        return int(self.now * 1000) * 1_000_000

    @property
    def ms(self) -> int:
        return int(self.now * 1000)

    def passes(self, span: timedelta) -> None:
        self.now += span.total_seconds()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(robots_cache, "time", clock)
    monkeypatch.setattr(robots_inquiry, "time", clock)
    return clock


def ms(span: timedelta) -> int:
    return span // timedelta(milliseconds=1)


def robots(body: bytes, *headers: Header) -> Web:
    return Web({ROBOTS: reply(200, body, *headers)})


def ask(web: Web, shelf: Shelf | None = None, url: Url = PAGE) -> Rules:
    return asyncio.run(RobotsCache(shelf or Shelf()).rules(url, web))


def allows(web: Web, url: Url = PAGE) -> bool:
    return ask(web, url=url).robots.judge(url.target).allowed


def failure(web: Web) -> RobotsUnreachable:
    shelf = Shelf()
    with pytest.raises(RobotsUnreachable) as caught:
        ask(web, shelf)
    assert shelf.copies == {}
    return caught.value


async def asked(web: Web, count: int = 1) -> None:
    while len(web.asked) < count:
        await asyncio.sleep(0)


def test_the_rules_are_those_of_the_file() -> None:
    web = robots(CLOSED)
    rules = ask(web)
    assert rules.robots.judge("/private/page").named == "line 2: Disallow: /private/"
    assert rules.version == version_of(CLOSED)
    assert [(limits.total, limits.truncate) for limits in web.limits] == [(timedelta(seconds=15), True)]


def test_a_packed_file_is_unpacked() -> None:
    assert not allows(robots(gzip.compress(CLOSED), (b"Content-Encoding", b"gzip")))


def test_a_file_that_only_claims_to_be_packed_is_read_as_it_is() -> None:
    assert not allows(robots(CLOSED, (b"Content-Encoding", b"gzip")))


def test_a_file_that_unpacks_to_far_too_much_is_no_consent() -> None:
    bomb = gzip.compress(b"#" * (MAX_UNPACKED + 1))
    assert failure(robots(bomb, (b"Content-Encoding", b"gzip"))).detail.startswith("too_large")


def test_the_first_500_kib_are_read_and_kept_and_the_rest_is_not() -> None:
    start = b"User-agent: *\n"
    filler = b"# comment\n" * (MAX_BYTES // 10 - 10)
    assert not allows(robots(start + filler + b"Disallow: /private/\n"))
    shelf = Shelf()
    rules = ask(robots(start + filler + b"# comment\n" * 20 + b"Disallow: /private/\n" * 1000), shelf)
    assert rules.robots.judge(PAGE.target).allowed
    assert len(shelf.copies[ORIGIN].body) == MAX_BYTES + 1


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410, 451])
def test_no_file_means_that_all_is_allowed(status: int) -> None:
    shelf = Shelf()
    rules = ask(Web({ROBOTS: reply(status, CLOSED)}), shelf)
    assert rules.robots.judge(PAGE.target).allowed
    assert (shelf.copies[ORIGIN].status, shelf.copies[ORIGIN].body, rules.version) == (status, b"", "")


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504, 599, 999])
def test_a_server_in_trouble_means_that_nothing_may_be_fetched(status: int) -> None:
    error = failure(Web({ROBOTS: reply(status, CLOSED, (b"Retry-After", b"7"))}))
    assert (error.reason, error.detail) == ("robots_unreachable", f"robots.txt answered {status}")
    assert error.retry_after == timedelta(seconds=7)


@pytest.mark.parametrize("reason", ["timeout_connect", "connect_refused", "dns_not_found", "tls_certificate"])
def test_silence_means_that_nothing_may_be_fetched(reason: str) -> None:
    error = failure(Web({ROBOTS: FetchError(reason, "why")}))
    assert (error.reason, error.detail) == (reason, "why")


def test_a_chain_of_redirects_has_one_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(robots_inquiry, "TOTAL", timedelta(milliseconds=20))

    class Slow(Web):
        async def __call__(self, url: Url, limits: FetchLimits) -> Response:
            if str(url) != ROBOTS:
                self.open.clear()
            return await super().__call__(url, limits)

    error = failure(Slow({ROBOTS: moved(b"/r")}))
    assert error.detail.startswith("timeout_total")
    assert [(hop.url.target, hop.status, hop.reason) for hop in error.hops] == [
        ("/robots.txt", 301, ""),
        ("/r", 0, "timeout_total"),
    ]


@pytest.mark.parametrize("location", [b"/r", b"http://a.example/r", b"//a.example/r", b" r "])
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_followed(location: bytes, status: int) -> None:
    web = Web({ROBOTS: moved(location, status), "http://a.example/r": reply(200, CLOSED)})
    assert not allows(web)
    assert web.asked == [ROBOTS, "http://a.example/r"]


def test_a_redirect_may_lead_to_another_host_and_the_copy_stays_that_of_the_first() -> None:
    other = "https://www.a.example/robots.txt"
    shelf = Shelf()
    rules = ask(Web({ROBOTS: moved(other.encode()), other: reply(200, CLOSED)}), shelf)
    assert not rules.robots.judge(PAGE.target).allowed
    assert [(str(hop.url), hop.status, hop.reason) for hop in rules.hops] == [(ROBOTS, 301, ""), (other, 200, "")]
    assert list(shelf.copies) == [ORIGIN]


def test_each_redirect_takes_a_turn_of_the_host_that_it_leads_to() -> None:
    other, shelf = "https://www.a.example/robots.txt", Shelf()
    ask(Web({ROBOTS: moved(b"/r"), "http://a.example/r": moved(other.encode()), other: reply(200, CLOSED)}), shelf)
    assert shelf.turns == ["a.example", "www.a.example"]


def test_a_redirect_waits_for_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    sleep = asyncio.sleep

    async def note(seconds: float) -> None:
        slept.append(seconds)
        await sleep(0)

    shelf = Shelf()
    shelf.waits = {"a.example": timedelta(milliseconds=250), "b.example": timedelta(minutes=1)}
    monkeypatch.setattr(robots_inquiry.asyncio, "sleep", note)
    web = Web(
        {ROBOTS: moved(b"/r"), "http://a.example/r": moved(b"http://b.example/"), "http://b.example/": reply(404)}
    )
    ask(web, shelf)
    assert [seconds for seconds in slept if seconds] == [0.25, LONGEST_TURN.total_seconds()]


def test_a_redirect_to_a_host_that_must_not_be_asked_is_no_consent() -> None:
    shelf = Shelf()
    shelf.waits = {"b.example": None}
    web = Web({ROBOTS: moved(b"http://b.example/"), "http://b.example/": reply(404)})
    with pytest.raises(RobotsUnreachable, match=r"b\.example, which must not be asked now"):
        ask(web, shelf)
    assert web.asked == [ROBOTS]


def chain(length: int) -> Web:
    steps = {f"http://a.example/{number}": moved(b"/%d" % (number + 1)) for number in range(1, length)}
    return Web({ROBOTS: moved(b"/1"), **steps, f"http://a.example/{length}": reply(200, CLOSED)})


def test_five_redirects_are_followed_and_the_sixth_means_that_there_is_no_file() -> None:
    five, six = chain(5), chain(6)
    assert not allows(five)
    assert allows(six)
    assert (len(five.asked), len(six.asked)) == (6, 6)


def test_a_circle_ends() -> None:
    web = Web({ROBOTS: moved(b"/robots.txt")})
    assert allows(web)
    assert len(web.asked) == 6


@pytest.mark.parametrize(
    "answer", [moved(b"mailto:x@y"), moved(b"http://["), moved(b"http://u:p@a.example/"), reply(304), reply(300)]
)
def test_a_redirect_to_nowhere_means_that_there_is_no_file(answer: Response) -> None:
    web = Web({ROBOTS: answer})
    assert allows(web)
    assert web.asked == [ROBOTS]


def test_a_redirect_to_a_server_in_trouble_is_no_consent() -> None:
    error = failure(Web({ROBOTS: moved(b"/r"), "http://a.example/r": reply(503)}))
    assert [hop.status for hop in error.hops] == [301, 503]


def test_all_who_wait_share_one_fetch_and_one_of_them_has_asked() -> None:
    async def main() -> tuple[list[bool], list[bool], list[str]]:
        web = robots(CLOSED)
        web.open.clear()
        cache = RobotsCache(Shelf())
        waiting = [asyncio.create_task(cache.rules(parse(f"http://a.example/{n}"), web)) for n in range(20)]
        await asked(web)
        web.open.set()
        rules = [*await asyncio.gather(*waiting), await cache.rules(PAGE, web)]
        return [each.robots.judge(PAGE.target).allowed for each in rules], [each.asked for each in rules], web.asked

    assert asyncio.run(main()) == ([False] * 21, [True] + [False] * 20, [ROBOTS])


def test_all_who_wait_share_a_failure_and_one_of_them_has_asked() -> None:
    async def main() -> tuple[list[tuple[str, ...]], int]:
        web = Web({ROBOTS: FetchError("timeout_total")})
        web.open.clear()
        cache = RobotsCache(Shelf())
        waiting = [asyncio.create_task(cache.rules(PAGE, web)) for _ in range(3)]
        await asked(web)
        web.open.set()
        failed = [*await asyncio.gather(*waiting, return_exceptions=True)]
        failed += await asyncio.gather(cache.rules(PAGE, web), return_exceptions=True)
        hops = [tuple(hop.reason for hop in each.hops) for each in failed if isinstance(each, RobotsUnreachable)]
        return hops, len(web.asked)

    assert asyncio.run(main()) == ([("timeout_total",), (), (), ()], 1)


@pytest.mark.parametrize("first", [True, False])
def test_one_who_gives_up_does_not_take_the_answer_from_the_others(first: bool) -> None:
    async def main() -> tuple[bool, bool, bool, list[str]]:
        web = robots(CLOSED)
        web.open.clear()
        cache = RobotsCache(Shelf())
        visits = [asyncio.create_task(cache.rules(PAGE, web)) for _ in range(2)]
        impatient, patient = visits if first else reversed(visits)
        await asked(web)
        impatient.cancel()
        web.open.set()
        rules = await patient
        return impatient.cancelled(), rules.robots.judge(PAGE.target).allowed, rules.asked, web.asked

    assert asyncio.run(main()) == (True, False, not first, [ROBOTS])


def test_each_origin_is_asked_for_its_own_file() -> None:
    origins = ["http://a.example", "https://a.example", "http://a.example:8080", "http://www.a.example"]

    async def main() -> list[str]:
        web = Web({f"{origin}/robots.txt": reply(200, CLOSED) for origin in origins})
        cache = RobotsCache(Shelf())
        for origin in origins * 2:
            await cache.rules(parse(f"{origin}/x?y"), web)
        return web.asked

    assert asyncio.run(main()) == [f"{origin}/robots.txt" for origin in origins]


def test_what_was_asked_is_told_with_its_time(clock: Clock) -> None:
    class Slow(Web):
        async def __call__(self, url: Url, limits: FetchLimits) -> Response:
            clock.passes(timedelta(seconds=2))
            return await super().__call__(url, limits)

    began = clock.ms
    (hop,) = ask(Slow({ROBOTS: reply(404)})).hops
    assert (str(hop.url), hop.status, hop.reason, hop.elapsed, hop.at_ms) == (
        ROBOTS,
        404,
        "",
        timedelta(seconds=2),
        began,
    )


def copy_of(clock: Clock, body: bytes = CLOSED, *, status: int = 200, lasts: timedelta = LIFETIME) -> RobotsCopy:
    return RobotsCopy(ORIGIN, status, version_of(body), clock.ms, clock.ms + ms(lasts), body)


def test_a_fresh_copy_of_another_worker_is_used_without_a_fetch(clock: Clock) -> None:
    web = Web({})
    rules = ask(web, Shelf(copy_of(clock)))
    assert (rules.robots.judge(PAGE.target).line, rules.version, rules.asked) == (2, version_of(CLOSED), False)


def test_a_copy_without_a_body_allows_everything(clock: Clock) -> None:
    rules = ask(Web({}), Shelf(copy_of(clock, b"", status=404)))
    assert rules.robots.judge(PAGE.target).allowed


@pytest.mark.parametrize("status", [0, 429, 503])
def test_a_copy_of_a_failure_is_no_consent(clock: Clock, status: int) -> None:
    with pytest.raises(RobotsUnreachable) as caught:
        ask(Web({}), Shelf(copy_of(clock, b"", status=status)))
    assert not caught.value.asked


def test_an_old_copy_is_replaced(clock: Clock) -> None:
    shelf = Shelf(copy_of(clock))
    clock.passes(LIFETIME)
    web = robots(b"User-agent: Shoal\nCrawl-delay: 2.5\n")
    rules = ask(web, shelf)
    assert rules.robots.judge(PAGE.target).allowed
    assert (shelf.copies[ORIGIN].version, shelf.copies[ORIGIN].fetched_ms) == (rules.version, clock.ms)
    assert shelf.delays == {ORIGIN: 2.5}


def test_no_copy_is_older_than_a_day_whatever_it_says(clock: Clock) -> None:
    shelf = Shelf(copy_of(clock, lasts=timedelta(days=400)))
    web = Web({ROBOTS: reply(404)})

    async def main() -> list[bool]:
        cache = RobotsCache(shelf)
        seen: list[bool] = []
        for wait in (timedelta(), LONGEST_LIFETIME - timedelta(seconds=1), timedelta(seconds=2)):
            clock.passes(wait)
            seen.append((await cache.rules(PAGE, web)).asked)
        return seen

    assert timedelta(hours=24) == LONGEST_LIFETIME
    assert asyncio.run(main()) == [False, False, True]


def test_two_workers_fetch_it_once_and_the_other_is_put_off() -> None:
    async def main() -> tuple[str, list[bool], list[str]]:
        web, shelf = robots(CLOSED), Shelf()
        web.open.clear()
        first, second = RobotsCache(shelf), RobotsCache(shelf)
        asking = asyncio.create_task(first.rules(PAGE, web))
        await asked(web)
        with pytest.raises(FetchError) as caught:
            await second.rules(PAGE, web)
        web.open.set()
        rules = [await asking, await second.rules(PAGE, web)]
        return caught.value.reason, [each.asked for each in rules], web.asked

    assert asyncio.run(main()) == ("robots_pending", [True, False], [ROBOTS])


def test_a_copy_that_came_before_the_claim_was_won_is_used(clock: Clock) -> None:
    shelf = Shelf()
    shelf.on_claim = lambda: shelf.copies.update({ORIGIN: copy_of(clock)})
    rules = ask(Web({}), shelf)
    assert (rules.robots.judge(PAGE.target).allowed, rules.asked) == (False, False)


def test_a_shelf_that_breaks_down_is_asked_again() -> None:
    class Broken(Shelf):
        async def load(self, origin: str) -> RobotsCopy | None:
            if self.loads == 0:
                self.loads += 1
                raise StoreUnavailable
            return await super().load(origin)

    async def main() -> bool:
        cache, web = RobotsCache(Broken()), robots(CLOSED)
        with pytest.raises(StoreUnavailable):
            await cache.rules(PAGE, web)
        return (await cache.rules(PAGE, web)).asked

    assert asyncio.run(main())


def test_an_answer_is_kept_for_half_a_day(clock: Clock) -> None:
    async def main() -> tuple[list[bool], int]:
        web, shelf = Web({ROBOTS: [reply(200, CLOSED), reply(404)]}), Shelf()
        cache = RobotsCache(shelf)
        seen: list[bool] = []
        for wait in (timedelta(), LIFETIME, timedelta(seconds=1)):
            clock.passes(wait)
            seen.append((await cache.rules(PAGE, web)).robots.judge(PAGE.target).allowed)
        return seen, shelf.loads

    assert timedelta(hours=12) == LIFETIME
    assert asyncio.run(main()) == ([False, False, True], 4)


@pytest.mark.parametrize(
    ("header", "lifetime"),
    [
        (b"max-age=3600", timedelta(hours=1)),
        (b"public, Max-Age = 3600, must-revalidate", timedelta(hours=1)),
        (b'max-age="3600"', timedelta(hours=1)),
        (b"max-age=0", SHORTEST_LIFETIME),
        (b"max-age=301", timedelta(seconds=301)),
        (b"max-age=999999999999", LIFETIME),
        (b"max-age=-1", LIFETIME),
        (b"x-max-age=3600", LIFETIME),
        (b"no-cache", LIFETIME),
        (b"", LIFETIME),
    ],
)
def test_a_server_can_ask_for_a_shorter_time(clock: Clock, header: bytes, lifetime: timedelta) -> None:
    shelf = Shelf()
    ask(robots(CLOSED, (b"cache-control", header)), shelf)
    assert shelf.copies[ORIGIN].until_ms - shelf.copies[ORIGIN].fetched_ms == ms(lifetime)
    assert timedelta(minutes=5) == SHORTEST_LIFETIME


def test_a_failure_is_kept_for_a_moment_only(clock: Clock) -> None:
    async def main() -> tuple[list[str], int]:
        web, shelf = Web({ROBOTS: [FetchError("timeout_total"), reply(503), reply(200, CLOSED)]}), Shelf()
        cache = RobotsCache(shelf)
        seen: list[str] = []
        for wait in (timedelta(), FAILURE_LIFETIME, timedelta(seconds=1), FORBIDDEN_LIFETIME * 1.1):
            clock.passes(wait)
            try:
                seen.append(str((await cache.rules(PAGE, web)).robots.judge(PAGE.target).allowed))
            except RobotsUnreachable as error:
                seen.append(error.detail)
                shelf.taken.clear()
        return seen, len(web.asked)

    assert asyncio.run(main()) == (["timeout_total", "timeout_total", "robots.txt answered 503", "False"], 3)


def test_a_slow_answer_is_waited_for_however_late_it_is(clock: Clock) -> None:
    async def main() -> list[str]:
        web = robots(CLOSED)
        web.open.clear()
        cache = RobotsCache(Shelf())
        first = asyncio.create_task(cache.rules(PAGE, web))
        await asked(web)
        clock.passes(LIFETIME * 2)
        second = asyncio.create_task(cache.rules(PAGE, web))
        await asyncio.sleep(0)
        web.open.set()
        await asyncio.gather(first, second)
        return web.asked

    assert asyncio.run(main()) == [ROBOTS]


@pytest.mark.parametrize("moments", range(12))
def test_whoever_ends_in_the_middle_of_a_fetch_leaves_it_to_others(moments: int) -> None:
    async def main() -> tuple[set[str], bool]:
        web, shelf = robots(CLOSED), Shelf()
        web.open.clear()
        cache = RobotsCache(shelf)
        visit = asyncio.create_task(cache.rules(PAGE, web))
        for _ in range(moments):
            await asyncio.sleep(0)
        visit.cancel()
        await asyncio.gather(visit, return_exceptions=True)
        await cache.end()
        taken = set(shelf.taken)
        web.open.set()
        rules = await RobotsCache(shelf).rules(PAGE, web)
        return taken, rules.asked

    assert asyncio.run(main()) == (set(), True)


@pytest.mark.parametrize("moments", range(12))
def test_whoever_ends_does_not_take_the_turn_of_another(moments: int) -> None:
    async def main() -> set[str]:
        shelf = Shelf()
        shelf.taken.add(ORIGIN)
        cache = RobotsCache(shelf)
        visit = asyncio.create_task(cache.rules(PAGE, robots(CLOSED)))
        for _ in range(moments):
            await asyncio.sleep(0)
        visit.cancel()
        await asyncio.gather(visit, return_exceptions=True)
        await cache.end()
        return shelf.taken

    assert asyncio.run(main()) == {ORIGIN}


def test_a_copy_that_is_being_saved_when_the_end_comes_is_kept() -> None:
    class Slow(Shelf):
        async def save(self, copy: RobotsCopy, crawl_delay: float | None) -> None:
            saving.set()
            for _ in range(5):
                await asyncio.sleep(0)
            await super().save(copy, crawl_delay)

    saving = asyncio.Event()

    async def main() -> tuple[bool, set[str]]:
        shelf = Slow()
        cache = RobotsCache(shelf)
        visit = asyncio.create_task(cache.rules(PAGE, robots(CLOSED)))
        await saving.wait()
        visit.cancel()
        await cache.end()
        return ORIGIN in shelf.copies, shelf.taken

    assert asyncio.run(main()) == (True, set())


def loads_of(hosts: str, web: Web) -> list[int]:
    """How often the shelf was looked at, after each of these hosts."""

    async def main() -> list[int]:
        shelf = Shelf()
        cache = RobotsCache(shelf)
        seen: list[int] = []
        for host in hosts:
            before = shelf.loads
            await cache.rules(parse(f"http://{host}.example/"), web)
            seen.append(shelf.loads - before)
        return seen

    return asyncio.run(main())


def test_a_full_cache_forgets_the_oldest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(robots_cache, "MAX_ORIGINS", 2)
    web = Web({f"http://{host}.example/robots.txt": reply(404) for host in "abc"})
    assert loads_of("abacba", web) == [2, 2, 0, 2, 0, 1]
    assert len(web.asked) == 3


def test_large_files_fill_a_cache_sooner(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(robots_cache, "MAX_MEMORY", 1000)
    sizes = {"a": 400, "b": 500, "c": 200, "d": 5000}
    web = Web({f"http://{host}.example/robots.txt": reply(200, b"#" * size) for host, size in sizes.items()})
    assert loads_of("abcbcaddbc", web) == [2, 2, 2, 0, 0, 1, 2, 0, 1, 1]


def test_many_rules_fill_a_cache_sooner_than_their_text_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(robots_cache, "MAX_MEMORY", 2 * 500 * RULE_BYTES)
    rules = b"User-agent: *\n" + b"".join(b"Allow:/*%d\n" % number for number in range(500))
    assert len(rules) * 3 < 2 * 500 * RULE_BYTES
    web = Web({f"http://{host}.example/robots.txt": reply(200, rules) for host in "ab"})
    assert loads_of("aba", web) == [2, 2, 1]


def test_what_a_rule_takes_in_memory_is_not_more_than_is_counted() -> None:
    for rule in ("Allow:/{}", "Allow:/*{}", "Disallow: /{}/*a"):
        body = "\n".join(["User-agent: *", *(rule.format(number) for number in range(2000))]).encode()
        tracemalloc.start()
        try:
            robots = parse_robots(body)
            taken = tracemalloc.get_traced_memory()[0]
        finally:
            tracemalloc.stop()
        assert robots.rules == 2000
        assert taken <= len(body) + robots.rules * RULE_BYTES


def test_a_large_file_is_read_beside_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its rules are put in order there, too: nothing of that is left for who asks first."""
    readers: list[threading.Thread] = []

    def read(body: bytes) -> Robots:
        readers.append(threading.current_thread())
        return parse_robots(body)

    monkeypatch.setattr(robots_cache, "parse", read)
    for filler in (b"", b"#" * LARGE):
        assert not ask(robots(CLOSED + filler)).robots.judge(PAGE.target).allowed
    assert [reader is threading.main_thread() for reader in readers] == [True, False]
