"""Deliveries by real processes: `shoal crawl --deliver` and `shoal deliver`, to a folder and to S3."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.command import Shoal
from tests.duck import Read, read
from tests.s3 import S3
from tests.site.server import Server
from tests.waiting import wait_until

FAST = ("--rate", "unlimited", "--no-robots", "--workers", "2")
FIELDS = ("--field", "title=h1", "--field", "price:number=.price")


@dataclass(frozen=True, slots=True)
class Desk:
    """A command, and a place as it is named and as a reader sees it."""

    shoal: Shoal
    url: str
    get: Callable[[str], bytes]

    @property
    def latest(self) -> dict[str, Any]:
        return json.loads(self.get("latest.json"))

    def rows(self) -> list[dict[str, Any]]:
        """Of JSON Lines."""
        return [json.loads(line) for part in self.latest["parts"] for line in self.get(part["path"]).splitlines()]

    def by_duckdb(self, folder: Path) -> Read:
        """Parquet, as a reader has it who has fetched the parts that the pointer names."""
        folder.mkdir()
        for number, part in enumerate(self.latest["parts"]):
            (folder / f"{number}.parquet").write_bytes(self.get(part["path"]))
        return read(folder / "*.parquet")


def at_a_folder(shoal: Shoal, folder: Path) -> Desk:
    return Desk(shoal, f"file://{folder}/", lambda name: (folder / name).read_bytes())


@pytest.fixture(params=["folder", "s3"])
def desk(request: pytest.FixtureRequest, shoal: Shoal, tmp_path: Path) -> Desk:
    if request.param == "folder":
        return at_a_folder(shoal, tmp_path / "out")
    server: S3 = request.getfixturevalue("s3")
    bucket = server.new_bucket()
    command = replace(shoal, extra=tuple(server.environment.items()))
    return Desk(command, f"s3://{bucket}/books/", lambda name: server.get(bucket, f"books/{name}"))


def crawl(desk: Desk, site: Server, *more: str, pages: int = 40) -> dict[str, Any]:
    done = desk.shoal.run("crawl", site.url, *FAST, *FIELDS, "--pages", str(pages), "--json", "-q", *more)
    assert done.code == 0, done.err
    return done.json


def test_what_a_crawl_delivers_is_what_it_has_found(desk: Desk, bookshop: Server, tmp_path: Path) -> None:
    job = crawl(desk, bookshop, "--deliver", desk.url, "--format", "parquet")["job"]
    found = desk.by_duckdb(tmp_path / "read")
    stored = desk.shoal.run("results", job).records
    assert sorted(row["url"] for row in found.rows) == sorted(row["url"] for row in stored)
    assert (found.types["price"], found.types["title"]) == ("DOUBLE", "VARCHAR")
    assert (desk.latest["run"], desk.latest["rows"]) == (job, len(stored))
    assert "delivered" in desk.shoal.run("status", job).out


def test_a_second_version_takes_the_pointer_over_and_the_first_takes_it_back(desk: Desk, bookshop: Server) -> None:
    job = crawl(desk, bookshop, "--deliver", desk.url)["job"]
    assert desk.shoal.run("deliver", job).code == 0
    assert desk.shoal.run("extract", job, "--field", "heading=h1", "--as", "v2", "-q").code == 0
    done = desk.shoal.run("deliver", job, "--json")
    assert done.code == 0, done.err
    assert [(each["version"], each["state"]) for each in json.loads(done.out)] == [("v2", "delivered")]
    assert desk.latest["version"] == "v2"
    assert desk.rows()[0].keys() == {"url", "heading"}
    done = desk.shoal.run("deliver", job, "--version", "v1", "--format", "csv")
    assert done.code == 0, done.err
    assert (desk.latest["version"], desk.latest["format"]) == ("v1", "csv")
    assert desk.get(desk.latest["parts"][0]["path"]).startswith(b"url,title,price")


def test_who_cannot_move_the_pointer_says_why_and_does_not_end_well(desk: Desk, bookshop: Server) -> None:
    older = crawl(desk, bookshop, pages=3)["job"]
    newer = crawl(desk, bookshop, "--deliver", desk.url, pages=3)["job"]
    done = desk.shoal.run("deliver", older, "--to", desk.url)
    assert done.code == 1
    assert f"superseded: 3 rows in 1 part to {desk.url.rstrip('/')}" in done.err
    assert f"latest.json stays with the newer run {newer}" in done.err
    assert f"shoal deliver {older} --to" in done.err
    assert desk.latest["job"] == newer
    assert desk.shoal.run("deliver", older, "--to", f"{desk.url}older/").code == 0
    assert desk.shoal.run("deliver", older, "--version", "v9").code == 1


def test_parts_come_while_a_crawl_in_the_foreground_runs(shoal: Shoal, bookshop: Server, tmp_path: Path) -> None:
    """Its rate is such that the crawl goes on for long after its first part."""
    desk = at_a_folder(shoal, tmp_path / "out")
    spec = tmp_path / "job.yaml"
    spec.write_text(
        f"urls: [{bookshop.url}]\npages: 260\nrate: 12\nparallel: 8\nrobots: false\nfields: {{title: h1}}\n"
        f"output: {{to: '{desk.url}', every: 100}}\n"
    )
    with desk.shoal.running("crawl", "-j", str(spec), "-q") as process:
        wait_until(lambda: bool(begun(desk.shoal)), within=timedelta(seconds=60))
        assert process.poll() is None, "the crawl has ended before its first part"
        with pytest.raises(FileNotFoundError):
            desk.get("latest.json")
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
    (job,) = jobs(desk.shoal)
    assert desk.shoal.run("resume", job, "-q").code == 0
    assert len(desk.rows()) == desk.latest["rows"] == len(desk.shoal.run("results", job).records)


def jobs(shoal: Shoal) -> list[str]:
    done = shoal.run("jobs", "--json")
    return [each["job"] for each in json.loads(done.out)] if done.code == 0 else []


def begun(shoal: Shoal) -> list[str]:
    """Lines about deliveries that have parts already."""
    told = [shoal.run("status", job).out for job in jobs(shoal)]
    return [line for text in told for line in text.splitlines() if "waiting:" in line and " in 1 part" in line]
