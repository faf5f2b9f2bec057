"""`shoal prune`: what it shows, what it removes, what it refuses; and what `--keep` is taken for."""

from __future__ import annotations

import pytest

from tests.command import Shoal
from tests.site.server import Server
from tests.stored import archived, count_rows

TABLES = ("jobs", "submissions", "pages", "items", "dead_letters")


def _rows(shoal: Shoal) -> int:
    return count_rows(shoal, *TABLES)


def _scrape(shoal: Shoal, *urls: str, more: tuple[str, ...] = ()) -> str:
    done = shoal.run("scrape", *urls, "--rate", "unlimited", "--workers", "1", "--json", *more)
    assert done.code in (0, 1), done.err
    return done.json["job"]


@pytest.fixture
def stocked(shoal: Shoal, bookshop: Server) -> tuple[Shoal, str]:
    """(commands on a home with one finished job, its id)"""
    urls = [bookshop.link(path) for path in ("/", "/about", "/books/the-lost-folio")]
    return shoal, _scrape(shoal, *urls, more=("--field", "title=h1"))


@pytest.mark.embedded  # looks into the folder
def test_one_short_command_makes_the_database_an_owner_of_its_archive(stocked: tuple[Shoal, str]) -> None:
    """Nothing of it is taken for left over by another database that shares the archive later."""
    shoal, _ = stocked
    assert len(list((shoal.home / "archive" / ".owners").iterdir())) == 1


def test_a_dry_run_shows_what_would_go_and_changes_nothing(stocked: tuple[Shoal, str]) -> None:
    shoal, job = stocked
    before, sizes = _rows(shoal), archived(shoal)
    done = shoal.run("prune", "--older-than", "0s", "--dry-run", "--json")
    assert done.code == 0, done.err
    (shown,) = done.json["jobs"]
    assert (shown["job"], shown["state"], shown["pages"]) == (job, "finished", 2)
    assert (done.json["pages"], done.json["bytes"], done.json["removed"]) == (2, sizes[job], 0)
    assert job in done.err
    assert "1 job in all: 2 pages" in done.err
    assert (_rows(shoal), archived(shoal)) == (before, sizes)


def test_everything_of_an_old_job_goes_and_the_file_shrinks(stocked: tuple[Shoal, str]) -> None:
    shoal, job = stocked
    done = shoal.run("prune", "--older-than", "0s", "--yes", "--vacuum", "--json")
    assert done.code == 0, done.err
    assert (done.json["removed"], done.json["left"]) == (1, 0)
    sizes = done.json["vacuum"]
    assert sizes["after"] <= sizes["before"] if shoal.settings.sql_url.startswith("sqlite") else sizes is None
    assert (_rows(shoal), archived(shoal)) == (0, {})
    gone = shoal.run("status", job)
    assert (gone.code, "there is no job" in gone.err) == (1, True)
    again = shoal.run("prune", "--older-than", "0s", "--yes", "--json")
    assert (again.code, again.json["jobs"]) == (0, [])


def test_jobs_that_are_not_old_enough_or_ended_otherwise_stay(stocked: tuple[Shoal, str]) -> None:
    shoal, _ = stocked
    before = _rows(shoal)
    for choice in (("1h",), ("0s", "--state", "cancelled"), ("0s", "--label", "nightly")):
        done = shoal.run("prune", "--older-than", *choice, "--yes", "--json")
        assert (done.code, done.json["jobs"], done.json["removed"]) == (0, [], 0), done.err
        assert "no job that fits has ended longer ago" in done.err
    assert _rows(shoal) == before


def test_what_a_dry_run_shows_can_be_redirected_to_a_file(stocked: tuple[Shoal, str]) -> None:
    shoal, job = stocked
    done = shoal.run("prune", "--older-than", "0s", "--dry-run")
    assert job in done.out
    assert "1 job in all: 2 pages" in done.out
    assert (done.code, done.err) == (0, "")


