"""What the benchmark makes of its readings, and what it lets others crawl."""

from pathlib import Path

import pytest

from benchmarks import launch, site
from benchmarks.bars import BARS, judge
from benchmarks.launch import Contender, Launch, Stack, foreign, left_out
from benchmarks.lineup import CONTENDERS, SIZED
from benchmarks.machine import Machine
from benchmarks.result import Reading, Results
from benchmarks.served import Served
from benchmarks.table import save

MACHINE = Machine("2026-01-01", "a processor", 2, 8.0, "Linux", {"python": "3.11"})


def _reading(contender: str, number: int = 1, *, pages: int = 1_000, rate: float = 100, **given: float) -> Reading:
    found = {"peak_bytes": 100_000_000, "round_trips": 10, "kb": 25} | given
    return Reading(
        contender=contender,
        round=number,
        kb=int(found["kb"]),
        pages=pages,
        seconds=pages / rate,
        cpu_seconds=1.0,
        peak_bytes=int(found["peak_bytes"]),
        first_fetch_seconds=0.5,
        round_trips=int(found["round_trips"]),
        scripts=0,
        commands=0,
        redis_bytes=1_000,
    )


def _verdicts(*readings: Reading) -> dict[str, str]:
    return {verdict.name: verdict.word for verdict in judge(Results(readings, ()))}


@pytest.mark.parametrize(("kb", "links"), [(5, 20), (25, 80), (250, 200)])
def test_pages_have_the_size_and_the_links_that_are_named(kb: int, links: int) -> None:
    measures = site.SIZES[kb]
    page = site.render(7, 1_000, site.prose(measures), measures)
    assert len(page) == pytest.approx(kb * 1_000, rel=0.1)
    assert page.count("<a ") == pytest.approx(links, rel=0.05)


def test_every_page_of_a_size_can_be_reached() -> None:
    for measures in site.SIZES.values():
        stock = site.prose(measures)
        reached = "".join(site.render(page, 40, stock, measures) for page in range(13))
        assert all(f'"/p/{page}.html"' in reached for page in range(1, 40))


def test_sites_of_large_pages_have_fewer_of_them() -> None:
    contender = Contender("one", lambda _: Launch([]), pages=6_000, quick_pages=100)
    assert contender.size(20_000, quick=False) == 6_000
    assert contender.size(20_000, quick=False, kb=5) == 6_000
    assert contender.size(20_000, quick=False, kb=250) == 600
    assert contender.size(20_000, quick=True) == 100


def test_ratios_are_taken_within_a_round() -> None:
    rounds = [(1, 2_000, 90), (2, 200, 9), (3, 2_100, 90)]
    readings = [
        _reading(name, number, rate=rate)
        for number, ours, theirs in rounds
        for name, rate in (("shoal-1", ours), ("scrapy", theirs))
    ]
    assert _verdicts(*readings)["shoal-1 against scrapy"] == "met"


def test_memory_must_be_below_that_of_the_others() -> None:
    ours = _reading("shoal-1", peak_bytes=100)
    assert _verdicts(ours, _reading("crawlee", peak_bytes=101))["shoal-1: peak memory against crawlee"] == "met"
    assert _verdicts(ours, _reading("crawlee", peak_bytes=100))["shoal-1: peak memory against crawlee"] == "not met"
    assert _verdicts(ours)["shoal-1: peak memory against crawlee"] == "not measured"


def test_calls_of_redis_have_a_bar() -> None:
    name = "shoal-1: Redis calls a page"
    assert _verdicts(_reading("shoal-1", pages=1_000, round_trips=400))[name] == "met"
    assert _verdicts(_reading("shoal-1", pages=1_000, round_trips=401))[name] == "not met"


def test_bars_name_contenders_that_there_are() -> None:
    names = {contender.name for contender in CONTENDERS}
    complete = Results(tuple(_reading(name) for name in names), ())
    assert all(bar.measure(complete) is not None for bar in BARS)
    assert names.issuperset(SIZED)


def test_a_smaller_site_is_named_below_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.table.FOLDER", tmp_path)
    readings = (_reading("shoal-1", pages=20_000), _reading("raw", pages=20_000), _reading("scrapy", pages=2_001))
    save(Results(readings, ()), MACHINE, name="some")
    assert "On a smaller site, with fewer URLs to keep in memory: scrapy (2,001)." in (tmp_path / "some.md").read_text()


def test_other_sizes_have_a_table_with_the_usual_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.table.FOLDER", tmp_path)
    sized = tuple(_reading("raw", kb=kb, rate=rate) for kb, rate in ((5, 3_000), (250, 200)))
    save(Results((_reading("raw", rate=1_000), _reading("scrapy")), (), sized), MACHINE, name="some")
    lines = (tmp_path / "some.md").read_text().split("**Sizes of pages**")[1].split("**")[0].strip().splitlines()[2:]
    assert [line.split(" | ")[:5] for line in lines] == [
        ["| raw", "5", "1,000", "3,000", "15.0"],
        ["| raw", "25", "1,000", "1,000", "25.0"],
        ["| raw", "250", "1,000", "200", "50.0"],
    ]


def test_the_first_fetch_is_the_first_one_after_the_start() -> None:
    served = Served({10: "http://h.example/"}, {10: [4.0, 11.5, 12.0], 20: [3.0]}.__getitem__)
    assert served.first_fetch(10, since=10.0) == 1.5
    assert served.first_fetch(20, since=10.0) is None


def test_a_stack_without_its_environment_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "REPOSITORY", tmp_path)
    assert Stack.SHOAL.is_here
    assert not Stack.SCRAPY.is_here
    assert (
        left_out("scrapy", Stack.SCRAPY) == "scrapy: left out; there is no .venv-bench-scrapy, which `make bench` makes"
    )
    half = tmp_path / ".venv-bench-scrapy"
    half.mkdir()
    assert not Stack.SCRAPY.is_here
    (half / "stamp").touch()
    assert Stack.SCRAPY.is_here


def test_other_stacks_have_their_own_interpreter_and_do_not_see_our_source() -> None:
    started = foreign(Stack.CRAWLEE, "crawlee_parsel.py", "http://h.example/", env={"A": "b"})
    assert started.command[0].endswith("/.venv-bench-crawlee/bin/python")
    assert launch.environment(started.env)["PYTHONPATH"] == ""
    assert launch.environment(started.env)["A"] == "b"


def test_the_programs_of_other_stacks_are_there() -> None:
    ground = launch.Ground("http://h.example/", 10, Path("home"), ("redis://h.example", "redis://i.example"))
    for contender in CONTENDERS:
        if contender.stack is not Stack.SHOAL:
            assert Path(contender.launch(ground).command[1]).is_file(), contender.name
