"""robots.txt: asked once per origin, shared by all who wait, and never in doubt taken for consent."""

from __future__ import annotations

import asyncio
import gzip
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import timedelta

import pytest

from shoal.core.url import Url, parse
from shoal.errors import FetchError
from shoal.fetch import robots_cache
from shoal.fetch.port import FetchLimits, Response
from shoal.fetch.robots_cache import FAILURE_LIFETIME, LIFETIME, MAX_BYTES, RobotsCache

PAGE = parse("http://a.example/private/page")
ROBOTS = "http://a.example/robots.txt"
CLOSED = b"User-agent: *\nDisallow: /private/\n"

Header = tuple[bytes, bytes]


def reply(status: int = 200, body: bytes = b"", *headers: Header) -> Response:
    return Response(PAGE, status, "", headers, body, timedelta())


def moved(location: bytes, status: int = 301) -> Response:
    return reply(status, b"", (b"Location", location))


class Web:
    """A client that knows a few answers; the last one of a list repeats."""

    def __init__(self, answers: Mapping[str, Response | Exception | Sequence[Response | Exception]]) -> None:
        self.answers = answers
        self.asked: list[str] = []
        self.counts: Counter[str] = Counter()
        self.open = asyncio.Event()
        self.open.set()

    async def fetch(self, url: Url, headers: Mapping[str, str], limits: FetchLimits) -> Response:
        self.asked.append(str(url))
        number = self.counts[str(url)]
        self.counts[str(url)] += 1
        await self.open.wait()
        answer = self.answers[str(url)]
        if isinstance(answer, Sequence):
            answer = answer[min(number, len(answer) - 1)]
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def close(self) -> None:
        pass


def robots(body: bytes, *headers: Header) -> Web:
    return Web({ROBOTS: reply(200, body, *headers)})


def allows(web: Web, url: Url = PAGE) -> bool:
    async def main() -> bool:
        return (await RobotsCache(web).rules(url)).allow(str(url))

    return asyncio.run(main())


def failure(web: Web) -> FetchError:
    with pytest.raises(FetchError) as caught:
        allows(web)
    return caught.value


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(robots_cache, "time", clock)
    return clock


