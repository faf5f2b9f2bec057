"""Killing what looks after the embedded Redis: those who use it notice, and go on by themselves."""

from __future__ import annotations

import os
import signal
from datetime import timedelta

from shoal.embedded import hold_embedded
from shoal.frontier.scripts import connect
from tests.command import Shoal, embedded_redis, embedded_servers
from tests.site.generated import LinkedSite
from tests.site.server import serve
from tests.waiting import wait_until

PAGES = 400
SOON = timedelta(seconds=60)


def _guardian(shoal: Shoal) -> int:
    return int((shoal.home / "redis" / "guardian.pid").read_text())


def test_kill_9_of_the_guardian_in_mid_crawl_costs_a_moment(shoal: Shoal) -> None:
    options = ("--rate", "100", "--parallel", "16", "--no-robots", "--workers", "1", "--json", "--quiet")
    with serve(LinkedSite(pages=PAGES, links=20, size=1_000)) as site:
        with shoal.running("crawl", site.url, *options) as process:
            wait_until(lambda: len(site.hits) > PAGES // 4, within=SOON)
            os.kill(_guardian(shoal), signal.SIGKILL)
            out, err = process.communicate(timeout=90)
        assert process.returncode == 0, err
        assert len({hit.target for hit in site.hits}) == PAGES
    done = shoal.status(out.split('"job":"', 1)[1].split('"')[0])
    assert (done["state"], done["pages"], done["reconciles"]) == ("finished", PAGES, True)


def test_a_server_that_still_lives_without_its_guardian_gets_no_rival(shoal: Shoal) -> None:
    """A second server on the same files would ruin them: who comes meanwhile waits for the first to end."""
    shoal.home.mkdir()
    hold = hold_embedded(shoal.home)
    try:
        client = connect(hold.url)
        client.set("kept", "yes")
        client.close()
        server = embedded_redis(shoal)
        server.suspend()
        first = _guardian(shoal)
        os.kill(first, signal.SIGKILL)
        wait_until(lambda: not any(p.pid == first for p in shoal.processes()), within=SOON)
        assert _servers(shoal) == {server.pid}
        server.resume()
        wait_until(lambda: _guardian(shoal) != first and server.pid not in _servers(shoal), within=SOON)
        again = hold_embedded(shoal.home)
        client = connect(again.url)
        assert client.get("kept") == "yes"
        client.close()
        again.release()
        assert len(_servers(shoal)) == 1
    finally:
        hold.release()


def _servers(shoal: Shoal) -> set[int]:
    return {server.pid for server in embedded_servers(shoal)}
