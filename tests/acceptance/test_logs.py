"""Data on standard output, logs on standard error, whatever the command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.command import Shoal
from tests.site.generated import LinkedSite, StatusSite
from tests.site.server import serve

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


def _lines(shoal: Shoal) -> list[dict[str, Any]]:
    """Of all log files of the home; each is JSON."""
    texts = [path.read_text() for path in sorted((shoal.home / "logs").iterdir())]
    return [json.loads(line) for text in texts for line in text.splitlines()]