class Clock:
    """Time that passes when told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def passes(self, span: timedelta) -> None:
        self.now += span.total_seconds()


@pytest.mark.parametrize(
    ("text", "path", "allowed"),
    [
        ("User-agent: *\nDisallow: /private/", "/private/page", False),
        ("User-agent: *\nDisallow: /private/", "/private", True),
        ("User-agent: *\nDisallow: /private/", "/public", True),
        ("User-agent: *\nDisallow: /", "/", False),
        ("User-agent: *\nDisallow:", "/x", True),
        ("User-agent: *\nDisallow: /\nAllow: /open", "/open/1", True),
        ("User-agent: *\nAllow: /\nDisallow: /shut", "/shut/1", False),
        ("User-agent: *\nDisallow: /*.pdf$", "/a/b.pdf", False),
        ("User-agent: *\nDisallow: /*.pdf$", "/a/b.pdf?x", True),
        ("User-agent: *\nDisallow: /*?session=", "/a?session=1", False),
        ("User-agent: *\nDisallow: /\n\nUser-agent: Shoal\nDisallow: /x", "/y", True),
        ("User-agent: Shoal\nDisallow: /\n\nUser-agent: *\nDisallow:", "/y", False),
        ("User-agent: sHOAL\nDisallow: /", "/y", False),
        ("User-agent: Other\nDisallow: /", "/y", True),
        ("User-agent: Other\nUser-agent: Shoal\nDisallow: /", "/y", False),
        ("user-agent:*\ndisallow:/x#comment", "/x", False),
        ("User-agent: *\r\nDisallow: /x\r\n", "/x", False),
        ("\ufeffUser-agent: *\nDisallow: /x", "/x", False),
        ("User-agent: *\nDisallow: /caf%C3%A9", "/café", False),
        ("User-agent: *\nDisallow: /café", "/caf%c3%a9", False),
        ("<!doctype html><p>Not here</p>", "/x", True),
        ("", "/x", True),
    ],
)
def test_the_rules_are_obeyed(text: str, path: str, allowed: bool) -> None:
    assert allows(robots(text.encode()), parse("http://a.example" + path)) is allowed


def test_bytes_that_are_not_utf_8_do_not_hide_the_rules() -> None:
    assert not allows(robots(b"# caf\xe9\n" + CLOSED))


def test_a_packed_file_is_unpacked() -> None:
    assert not allows(robots(gzip.compress(CLOSED), (b"Content-Encoding", b"gzip")))


def test_a_file_that_only_claims_to_be_packed_is_read_as_it_is() -> None:
    assert not allows(robots(CLOSED, (b"Content-Encoding", b"gzip")))


def test_the_first_500_kib_are_read_and_the_rest_is_not() -> None:
    filler = b"# comment\n" * (MAX_BYTES // 10 - 10)
    assert not allows(robots(b"User-agent: *\n" + filler + b"Disallow: /private/\n"))
    assert allows(robots(b"User-agent: *\n" + filler + b"# comment\n" * 20 + b"Disallow: /private/\n"))


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410, 451])
def test_no_file_means_that_all_is_allowed(status: int) -> None:
    assert allows(Web({ROBOTS: reply(status, CLOSED)}))


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504, 599])
def test_a_server_in_trouble_means_that_nothing_may_be_fetched(status: int) -> None:
    error = failure(Web({ROBOTS: reply(status, b"")}))
    assert (error.reason, error.detail) == ("robots_unreachable", f"robots.txt answered {status}")


@pytest.mark.parametrize("reason", ["timeout_connect", "connect_refused", "dns_not_found", "tls_certificate"])
def test_silence_means_that_nothing_may_be_fetched(reason: str) -> None:
    assert failure(Web({ROBOTS: FetchError(reason, "x")})).reason == reason


@pytest.mark.parametrize("location", [b"/r", b"http://a.example/r", b"//a.example/r", b" r "])
def test_a_redirect_is_followed(location: bytes) -> None:
    web = Web({ROBOTS: moved(location), "http://a.example/r": reply(200, CLOSED)})
    assert not allows(web)
    assert web.asked == [ROBOTS, "http://a.example/r"]


def test_a_redirect_may_lead_to_another_host() -> None:
    web = Web(
        {ROBOTS: moved(b"https://www.a.example/robots.txt"), "https://www.a.example/robots.txt": reply(200, CLOSED)}
    )
    assert not allows(web)


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


@pytest.mark.parametrize("location", [b"mailto:x@y", b"http://[", b"http://u:p@a.example/"])
def test_a_redirect_to_nowhere_means_that_there_is_no_file(location: bytes) -> None:
    web = Web({ROBOTS: moved(location)})
    assert allows(web)
    assert web.asked == [ROBOTS]


def test_a_redirect_to_a_server_in_trouble_is_no_consent() -> None:
    assert failure(Web({ROBOTS: moved(b"/r"), "http://a.example/r": reply(503)})).reason == "robots_unreachable"


def test_all_who_wait_share_one_fetch() -> None:
    async def main() -> tuple[list[bool], list[str]]:
        web = robots(CLOSED)
        web.open.clear()
        cache = RobotsCache(web)
        waiting = [asyncio.create_task(cache.rules(parse(f"http://a.example/private/{n}"))) for n in range(20)]
        while not web.asked:
            await asyncio.sleep(0)
        web.open.set()
        rules = await asyncio.gather(*waiting)
        return [each.allow(str(PAGE)) for each in rules], web.asked

    assert asyncio.run(main()) == ([False] * 20, [ROBOTS])


def test_all_who_wait_share_a_failure() -> None:
    async def main() -> tuple[list[str], int]:
        web = Web({ROBOTS: FetchError("timeout_total")})
        web.open.clear()
        cache = RobotsCache(web)
        waiting = [asyncio.create_task(cache.rules(PAGE)) for _ in range(3)]
        while not web.asked:
            await asyncio.sleep(0)
        web.open.set()
        failed = await asyncio.gather(*waiting, return_exceptions=True)
        return [each.reason for each in failed if isinstance(each, FetchError)], len(web.asked)

    assert asyncio.run(main()) == (["timeout_total"] * 3, 1)


def test_one_who_gives_up_does_not_take_the_answer_from_the_others() -> None:
    async def main() -> tuple[bool, bool, list[str]]:
        web = robots(CLOSED)
        web.open.clear()
        cache = RobotsCache(web)
        impatient, patient = (asyncio.create_task(cache.rules(PAGE)) for _ in range(2))
        while not web.asked:
            await asyncio.sleep(0)
        impatient.cancel()
        web.open.set()
        allowed = (await patient).allow(str(PAGE))
        return impatient.cancelled(), allowed, web.asked

    assert asyncio.run(main()) == (True, False, [ROBOTS])


def test_each_origin_is_asked_for_its_own_file() -> None:
    origins = ["http://a.example", "https://a.example", "http://a.example:8080", "http://www.a.example"]

    async def main() -> list[str]:
        web = Web({f"{origin}/robots.txt": reply(200, CLOSED) for origin in origins})
        cache = RobotsCache(web)
        for origin in origins * 2:
            await cache.rules(parse(f"{origin}/x?y"))
        return web.asked

    assert asyncio.run(main()) == [f"{origin}/robots.txt" for origin in origins]


def test_an_answer_is_kept_for_half_a_day(clock: Clock) -> None:
    async def main() -> list[bool]:
        web = Web({ROBOTS: [reply(200, CLOSED), reply(404)]})
        cache = RobotsCache(web)
        seen: list[bool] = []
        for wait in (timedelta(), LIFETIME, timedelta(seconds=1)):
            clock.passes(wait)
            seen.append((await cache.rules(PAGE)).allow(str(PAGE)))
        return seen

    assert timedelta(hours=12) == LIFETIME
    assert asyncio.run(main()) == [False, False, True]


def test_a_failure_is_kept_for_a_few_seconds_only(clock: Clock) -> None:
    async def main() -> tuple[list[str], int]:
        web = Web({ROBOTS: [FetchError("timeout_total"), reply(503), reply(200, CLOSED)]})
        cache = RobotsCache(web)
        seen: list[str] = []
        for wait in (timedelta(), FAILURE_LIFETIME, timedelta(seconds=1), FAILURE_LIFETIME * 1.1):
            clock.passes(wait)
            try:
                seen.append(str((await cache.rules(PAGE)).allow(str(PAGE))))
            except FetchError as error:
                seen.append(error.reason)
        return seen, len(web.asked)

    assert asyncio.run(main()) == (["timeout_total", "timeout_total", "robots_unreachable", "False"], 3)


def test_a_slow_answer_is_waited_for_however_late_it_is(clock: Clock) -> None:
    async def main() -> list[str]:
        web = robots(CLOSED)
        web.open.clear()
        cache = RobotsCache(web)
        first = asyncio.create_task(cache.rules(PAGE))
        while not web.asked:
            await asyncio.sleep(0)
        clock.passes(LIFETIME * 2)
        second = asyncio.create_task(cache.rules(PAGE))
        await asyncio.sleep(0)
        web.open.set()
        await asyncio.gather(first, second)
        return web.asked

    assert asyncio.run(main()) == [ROBOTS]


def test_a_full_cache_starts_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(robots_cache, "MAX_ORIGINS", 2)

    async def main() -> list[str]:
        web = Web({f"http://{host}.example/robots.txt": reply(404) for host in "abc"})
        cache = RobotsCache(web)
        for host in "abaca":
            await cache.rules(parse(f"http://{host}.example/"))
        return [url[7] for url in web.asked]

    assert asyncio.run(main()) == ["a", "b", "c", "a"]
