"""Other fields from stored pages: the same as a fresh crawl would take, and nobody is asked for anything."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.command import Shoal
from tests.site.server import Server
from tests.stored import log_events, read_archived

FIRST = ("--field", "title=h1")
SECOND = ("--field", "title=h1", "--field", "tags[]=.tag", "--field", "home=a@href")
FAST = ("--rate", "unlimited", "--no-robots", "--workers", "2")


def _sorted(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(records, key=lambda record: record["url"])


def test_what_is_extracted_again_equals_a_fresh_extraction_and_needs_no_request(
    shoal: Shoal, bookshop: Server, tmp_path: Path
) -> None:
    crawled = shoal.run("crawl", bookshop.url, *FAST, *FIRST, "--pages", "60", "--json", "-q")
    assert crawled.code == 0, crawled.err
    job = crawled.json["job"]
    asked = len(bookshop.hits)
    spec = tmp_path / "new.yaml"
    spec.write_text("rate: 3\nfields:\n  title: h1\n  'tags[]': .tag\n")
    done = shoal.run("extract", job, "--spec", str(spec), "--field", "home=a@href", "--json")
    assert done.code == 0, done.err
    assert "rate say nothing about what is taken" in done.err
    assert {name: done.json[name] for name in ("version", "state", "failed")} == {
        "version": "v2",
        "state": "done",
        "failed": 0,
    }
    assert done.json["pages"] == done.json["total"] == crawled.json["pages"]
    assert len(bookshop.hits) == asked
    again = shoal.run("results", job).records
    assert [record["url"] for record in again] != []
    assert shoal.run("results", job, "--version", "v1").records[0].keys() == {"url", "title"}

    urls = [record["url"] for record in shoal.run("results", job, "--pages").records if record["redirect"] is None]
    fresh = shoal.run("scrape", "-f", "-", *FAST, *SECOND, "--json", "-q", stdin="\n".join(urls))
    assert _sorted(again) == _sorted(shoal.run("results", fresh.json["job"]).records)

    listed = shoal.run("status", job)
    assert "v2 done" in listed.out
    assert [version["version"] for version in shoal.run("status", job, "--json").json["versions"]] == ["v2"]
    _compare(shoal, job)
    _trace(shoal, job)


def _compare(shoal: Shoal, job: str) -> None:
    same = shoal.run("diff", job, "v1", "v1", "--exit-code")
    assert same.code == 0, same.err
    shown = shoal.run("diff", job, "v1", "v2", "--exit-code")
    assert shown.code == 1
    assert "tags" in shown.out
    *changes, last = shoal.run("diff", job, "v1", "v2", "--json").records
    summary = last["summary"]
    assert summary["fields"]["home"]["filled"] == summary["changed"] == len(changes) - summary["added"]
    assert shoal.run("diff", job, "v1", "v9").code == 1


def _trace(shoal: Shoal, job: str) -> None:
    first = shoal.run("results", job, "--lineage").records[0]
    assert (first["_version"], first["_attempt"]) == ("v2", 0)
    assert read_archived(shoal, first["_archive_key"], first["_archive_offset"], 2) == b"\x1f\x8b"


def test_a_worker_without_a_pool_that_has_grown_is_replaced_after_its_shift(shoal: Shoal, bookshop: Server) -> None:
    """64 megabytes are less than any worker takes."""
    job = shoal.run("scrape", bookshop.link("/about"), *FAST, *FIRST, "--json", "-q").json["job"]
    small = replace(shoal, extra=(*shoal.extra, ("SHOAL_RECYCLE_MEGABYTES", "64")))
    done = small.run("extract", job, "--field", "h=h1", "--workers", "1", "-q")
    assert done.code == 0, done.err
    assert log_events(small, "worker_recycled")


def test_a_version_is_dropped_with_its_items_and_its_name_is_free_again(shoal: Shoal, bookshop: Server) -> None:
    job = shoal.run("scrape", bookshop.link("/about"), *FAST, *FIRST, "--json", "-q").json["job"]
    assert shoal.run("extract", job, "--field", "h=h1", "--as", "other", "-q").code == 0
    assert shoal.run("extract", job, "--field", "g=h1", "--as", "other", "-q").code == 1
    assert shoal.run("extract", job, "--drop", "other").code == 0
    assert shoal.run("results", job).records[0].keys() == {"url", "title"}
    assert shoal.run("extract", job, "--field", "g=h1", "--as", "other", "-q").code == 0
    assert shoal.run("results", job).records == [{"url": bookshop.link("/about"), "g": "About us"}]


@pytest.mark.parametrize(
    ("args", "told"),
    [
        ((), "say what to take"),
        (("--as", "v1", "--field", "a=b"), "give another name"),
        (("--as", "v7"), "no version 'v7'"),
        (("--field", "a=:nth("), "a"),
        (("--drop", "v3"), "no version 'v3'"),
    ],
)
def test_what_cannot_work_is_said_before_anything_starts(
    shoal: Shoal, bookshop: Server, args: tuple[str, ...], told: str
) -> None:
    job = shoal.run("scrape", bookshop.link("/about"), *FAST, "--json", "-q").json["job"]
    done = shoal.run("extract", job, *args, "--workers", "0", "--detach")
    assert done.code in (1, 2)
    assert told in done.err


def test_a_job_without_an_archive_has_nothing_to_extract_from(shoal: Shoal, bookshop: Server) -> None:
    job = shoal.run("scrape", bookshop.link("/about"), *FAST, "--no-archive", "--json", "-q").json["job"]
    done = shoal.run("extract", job, "--field", "a=h1", "--workers", "0", "--detach")
    assert done.code == 1
    assert "without the archive" in done.err


def test_an_extraction_that_was_left_to_workers_is_gone_on_with(shoal: Shoal, bookshop: Server) -> None:
    job = shoal.run("scrape", bookshop.link("/about"), *FAST, *FIRST, "--json", "-q").json["job"]
    begun = shoal.run("extract", job, "--field", "a=h1", "--detach", "--json")
    assert begun.json == {"job": job, "version": "v2"}
    assert shoal.run("results", job).records[0].keys() == {"url", "title"}, "it is not complete"
    done = shoal.run("extract", job, "--as", "v2", "--json", "-q")
    assert json.loads(done.out)["items"] == 1


def test_many_items_of_a_page_are_asked_for_in_one_line(shoal: Shoal, bookshop: Server) -> None:
    job = shoal.run("scrape", bookshop.url, *FAST, *FIRST, "--json", "-q").json["job"]
    done = shoal.run("extract", job, "--each", "a", "--field", "name=.", "--field", "to=@href", "-q")
    assert done.code == 0, done.err
    records = shoal.run("results", job).records
    assert len(records) > 1
    assert all(record["to"].startswith(bookshop.url) for record in records if record["name"] == "About us")
