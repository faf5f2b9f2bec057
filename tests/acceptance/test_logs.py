"""Data on standard output, logs on standard error, whatever the command."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

from tests.command import Shoal
from tests.site.generated import LinkedSite, StatusSite
from tests.site.server import serve
from tests.waiting import wait_until

FAST = ("--rate", "unlimited", "--no-robots")
GONE = 3_000
SMALL = 150
"""Lines, for two processes: twenty of an event and minute each, and what is not about pages."""


def test_a_warning_of_a_command_stands_on_standard_error_alone(shoal: Shoal) -> None:
    """The ring for the job does not reach a broker that is away, which is worth a line, and no harm."""
    deaf = Shoal(shoal.home, (*shoal.extra, ("SHOAL_BROKER_URL", "redis://127.0.0.1:9")))
    with serve(LinkedSite(pages=3, links=2, size=500)) as site:
        done = deaf.run("crawl", site.url, *FAST, "--detach", "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["job"]
    (line,) = [json.loads(line) for line in done.err.splitlines() if '"ring_failed"' in line]
    assert line["level"] == "warning"


def test_what_is_removed_is_told_as_one_document(shoal: Shoal) -> None:
    with serve(LinkedSite(pages=3, links=2, size=500)) as site:
        assert shoal.run("crawl", site.url, *FAST, "--quiet").code == 0
    done = shoal.run("prune", "--older-than", "0s", "--yes", "--json")
    assert done.code == 0, done.err
    assert isinstance(json.loads(done.out), dict)


def test_thousands_of_pages_that_fail_make_a_small_log_whose_sums_are_right(shoal: Shoal, tmp_path: Path) -> None:
    """Each line is written or counted; names of slice, worker, job and host stand in those that are written."""
    urls = tmp_path / "urls.txt"
    with serve(StatusSite({})) as site:
        urls.write_text("".join(f"{site.url}gone/{number}\n" for number in range(GONE)))
        done = shoal.run("scrape", "-f", str(urls), *FAST, "--workers", "2", "--quiet")
    assert "Traceback" not in done.err
    lines = _lines(shoal)
    given_up = [line for line in lines if line["event"] == "request_given_up"]
    left_out = [line for line in lines if line["event"] == "lines_left_out" and line["of"] == "request_given_up"]
    assert len(given_up) + sum(line["count"] for line in left_out) == GONE
    assert len(lines) < SMALL, f"{len(lines)} lines for {GONE} pages"
    for line in given_up:
        assert line["reason"] == "http_404"
        assert line["host"].startswith("127.0.0.1:")
        assert len(line["slice"]) == 8
        assert line["job"]
        assert line["task_id"].startswith(line["slice"])
    assert {line["job"] for line in left_out} == {line["job"] for line in given_up}
    assert len({line["worker"] for line in lines}) == 1
    _check_the_command(shoal, given_up[0]["job"], lines)


def _check_the_command(shoal: Shoal, job: str, lines: list[dict[str, Any]]) -> None:
    """It shows what the files have: everything, what is chosen, the last of it, for programs and for people."""
    assert shoal.run("logs", "-n", "0", "--json").records == sorted(lines, key=_when)
    shown = shoal.run("logs", "--job", job, "--event", "request_given_up", "-n", "0", "--json").records
    assert sum(line.get("count", 1) for line in shown) == GONE
    last = shoal.run("logs", "-n", "3")
    assert len(last.out.splitlines()) == 3
    assert "lines_left_out" in last.out
    nothing = shoal.run("logs", "--level", "error")
    assert (nothing.code, nothing.out) == (0, "")
    assert "no line in 1 file" in nothing.err


def test_a_home_without_logs_says_who_writes_them(shoal: Shoal) -> None:
    done = shoal.run("logs")
    assert (done.code, done.out) == (1, "")
    assert "`shoal up` and `shoal crawl` write them there" in done.err
    wrong = shoal.run("logs", "--since", "soon")
    assert wrong.code == 2
    assert "--since 'soon': write an age such as 10m" in wrong.err


def test_logs_are_followed_from_before_there_are_any(shoal: Shoal, tmp_path: Path) -> None:
    out = tmp_path / "followed.txt"
    with out.open("w") as file, serve(LinkedSite(pages=5, links=2, size=500)) as site:
        follower = subprocess.Popen(
            [sys.executable, "-m", "shoal", "logs", "--follow", "--json"],
            env=shoal.environment,
            stdout=file,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            assert follower.stderr is not None
            assert "waiting for them" in follower.stderr.readline()
            assert shoal.run("crawl", site.url, *FAST, "--quiet").code == 0
            wait_until(lambda: '"job_ended"' in out.read_text(), within=timedelta(seconds=10))
            follower.send_signal(signal.SIGINT)
            follower.communicate(timeout=10)
        finally:
            follower.kill()
    assert follower.returncode == 0
    followed = [json.loads(line) for line in out.read_text().splitlines()]
    assert sorted(followed, key=_when) == sorted(_lines(shoal), key=_when)


def test_who_has_read_enough_has_made_no_mistake(shoal: Shoal, tmp_path: Path) -> None:
    """`shoal logs | head -1` ends well, also in a shell that looks at every command of a pipe."""
    line = {"event": "page_cut", "level": "info", "timestamp": "2026-11-16T03:00:00.5Z", "text": "x" * 1_000}
    (tmp_path / "other.log").write_text(f"{json.dumps(line)}\n" * 2_000)
    reader = shoal.start("logs", "--folder", str(tmp_path), "-n", "0", "--json")
    assert reader.stdout is not None
    assert reader.stderr is not None
    try:
        assert json.loads(reader.stdout.readline()) == line
        reader.stdout.close()
        assert reader.wait(timeout=30) == 0
        assert reader.stderr.read() == ""
    finally:
        reader.kill()
        reader.stderr.close()


def test_a_log_that_is_full_is_put_aside_while_processes_write_to_it(shoal: Shoal, tmp_path: Path) -> None:
    """With all lines written, some hundred kilobytes of them, no more than four files of ten remain."""
    small = Shoal(shoal.home, (*shoal.extra, ("SHOAL_LOG_MEGABYTES", "0.01"), ("SHOAL_LOG_LINES", "0")))
    urls = tmp_path / "urls.txt"
    with serve(StatusSite({})) as site:
        urls.write_text("".join(f"{site.url}gone/{number}\n" for number in range(1_000)))
        small.run("scrape", "-f", str(urls), *FAST, "--workers", "2", "--quiet")
    files = list((shoal.home / "logs").iterdir())
    assert len(files) == 4
    assert all(path.stat().st_size < 20_000 for path in files)
    shown = small.run("logs", "-n", "0", "--json")
    assert shown.records == sorted(_lines(small), key=_when)
    assert shown.records[-1]["event"] in ("job_ended", "job_worked_on", "slice_done")


def _when(line: dict[str, Any]) -> str:
    return line["timestamp"]


def _lines(shoal: Shoal) -> list[dict[str, Any]]:
    """Of all log files of the home; each is JSON."""
    texts = [path.read_text() for path in sorted((shoal.home / "logs").iterdir())]
    return [json.loads(line) for text in texts for line in text.splitlines()]
