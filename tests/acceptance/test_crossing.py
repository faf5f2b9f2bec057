"""Every forbidden place, over every path by which somebody could send a fleet there: nobody is asked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.range.__main__ import HOSTS, PRIVATE
from tests.range.crossing import ANSWERS, MAPS, PLACES, PROXIES, REDIRECTS, ROBOTS, TURNING
from tests.range.network import run_in_namespace

PATHS = (
    *("start", "link", "redirect", "robots", "sitemap", "dns", "webhook", "proxy"),
    *(f"through {pool}" for pool in PROXIES),
)
WEBHOOKS = {
    *("webhook", "webhooks", "webhook_view", "webhook_schemas", "v0012_webhooks"),
    *("webhook_tables", "webhook_rows", "webhook_messages", "webhook_cursors"),
}
SOURCE = Path(__file__).parent.parent.parent / "src" / "shoal"
BROWSERS_PATHS = Path(__file__).parent.parent / "contract" / "render" / "test_browser_egress.py"


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    done = run_in_namespace("tests.range.crossing", timeout_s=280)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("path", PATHS)
def test_no_canary_is_asked(path: str, found: dict[str, Any]) -> None:
    assert found["paths"][path]["asked"] == []
    assert found["paths"].keys() == set(PATHS)


def test_the_canaries_would_be_heard(found: dict[str, Any]) -> None:
    assert sorted(found["sung"]) == sorted(PRIVATE)
    assert set(found["open"]) == {"10.0.0.1"}  # where the operator has opened the network


def test_all_places_were_tried_over_each_path(found: dict[str, Any]) -> None:
    paths = found["paths"]
    start, own = paths["start"], paths["proxy"]
    assert start["jobs"] == len(PLACES) == len(start["refused"]) + len(start["outcomes"])
    assert set(start["outcomes"].values()) == {"blocked_address"}
    assert own["jobs"] == len(own["refused"]) == 3 * len(HOSTS)
    assert {paths["link"]["outcomes"][url] for url in ("http://10.0.0.1/", "http://[::1]/")} == {"blocked_address"}
    assert {paths["redirect"]["outcomes"][url] for url in REDIRECTS} == {"302", "bad_redirect"}
    assert {paths["robots"]["outcomes"][url] for url in ROBOTS} == {"robots_unreachable", "200"}
    maps = paths["sitemap"]
    assert maps["jobs"] == 1 + len(PLACES)
    assert {maps["outcomes"][url] for url in MAPS} == {"200"}
    assert maps["outcomes"]["http://10.0.0.1/"] == "blocked_address"
    names = [paths["dns"]["outcomes"][url] for url in ANSWERS]
    assert names == ["blocked_address"] * len(PRIVATE) + ["200"] * len(PRIVATE)  # over the address that may be asked


def test_webhooks_were_tried_everywhere_and_arrived_where_they_may(found: dict[str, Any]) -> None:
    path = found["paths"]["webhook"]
    said: list[str] = path["refused"]
    assert len(said) == path["jobs"] == len(PLACES) + len(REDIRECTS) + len(ANSWERS) + len(TURNING)
    of_places = {text.split(" ", 2)[1]: text.split(" ", 2)[2] for text in said}
    assert {of_places[url].partition(":")[0] for url in ANSWERS[: len(PRIVATE)]} == {"blocked_address"}
    assert all("redirects are not followed" in of_places[url] or not of_places[url] for url in REDIRECTS)
    assert any("redirects are not followed" in of_places[url] for url in REDIRECTS)


@pytest.mark.parametrize("pool", PROXIES)
def test_through_a_proxy_likewise(pool: str, found: dict[str, Any]) -> None:
    path = found["paths"][f"through {pool}"]
    assert path["passed"] > len(REDIRECTS)
    assert {*REDIRECTS, *ROBOTS, *ANSWERS} <= path["outcomes"].keys()
    assert {path["outcomes"][url] for url in ANSWERS[: len(PRIVATE)]} == {"blocked_address"}


def test_proxies_are_asked_for_nothing_that_is_forbidden(found: dict[str, Any]) -> None:
    hosts = {
        way.partition(" ")[2].removeprefix("http://").partition("/")[0].partition(":")[0] for way in found["passed"]
    }
    assert {host for host in hosts if not host.endswith(".test")} == {"45.33.32.156", "45.33.32.157"}
    assert not [host for host in hosts if host.startswith(("answer", "inside", "six", "twofold"))]


def test_whoever_writes_another_path_out_crosses_it_here() -> None:
    """What a browser tries is tried where a real one runs behind the gate."""
    words = ("sitemap", "webhook", "callback")
    modules = {path.stem for path in SOURCE.rglob("*.py")} | {path.name for path in SOURCE.rglob("*") if path.is_dir()}
    assert {name for name in modules if any(word in name for word in words)} == {"sitemaps", *WEBHOOKS}
    assert BROWSERS_PATHS.is_file()
    files = [path.stem for path in SOURCE.rglob("*.py") if path.parent.name != "versions"]
    rendering = {name for name in files if "browser" in name or "render" in name}
    assert rendering == {"browser", "renderer", "rendering"}, "another way out of a browser belongs there"
