"""The egress guard as users meet it: nothing forbidden is ever asked, and what is refused says why."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from tests.canary import canary
from tests.command import Shoal
from tests.range.__main__ import HOSTS, PRIVATE, REBINDS, TRICKS
from tests.range.network import run_in_namespace
from tests.site.generated import StatusSite
from tests.site.reply import page, redirect
from tests.site.server import serve

CLOSED = (("SHOAL_EGRESS_ALLOW", ""),)


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    """What came of a crawl that leads everywhere, in a network of its own."""
    done = run_in_namespace("tests.range", timeout_s=150)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_no_canary_is_asked_whatever_the_path_and_the_spelling(found: dict[str, Any]) -> None:
    assert sorted(found["sung"]) == sorted(PRIVATE)  # they are alive
    assert found["asked"] == []


def test_all_redirects_are_looked_at_and_those_to_forbidden_places_are_dead_letters(found: dict[str, Any]) -> None:
    outcomes: dict[str, str] = found["outcomes"]
    redirects = [outcomes[f"http://site.test/to/{number}"] for number in range(len(HOSTS) + len(TRICKS))]
    assert set(redirects) == {"302", "bad_redirect"}
    for url in ("http://169.254.169.254/", "http://10.0.0.1/", "http://[::1]/", "http://inside.test/page"):
        assert outcomes[url] == "blocked_address"
    assert outcomes["http://robots.test/page"] == "robots_unreachable"
    assert outcomes["http://mixed.test/page"] == "200"  # over the one address of it that may be asked


def test_names_that_change_between_look_and_leap_lead_nowhere_else(found: dict[str, Any]) -> None:
    names = [f"http://{word}{number}.test/page" for number in range(REBINDS) for word in ("rebind", "turn")]
    assert {found["outcomes"][url] for url in names} == {"200", "blocked_address"}
    assert found["lookups"] >= len(names)


def test_who_names_a_host_of_this_machine_may_crawl_it_and_nothing_else_there(shoal: Shoal) -> None:
    mine = replace(shoal, extra=(*shoal.extra, *CLOSED))
    with canary("127.0.0.1") as bird:
        away = f"http://127.0.0.1:{bird.port}/"
        replies = {
            "/": [page(f'<a href="/b">b</a><a href="{away}">away</a>')],
            "/b": [page("b")],
            "/out": [redirect(away)],
            "/robots.txt": [page("", status=404)],
        }
        with serve(StatusSite(replies)) as site:
            host = f"127.0.0.1:{bird.port}"
            done = mine.run("crawl", site.url, site.link("/out"), "--host", host, "--rate", "unlimited", "--json")
        assert done.code == 0, done.err
        letters = mine.run("dead", done.json["job"]).records
    assert [(letter["url"], letter["reason"]) for letter in letters] == [(away, "blocked_address")]
    assert done.json["counters"]["done"] == 3
    assert bird.asked == []
    assert f"--host {host} is on this machine, and links alone do not open it: give a URL of it as well" in done.err


@pytest.mark.parametrize(
    ("url", "hint"),
    [
        ("http://10.0.0.1/", "SHOAL_EGRESS_ALLOW"),
        ("http://[fd00:ec2::254]/", "nothing opens such addresses"),
        ("http://169.254.169.254/latest/meta-data", "nothing opens such addresses"),
        ("http://0.0.0.0/", "nothing opens such addresses"),
    ],
)
def test_a_url_that_can_be_seen_to_be_out_of_bounds_is_refused_at_once(url: str, hint: str, shoal: Shoal) -> None:
    done = shoal.run("scrape", url)
    assert done.code == 2
    assert "is not on the internet" in done.err
    assert hint in done.err


def test_a_name_that_leads_out_of_bounds_is_named_before_anything_starts(found: dict[str, Any]) -> None:
    assert found["refusal"]["code"] == 2
    assert "inside.test, which leads to 10.0.0.1, is not on the internet (private)" in found["refusal"]["err"]


def test_a_list_that_makes_no_sense_is_refused_at_the_start(shoal: Shoal) -> None:
    done = replace(shoal, extra=(("SHOAL_EGRESS_ALLOW", "10.0.0.0/99"),)).run("jobs")
    assert done.code == 2
    assert "SHOAL_EGRESS_ALLOW: '10.0.0.0/99' is neither a network" in done.err
