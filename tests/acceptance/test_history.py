"""The history of a real crawl: sampled while it runs, and adding up to its sums."""

from __future__ import annotations

import pytest

from shoal.core.history import Point
from shoal.wiring import open_platform
from tests.acceptance.test_up import SOON, ask, running_up
from tests.command import Shoal
from tests.site.generated import LinkedSite
from tests.site.server import serve
from tests.waiting import wait_until

PAGES = 90


def _in_all(points: list[Point], what: str) -> float:
    return sum(point.rates[what] * point.covered_ms / 1_000 for point in points if point.rates)


def test_a_crawl_in_the_foreground_has_a_history_that_adds_up_to_its_sums(shoal: Shoal) -> None:
    with serve(LinkedSite(pages=PAGES, links=20, size=500)) as site:
        done = shoal.run(
            "crawl", site.url, "--rate", "7", "--parallel", "4", "--no-robots", "--field", "title=h1", "--json"
        )
    assert done.code == 0, done.err
    with open_platform(shoal.settings, rings=False) as platform:
        (row,) = platform.control.jobs()
        points = platform.history.job(row, None, None, 1_000).points
        fleet = platform.history.fleet(None, None, 1_000).points
        assert row.status is not None
        assert _in_all(points, "pages") == pytest.approx(PAGES, abs=0.01)
        assert _in_all(points, "received") == pytest.approx(row.status.counters.received, rel=0.001)
        assert _in_all(points, "items") == pytest.approx(len(list(platform.pages.items(row.id))), abs=0.01)
    seen = {point.last.counters["pages"] for point in points if point.last and point.last.counters}
    assert len(seen) > 2  # it was looked at on its way, not only at its end
    assert any(point.rates and point.rates["pages"] > 0 for point in fleet)
    _check_the_command(shoal, row.id)


def _check_the_command(shoal: Shoal, job: str) -> None:
    """It draws the same for people, and tells programs what the API tells."""
    told = shoal.run("history", job, "--json").json
    assert sum((each["pages_per_s"] or 0) * each["covered_s"] for each in told["points"]) == pytest.approx(
        PAGES, abs=0.1
    )
    drawn = shoal.run("history", job[:5]).out.splitlines()
    assert drawn[0].startswith(f"job {job} (finished), ")
    (pages,) = (line for line in drawn if line.startswith("  pages/s "))
    assert pages.endswith(f"in all {PAGES}")
    assert drawn[-1].split()[-2:] == [str(PAGES), "0"]
    assert shoal.run("history").out.startswith("everything together, ")
    before = shoal.run("history", "--since", "6d", "--until", "5d")
    assert (before.code, len(before.out.splitlines()), "nobody looked" in before.err) == (0, 1, True)


@pytest.mark.parametrize(
    ("args", "code", "says"),
    [
        (("nosuchjob",), 1, "there is no job"),
        (("--since", "soon"), 2, "--since 'soon': write an age"),
        (("--since", "2999-01-01"), 2, "--since must be before now"),
        (("--since", "1h", "--until", "2h"), 2, "--since 1h is not before --until 2h"),
        (("--points", "1"), 2, "--points"),
    ],
)
def test_a_history_that_cannot_be_had_is_an_error(shoal: Shoal, args: tuple[str, ...], code: int, says: str) -> None:
    done = shoal.run("history", *args)
    assert (done.code, done.out, says in done.err) == (code, "", True), done.err


def test_charts_of_a_job_and_of_the_fleet_are_had_over_http(shoal: Shoal) -> None:
    with serve(LinkedSite(pages=PAGES, links=20, size=500)) as site, running_up(shoal, "--workers", "1") as (_, url):
        spec = {"urls": [site.url], "rate": 15, "parallel": 8, "robots": False}
        job = f"{url}/api/v1/jobs/{ask(f'{url}/api/v1/jobs', spec)['id']}"
        wait_until(lambda: ask(job)["state"] == "finished", within=SOON)
        points = ask(f"{job}/history")["points"]
        assert sum((each["pages_per_s"] or 0) * each["covered_s"] for each in points) == pytest.approx(PAGES, abs=0.01)
        fleet = f"{url}/api/v1/stats/history?since=5m"
        wait_until(lambda: _pages(ask(fleet)) == PAGES, within=SOON)
        last = [each for each in ask(fleet)["points"] if each["totals"]][-1]
        assert last["workers"] >= 1
        assert last["redis_memory_bytes"] > 0


def _pages(chart: dict[str, list[dict[str, dict[str, int] | None]]]) -> int:
    totals = [each["totals"] for each in chart["points"] if each["totals"]]
    return totals[-1]["pages"] if totals and totals[-1] else 0
