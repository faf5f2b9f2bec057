"""SHOAL_HOME on a full disk: the crawl says why it stands still, who only looks can look, and `prune` makes room."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Generator
from datetime import timedelta
from pathlib import Path

import pytest

from shoal.home import RESERVE, is_full
from tests.command import Shoal, a_home
from tests.site.generated import LinkedSite
from tests.site.server import Server, serve
from tests.small_disk import fill, small_disk
from tests.waiting import wait_until

FAST = ("--rate", "unlimited", "--no-robots", "--json")
SLOW = ("--rate", "20", "--parallel", "8", "--no-robots", "--json")
NO_SPACE = "Redis cannot write to its disk: no space left"
LOOKS = (("jobs",), ("hosts",), ("proxies",), ("keys", "list"))


@pytest.fixture
def shoal(tmp_path: Path) -> Generator[Shoal]:
    """Commands on a home that has a small disk for itself."""
    with small_disk(tmp_path / "disk") as disk, a_home(disk) as command:
        yield command


@pytest.fixture
def site() -> Generator[Server]:
    with serve(LinkedSite(pages=300, links=20, size=3_000)) as server:
        yield server


def test_a_home_that_is_full_can_be_looked_at_and_pruned(shoal: Shoal, site: Server) -> None:
    """Nobody has the database open: even who reads it needs a little room, which is kept for that."""
    job = shoal.run("crawl", site.url, *FAST).json["job"]
    fill(shoal.home.parent)
    assert not _refused_to_start(shoal, site)
    for command in (*LOOKS, ("status", job), ("results", job), ("hosts", "audit", "127.0.0.1")):
        looked = shoal.run(*command)
        assert looked.code == 0, (command, looked.err)
    shown = shoal.run("prune", "--older-than", "0s", "--dry-run", "--json")
    assert [len(shown.json["jobs"]), shown.json["removed"]] == [1, 0], shown.err
    done = shoal.run("prune", "--older-than", "0s", "--yes", "--json")
    assert (done.code, done.json["removed"]) == (0, 1), done.err
    assert "the archive goes first" in done.err
    assert shoal.run("jobs", "--json").out.strip() == "[]"
    assert not list((shoal.home / "archive").glob(f"{job}*"))


def _refused_to_start(shoal: Shoal, site: Server) -> list[str]:
    """Whatever a crawl says on a full disk beside the disk."""
    done = shoal.run("crawl", site.url, *FAST)
    assert done.code == 1
    return [line for line in done.err.splitlines() if "No space left" not in line and "Make room there" not in line]


@pytest.mark.embedded
def test_a_crawl_on_a_full_home_names_the_disk_and_prune_lets_it_go_on(shoal: Shoal, site: Server) -> None:
    old = shoal.run("crawl", site.url, *FAST).json["job"]
    asked = len(site.hits)
    with shoal.running("crawl", site.url, *SLOW) as crawl:
        wait_until(lambda: len(site.hits) > asked + 40, within=timedelta(seconds=30))
        job = _running(shoal)
        make_room = fill(shoal.home.parent)
        wait_until(lambda: "no space left" in shoal.run("status", job).out, within=timedelta(seconds=40))
        (met,) = [met for met in shoal.status(job)["troubles"] if met["what"] == "redis"]
        assert met["message"] == NO_SPACE
        said = _heard(crawl, NO_SPACE)
        refused = shoal.run("recover")
        assert (refused.code, refused.err) == (1, f"shoal: {NO_SPACE}\n")
        done = shoal.run("prune", "--older-than", "0s", "--yes", "--json")
        assert (done.code, done.json["removed"]) == (0, 1), done.err
        assert not list((shoal.home / "archive").glob(f"{old}*"))
        make_room()  # for the rest: the site is larger than what the old job took
        _, result = _finish(crawl)
    assert "paused for" in said
    assert (result["state"], result["pages"], result["reconciles"]) == ("finished", 300, True)


def _running(shoal: Shoal) -> str:
    return next(row["job"] for row in json.loads(shoal.run("jobs", "--json").out) if row["state"] == "running")


def _heard(crawl: subprocess.Popen[str], words: str) -> str:
    """The line in which it says so; it says something every few seconds."""
    assert crawl.stderr
    return next(line for line in crawl.stderr if words in line)


def _finish(crawl: subprocess.Popen[str]) -> tuple[str, dict[str, object]]:
    out, err = crawl.communicate(timeout=90)
    assert crawl.returncode == 0, err
    return err, json.loads(out)


def test_the_reserve_is_put_back_when_there_is_room_again(shoal: Shoal, site: Server) -> None:
    shoal.run("crawl", site.url, *FAST)
    reserve = shoal.home / RESERVE
    assert reserve.exists()
    make_room = fill(shoal.home.parent)
    shoal.run("prune", "--older-than", "0s", "--yes")
    assert not reserve.exists()
    make_room()
    assert not is_full(shoal.home)
    assert shoal.run("jobs").code == 0
    assert reserve.exists()