@pytest.mark.embedded  # PostgreSQL has no file of ours
def test_a_dry_run_of_vacuum_shows_the_file_and_leaves_it(stocked: tuple[Shoal, str]) -> None:
    shoal, _ = stocked
    size = (shoal.home / "shoal.db").stat().st_size
    shown = shoal.run("prune", "--vacuum", "--dry-run")
    assert (shown.code, "would be written anew" in shown.out) == (0, True), shown.err
    assert shoal.run("prune", "--vacuum", "--dry-run", "--json").json == {"dry_run": True, "vacuum": {"before": size}}


def test_redirects_are_no_more_pages_for_prune_than_for_jobs(shoal: Shoal, bookshop: Server) -> None:
    job = _scrape(shoal, bookshop.link("/about"), bookshop.link("/go/1"))
    status = shoal.status(job)
    assert status["redirects"] > 0
    shown = shoal.run("prune", "--older-than", "0s", "--dry-run", "--json").json
    assert shown["pages"] == status["pages"]


def test_exported_variables_neither_remove_anything_nor_force_it(stocked: tuple[Shoal, str]) -> None:
    shoal, job = stocked
    before = _rows(shoal)
    careless = Shoal(shoal.home, (("SHOAL_YES", "1"), ("SHOAL_FORCE", "1"), ("SHOAL_DRY_RUN", "1")))
    assert careless.run("prune", "--older-than", "0s").code == 2
    assert _rows(shoal) == before
    assert careless.run("recover").code == 0  # with --force it wants a job
    removed = careless.run("prune", "--older-than", "0s", "--yes", "--json")
    assert (removed.json["jobs"][0]["job"], removed.json["removed"]) == (job, 1)


def test_jobs_that_have_not_ended_are_counted_when_none_can_go(shoal: Shoal, bookshop: Server) -> None:
    waiting, given_up = (shoal.run("crawl", bookshop.url, "--detach", "--json").json["job"] for _ in range(2))
    assert shoal.run("pause", waiting).code == 0
    done = shoal.run("prune", "--older-than", "0s", "--dry-run")
    assert "no job that fits has ended longer ago than that; 2 jobs not ended yet: " in done.out
    assert "1 paused" in done.out
    assert "1 running" in done.out
    assert shoal.run("cancel", given_up).code == 0


def test_without_somebody_to_ask_nothing_goes(stocked: tuple[Shoal, str]) -> None:
    shoal, _ = stocked
    before = _rows(shoal)
    done = shoal.run("prune", "--older-than", "0s")
    assert done.code == 2
    assert "--yes" in done.err
    assert _rows(shoal) == before


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ((), "--older-than 30d"),
        (("--older-than", "30"), "'30': write a number and a unit"),
        (("--older-than", "soon"), "'soon': write a number and a unit"),
        (("--older-than", "30d", "--state", "running"), "running: only jobs that have ended can go"),
        (("--older-than", "30d", "--state", ","), "(none given)"),
    ],
)
def test_what_cannot_be_meant_is_refused(shoal: Shoal, args: tuple[str, ...], says: str) -> None:
    done = shoal.run("prune", *args)
    assert done.code == 2
    assert says in done.err
    assert done.out == ""
    assert "Traceback" not in done.err


@pytest.mark.parametrize(
    ("keep", "says"),
    [
        ("10m", "keep: at least an hour, such as 12h"),
        ("11y", "keep: write a number with h or d"),
        ("4000d", "at most ten years"),
        ("30", "keep: write a number with h or d"),
        ("7200", "keep: write a number with h or d"),
        ("soon", "keep: write a number with h or d"),
    ],
)
def test_a_keep_that_cannot_be_meant_is_refused(shoal: Shoal, bookshop: Server, keep: str, says: str) -> None:
    done = shoal.run("crawl", bookshop.url, "--keep", keep)
    assert done.code == 2
    assert says in done.err
