"""Data on standard output, logs on standard error, whatever the command."""

from __future__ import annotations

import json

from tests.command import Shoal
from tests.site.generated import LinkedSite
from tests.site.server import serve

FAST = ("--rate", "unlimited", "--no-robots")


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
