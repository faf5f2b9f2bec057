"""What hosts see of a worker with several processes: limits, shares, urgency, and what becomes of those in trouble.

Nothing here depends on how fast the machine is: a bound holds on a slow one as well, and a wait ends when it may.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from benchmarks.politeness.target import Hosts, Manner
from benchmarks.politeness.windows import worst_window
from benchmarks.process import free_port
from shoal.core.host_status import Breaker, HostStatus
from shoal.core.job_status import JobStatus
from shoal.core.model import Lane
from shoal.core.spec import read_spec
from shoal.frontier.host_change import HostChange
from shoal.intake.intake import Origin
from shoal.wiring import Platform, open_platform
from tests.command import Shoal, a_home
from tests.site.generated import StatusSite
from tests.site.hits import Hit
from tests.site.reply import Reply, page
from tests.site.server import Server, serve
from tests.waiting import wait_until

PATIENCE = timedelta(seconds=60)
JITTER_S = 0.5
"""By so much less may requests be apart when they arrive than when they were let go."""
KNOWN = 3
"""Requests after which a robots.txt is certainly known to all: itself, and one from each place at a time."""
FREE: dict[str, Any] = {"rate": "unlimited", "robots": False}


@dataclass(frozen=True, slots=True)
class Crew:
    """A platform, and a worker that serves it."""

    platform: Platform

    def submit(self, urls: Sequence[str], tenant: str = "default", **fields: Any) -> str:
        spec = {"urls": urls, "follow": False, "archive": False, **fields}
        return self.platform.intake.submit(read_spec(spec), Origin(tenant, "test")).job

    def status(self, job: str) -> JobStatus:
        return self.platform.control.status(job)

    def finish(self, *jobs: str) -> list[JobStatus]:
        wait_until(lambda: all(self.status(job).state.ended for job in jobs), within=PATIENCE)
        return [self.status(job) for job in jobs]

    def host(self, host: str) -> HostStatus:
        """What is known of a host, as soon as anything is."""
        wait_until(lambda: self.platform.watch.host(host) is not None, within=PATIENCE)
        found = self.platform.watch.host(host)
        assert found is not None
        return found


@contextmanager
def _a_crew(folder: Path, processes: int = 2, **settings: str) -> Generator[Crew]:
    with a_home(folder) as home:
        variables = tuple((f"SHOAL_{name.upper()}", value) for name, value in settings.items())
        shoal = Shoal(home.home, variables)
        with (
            open_platform(shoal.settings) as platform,
            shoal.running("worker", "--concurrency", str(processes)),
        ):
            yield Crew(platform)


@pytest.fixture(scope="module")
def crew(tmp_path_factory: pytest.TempPathFactory) -> Generator[Crew]:
    """One worker with three processes for all of these tests: their hosts differ, and share nothing."""
    with _a_crew(tmp_path_factory.mktemp("crew"), processes=3) as found:
        with _serve(h1=Manner()) as site:
            found.finish(found.submit(_urls(site, "h1", 1), **FREE))  # it takes a while to start
        yield found


@contextmanager
def _serve(**hosts: Manner) -> Generator[Server]:
    """Hosts `h1=`, `h2=`: 127.0.0.1, 127.0.0.2 and so on."""
    plan = {_address(name): manner for name, manner in hosts.items()}
    with serve(Hosts(plan), list(plan)) as server:
        yield server


def _address(name: str) -> str:
    return f"127.0.0.{name.removeprefix('h')}"


def _urls(server: Server, name: str, count: int, path: str = "p") -> list[str]:
    return [server.link(f"/{path}/{number}", _address(name)) for number in range(count)]


def _of(server: Server, name: str) -> list[Hit]:
    host = f"{_address(name)}:{server.port}"
    return [hit for hit in server.hits if hit.host_header == host]


def _assert_kept(hits: Sequence[Hit], rate: float, parallel: int) -> None:
    """Never above the cap, and in no window above rate and burst."""
    assert hits
    assert max(hit.in_flight for hit in hits) <= parallel
    worst = worst_window([hit.at_monotonic for hit in hits], rate)
    assert worst.excess <= rate * JITTER_S, worst.describe()


# --- limits --------------------------------------------------------------------------------------------------------


def test_limits_of_operator_job_robots_and_default_hold_whoever_fetches(crew: Crew) -> None:
    robots = "User-agent: *\nCrawl-delay: 0.5\n"
    with _serve(h1=Manner(0.02), h2=Manner(0.02), h3=Manner(0.02, robots), h4=Manner(0.02)) as site:
        crew.platform.hosts.set(f"127.0.0.1:{site.port}", HostChange(rate=10, parallel=1))
        jobs = [
            crew.submit(_urls(site, "h1", 25), rate=50, parallel=8, robots=False),
            crew.submit(_urls(site, "h2", 50), rate=20, parallel=3, robots=False),
            crew.submit(_urls(site, "h3", 6)),
            crew.submit(_urls(site, "h4", 10)),
        ]
        crew.finish(*jobs)
        _assert_kept(_of(site, "h1"), rate=10, parallel=1)
        _assert_kept(_of(site, "h2"), rate=20, parallel=3)
        _assert_kept(_of(site, "h3")[KNOWN:], rate=2, parallel=2)
        _assert_kept(_of(site, "h4"), rate=4, parallel=2)


def test_a_job_slower_than_the_default_keeps_its_own_rate(crew: Crew) -> None:
    with _serve(h1=Manner(0.02)) as site:
        crew.finish(crew.submit(_urls(site, "h1", 7), rate=2, parallel=1, robots=False))
        _assert_kept(_of(site, "h1"), rate=2, parallel=1)


def test_what_waits_for_a_slow_robots_txt_is_not_let_go_at_once(crew: Crew) -> None:
    with _serve(h1=Manner(0.02, "User-agent: *\nCrawl-delay: 0.5\n", robots_delay=1.5)) as site:
        crew.finish(crew.submit(_urls(site, "h1", 6), parallel=8))
        _assert_kept(_of(site, "h1"), rate=2, parallel=8)


def test_a_job_that_goes_slowly_does_not_slow_others_down_on_its_host(crew: Crew) -> None:
    with _serve(h1=Manner(0.02)) as site:
        fast = crew.submit(_urls(site, "h1", 40, "fast"), rate=20, parallel=4, robots=False)
        slow = crew.submit(_urls(site, "h1", 40, "slow"), rate=5, parallel=4, robots=False)
        got = _while_all_have_work(site, fast=40, slow=40)
        for job in (fast, slow):
            crew.platform.control.cancel(job)
        crew.finish(fast, slow)
    assert got["slow"] / got.total() < 0.4


def test_jobs_of_different_rates_on_one_host_keep_the_higher_one_together(crew: Crew) -> None:
    with _serve(h1=Manner(0.02)) as site:
        fast = crew.submit(_urls(site, "h1", 40, "fast"), rate=20, parallel=4, robots=False)
        slow = crew.submit(_urls(site, "h1", 10, "slow"), rate=5, parallel=4, robots=False)
        crew.finish(fast, slow)
        _assert_kept(_of(site, "h1"), rate=20, parallel=4)
        _assert_kept([hit for hit in _of(site, "h1") if hit.target.startswith("/slow")], rate=5, parallel=4)


def test_a_robots_txt_is_asked_for_once_by_all_processes(crew: Crew) -> None:
    with _serve(h1=Manner(), h2=Manner(), h3=Manner()) as site:
        urls = [url for host in ("h1", "h2", "h3") for url in _urls(site, host, 40)]
        (status,) = crew.finish(crew.submit(urls, rate="unlimited"))
        asked = Counter((hit.host_header, hit.target) for hit in site.hits)
    assert status.counters.done == len(urls)
    assert set(asked.values()) == {1}
    assert sum(target == "/robots.txt" for _, target in asked) == 3


def test_hosts_on_one_address_share_its_cap(tmp_path: Path) -> None:
    delay = 0.05
    with ExitStack() as stack, _a_crew(tmp_path, address_parallel="2") as crew:
        sites = [stack.enter_context(_serve(h1=Manner(delay))) for _ in range(4)]
        urls = [url for site in sites for url in _urls(site, "h1", 15)]
        (status,) = crew.finish(crew.submit(urls, **FREE))
        # A request is under way at least from its arrival for as long as the page takes.
        begun = sorted(hit.at_monotonic for site in sites for hit in site.hits)
    assert status.counters.done == len(urls)
    assert all(third - first >= delay for first, third in zip(begun, begun[2:], strict=False))


def test_hosts_of_one_domain_share_its_rate(tmp_path: Path) -> None:
    """An address is a domain of its own, whatever the port: that needs no names that lead here."""
    with ExitStack() as stack, _a_crew(tmp_path, group_by="domain") as crew:
        sites = [stack.enter_context(_serve(h1=Manner(0.02))) for _ in range(2)]
        urls = [url for site in sites for url in _urls(site, "h1", 15)]
        (status,) = crew.finish(crew.submit(urls, rate=10, parallel=2, robots=False))
        worst = worst_window(sorted(hit.at_monotonic for site in sites for hit in site.hits), 10)
    assert status.counters.done == len(urls)
    assert worst.excess <= 10 * JITTER_S, worst.describe()


# --- urgency and shares --------------------------------------------------------------------------------------------


def test_an_urgent_url_does_not_wait_for_a_batch(crew: Crew) -> None:
    with _serve(h1=Manner(0.3), h2=Manner()) as site:
        batch = crew.submit(_urls(site, "h1", 5_000), parallel=200, **FREE)
        wait_until(lambda: len(site.hits) > 100, within=PATIENCE)
        crew.submit(_urls(site, "h2", 1), lane="high", **FREE)
        wait_until(lambda: bool(_of(site, "h2")), within=PATIENCE)
        left = crew.status(batch).counters.queued
        crew.platform.control.cancel(batch)
        crew.finish(batch)
    assert left > 0


def test_jobs_share_a_host_by_weight(crew: Crew) -> None:
    with _serve(h1=Manner(0.02)) as site:
        polite: dict[str, Any] = {"rate": 50, "parallel": 10, "robots": False}
        heavy = crew.submit(_urls(site, "h1", 150, "heavy"), weight=3, **polite)
        light = crew.submit(_urls(site, "h1", 150, "light"), weight=1, **polite)
        got = _while_all_have_work(site, heavy=150, light=150)
        for job in (heavy, light):
            crew.platform.control.cancel(job)
        crew.finish(heavy, light)
    assert 0.6 < got["heavy"] / got.total() < 0.87


def test_many_jobs_of_one_tenant_do_not_push_another_aside(crew: Crew) -> None:
    with _serve(h1=Manner(0.02)) as site:
        polite: dict[str, Any] = {"rate": 50, "parallel": 10, "robots": False}
        jobs = [crew.submit(_urls(site, "h1", 50, f"crowd/{number}"), "crowd", **polite) for number in range(20)]
        jobs.append(crew.submit(_urls(site, "h1", 60, "lone"), "lone", **polite))
        got = _while_all_have_work(site, crowd=1_000, lone=60)
        for job in jobs:
            crew.platform.control.cancel(job)
        crew.finish(*jobs)
    assert got["lone"] / got.total() > 0.35


def _while_all_have_work(site: Server, **wanted: int) -> Counter[str]:
    """Requests by the first part of their path, from when all have begun until one has all that it wanted."""

    def who(hit: Hit) -> str:
        return hit.target.split("/")[1]

    def so_far() -> Counter[str]:
        return Counter(map(who, site.hits))

    wait_until(lambda: any(so_far()[name] >= count for name, count in wanted.items()), within=PATIENCE)
    hits, got, total = site.hits, Counter[str](), Counter[str]()
    for hit in hits:
        total[who(hit)] += 1
        if len(total) == len(wanted):
            got[who(hit)] += 1
        if total[who(hit)] >= wanted[who(hit)]:
            break
    return got


# --- hosts in trouble ----------------------------------------------------------------------------------------------


def test_a_host_that_refuses_is_asked_less_and_everything_is_fetched(crew: Crew) -> None:
    pages = 40
    with _serve(h1=Manner(0.01, allows=((0, 10),))) as site:
        job = crew.submit(_urls(site, "h1", pages), rate=40, parallel=8, robots=False, retries=20)
        (status,) = crew.finish(job)
        refused = sum(hit.status == 429 for hit in site.hits)
        host = crew.host(f"127.0.0.1:{site.port}")
    assert status.counters.done == pages
    assert 0 < refused <= pages
    assert "slowed" in {decision.what for decision in host.decisions}


def test_retry_after_keeps_a_host_in_peace(crew: Crew) -> None:
    busy = Reply(503, (("Retry-After", "2"),))
    fine = page("<!doctype html><title>Fine</title>")
    replies = {f"/p/{number}": (fine,) for number in range(10)} | {"/p/0": (busy, fine)}
    with serve(StatusSite(replies)) as site:
        urls = [site.link(target) for target in replies]
        (status,) = crew.finish(crew.submit(urls, rate=20, parallel=1, robots=False))
        hits = site.hits
    assert status.counters.done == len(urls)
    number = next(i for i, hit in enumerate(hits) if hit.status == 503)
    assert hits[number + 1].at_monotonic - hits[number].at_monotonic >= 2.0


def test_dead_hosts_are_left_alone_while_the_others_are_fetched(crew: Crew) -> None:
    port = free_port()
    dead = [f"127.0.0.{number}:{port}" for number in (11, 12, 13)]
    with _serve(h1=Manner(), h2=Manner()) as site:
        live = [url for host in ("h1", "h2") for url in _urls(site, host, 50)]
        gone = [f"http://{host}/p/{number}" for host in dead for number in range(20)]
        job = crew.submit([*gone, *live], **FREE)
        wait_until(lambda: crew.status(job).counters.done == len(live), within=PATIENCE)
        wait_until(_all_tripped(crew, dead), within=PATIENCE)
        status = crew.status(job)
        crew.platform.control.cancel(job)
        crew.finish(job)
    assert status.counters.dead == 0
    assert "connect_refused" in crew.host(dead[0]).reason


def _all_tripped(crew: Crew, hosts: Sequence[str]) -> Callable[[], bool]:
    return lambda: all(crew.host(host).breaker is Breaker.TRIPPED for host in hosts)


def test_a_slow_host_moves_to_the_slow_lane_and_the_others_go_on(crew: Crew) -> None:
    with _serve(h1=Manner(2.5), h2=Manner()) as site:
        job = crew.submit([*_urls(site, "h1", 500), *_urls(site, "h2", 100)], **FREE)
        wait_until(lambda: len(_of(site, "h2")) == 100, within=PATIENCE)
        wait_until(lambda: crew.host(f"127.0.0.1:{site.port}").lane is Lane.SLOW, within=PATIENCE)
        assert crew.host(f"127.0.0.2:{site.port}").lane is None
        crew.platform.control.cancel(job)
        crew.finish(job)
