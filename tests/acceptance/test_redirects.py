"""Redirects that lead nowhere: every URL ends in one row or one dead letter, and no chain goes on for ever."""

from __future__ import annotations

from collections import Counter

from tests.command import Shoal
from tests.site.generated import StatusSite
from tests.site.reply import redirect
from tests.site.server import serve

FAST = ("--rate", "unlimited", "--workers", "1", "--no-robots", "--json")
FOLLOWED = 10


def test_loops_and_chains_of_redirects_end_and_say_how(shoal: Shoal) -> None:
    targets = {"/self": "/self", "/a": "/b", "/b": "/a", "/x": "/y", "/y": "/z", "/z": "/y"}
    targets |= {f"/chain/{number}": f"/chain/{number + 1}" for number in range(100)}
    with serve(StatusSite({source: (redirect(target, 302),) for source, target in targets.items()})) as site:
        done = shoal.run("scrape", *(site.link(start) for start in ("/self", "/a", "/x", "/chain/0")), *FAST)
        asked = Counter(hit.target for hit in site.hits)
    assert done.code == 1, "there was no page at all"
    job = done.json["job"]
    passed = {f"/chain/{number}": f"/chain/{number + 1}" for number in range(FOLLOWED)}
    rows = {row["url"]: row["redirect"] for row in shoal.run("results", job, "--pages").records}
    expected = {source: targets[source] for source in ("/a", "/b", "/x", "/y", "/z")} | passed
    assert rows == {site.link(source): site.link(target) for source, target in expected.items()}
    letters = {row["url"]: row["reason"] for row in shoal.run("dead", job, "--format", "jsonl").records}
    dead = {"/self": "redirect_loop", f"/chain/{FOLLOWED}": "too_many_redirects"}
    assert letters == {site.link(source): reason for source, reason in dead.items()}
    assert asked == Counter([*expected, *dead]), "each once"
    status = shoal.status(job)
    assert (status["state"], status["reconciles"]) == ("finished", True)
