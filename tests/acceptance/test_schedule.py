"""`shoal schedule`: the real command, from a job file to a run that workers have done."""

from __future__ import annotations

import json
from pathlib import Path

from tests.acceptance.test_beat import SOON
from tests.acceptance.test_up import running_up
from tests.command import Shoal
from tests.site.generated import SlowSite
from tests.site.server import serve
from tests.waiting import wait_until

JOB = """
urls: [{url}]
rate: unlimited
robots: false
schedule:
  cron: "0 3 * * *"
  timezone: Europe/Berlin
"""


def test_a_schedule_is_run_by_what_shoal_up_brings_along(shoal: Shoal, tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    with serve(SlowSite(delay=0, pages=3)) as site, running_up(shoal, "--workers", "1"):
        file.write_text(JOB.format(url=site.url), encoding="utf-8")
        wait_until(lambda: "control" in shoal.run("workers", "list", "--json").out, within=SOON)
        made = shoal.run("schedule", "add", "nightly", "-j", str(file), "--overlap", "queue", "--json")
        assert made.code == 0, made.err
        assert made.json["words"] == "At 03:00 every day, Europe/Berlin"
        assert (made.json["overlap"], made.json["waiting_for"]) == ("queue", None)
        run = shoal.run("schedule", "run", "nightly")
        assert run.code == 0, run.err
        job = run.out.strip()
        wait_until(lambda: _last(shoal)["state"] == "finished", within=SOON)
        assert (_last(shoal)["job"], _last(shoal)["pages"]) == (job, 3)
        listed = shoal.run("schedule", "list")
        assert "finished: 3 pages, 0 failed" in " ".join(listed.out.split())
        assert listed.err == ""


def _last(shoal: Shoal) -> dict[str, object]:
    runs: list[dict[str, object]] = json.loads(shoal.run("schedule", "history", "nightly", "--json").out)
    (run,) = runs
    return run


def test_what_is_wrong_is_said(shoal: Shoal, tmp_path: Path) -> None:
    bad = shoal.run("schedule", "add", "x", "https://x.example/", "--cron", "0 25 * * *", "--timezone", "Berlin")
    assert (bad.code, bad.out) == (2, "")
    assert "cron: hour '25' cannot be read: 0-23" in bad.err
    assert "timezone: there is no such time zone; did you mean Europe/Berlin?" in bad.err
    gone = shoal.run("schedule", "show", "gone")
    assert (gone.code, "`shoal schedule list` has them" in gone.err) == (1, True)
    nameless = shoal.run("schedule", "add", "a b", "https://x.example/", "--every", "1h")
    assert (nameless.code, "is no name of a schedule" in nameless.err) == (2, True)
    added = shoal.run("schedule", "add", "x", "https://x.example/", "--every", "1h")
    assert (added.code, "no worker serves control" in added.err) == (0, True)
    file = tmp_path / "nightly.yaml"
    file.write_text('urls: [https://x.example/]\nschedule: {cron: "0 3 * * *", start: 2026-12-01}\n')
    flags_win = shoal.run("schedule", "add", "y", "-j", str(file), "--every", "6h", "--json")
    assert (flags_win.code, flags_win.json["cron"], flags_win.json["every"]) == (0, None, 21_600)
    assert flags_win.json["start"].startswith("2026-12-01T")
    again = shoal.run("schedule", "add", "x", "https://x.example/", "--every", "2h", "--replace", "--json")
    assert (again.code, again.json["every"]) == (0, 7200)
