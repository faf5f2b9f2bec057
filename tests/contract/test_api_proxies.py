"""Proxies over the API: only names of pools, nothing of their secrets."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from shoal.core.access import Permission
from shoal.core.proxies import ProxyPool, Verdict
from shoal.core.spec import read_spec
from shoal.frontier.proxies import Lent, ProxyDesk, Return, Want
from shoal.proxy_pools import pools_of
from shoal.wiring import redis_urls
from tests.contract.api import Desk, a_desk, refused, told

SECRET = "pa55word"
URL = "http://shop.example/"
POOLS = f"""
pools:
  residential: {{template: 'http://user-{{session}}:{SECRET}@gate.example:8000', rotate: host}}
  own: {{list: ['http://u:{SECRET}@10.0.0.7:3128', 'http://10.0.0.8:3128', 'http://10.0.0.9:3128']}}
"""


@pytest.fixture
def desk(valkey_url: str, tmp_path: Path) -> Generator[Desk]:
    (tmp_path / "pools.yaml").write_text(POOLS, encoding="utf-8")
    with a_desk(valkey_url, tmp_path, proxies_file=tmp_path / "pools.yaml") as desk:
        yield desk


def test_a_job_names_a_pool(desk: Desk) -> None:
    job = desk.submit(URL, proxies="residential")
    assert desk.job(job)["spec"]["proxies"] == "residential"
    assert desk.platform.control.job(job).spec.proxies == "residential"
    job = told(desk.post("scrape", {"url": URL, "proxies": "own"}), 202)["id"]
    assert desk.platform.control.job(job).spec.proxies == "own"


@pytest.mark.parametrize("route", ["jobs", "scrape"])
def test_a_pool_that_is_not_there_is_refused_with_those_that_are(desk: Desk, route: str) -> None:
    body: dict[str, Any] = {"proxies": "fast", **({"url": URL} if route == "scrape" else {"urls": [URL]})}
    problem = refused(desk.post(route, body), 422)
    assert [error["field"] for error in problem["errors"]] == ["proxies"]
    assert problem["errors"][0]["detail"] == "there is no proxy pool 'fast'; there are own, residential"
    assert told(desk.get("jobs"))["data"] == []


@pytest.mark.parametrize("route", ["jobs", "scrape"])
@pytest.mark.parametrize(
    "given",
    [
        {"list": [f"http://u:{SECRET}@127.0.0.1:6379"]},
        {"template": f"http://{{n}}:{SECRET}@127.0.0.1:6379"},
        {"file": "/etc/passwd"},
        [f"http://u:{SECRET}@127.0.0.1:6379"],
        f"http://u:{SECRET}@127.0.0.1:6379",
        5,
        True,
        "",
    ],
)
def test_nobody_chooses_proxies_over_the_api(desk: Desk, route: str, given: object) -> None:
    body: dict[str, Any] = {"proxies": given, **({"url": URL} if route == "scrape" else {"urls": [URL]})}
    answer = desk.post(route, body)
    problem = refused(answer, 422)
    assert [error["field"] for error in problem["errors"]] == ["proxies"]
    assert SECRET not in answer.get_data(as_text=True)
    assert told(desk.get("jobs"))["data"] == []


def test_the_proxies_of_a_job_cannot_be_changed(desk: Desk) -> None:
    job = desk.submit(URL)
    problem = refused(desk.patch(f"jobs/{job}", {"proxies": "own"}), 422)
    assert problem["errors"] == [{"field": "proxies", "detail": "this can be set only when a job is submitted"}]


def test_a_job_with_proxies_of_its_own_shows_them_without_credentials(desk: Desk) -> None:
    own = f"http://u:{SECRET}@10.0.0.7:3128"
    spec = read_spec({"urls": [URL], "proxies": {"list": [own], "parallel": 2}})
    job = desk.platform.intake.submit(spec).job
    for path in (f"jobs/{job}", "jobs"):
        answer = desk.get(path)
        assert answer.status_code == 200
        assert SECRET not in answer.get_data(as_text=True)
    assert desk.job(job)["spec"]["proxies"]["list"] == ["http://***@10.0.0.7:3128"]
    stored = desk.platform.control.job(job).spec.proxies
    assert isinstance(stored, ProxyPool)
    assert stored.list == (own,)
    desk.patch(f"jobs/{job}", {"name": "renamed"})
    assert desk.platform.control.job(job).spec.proxies == stored


def test_the_operator_sees_how_proxies_do_and_not_how_to_use_them(desk: Desk) -> None:
    settings = desk.platform.settings
    lending = ProxyDesk.at(redis_urls(settings).frontier, settings.prefix)
    bad, busy, _ = pools_of(settings.proxies_file).get("own").names
    for name in (bad, busy):
        (lent,) = lending.borrow([Want("g", (name,))])
        assert isinstance(lent, Lent)
        if name == bad:
            lending.give_back([Return(lent, Verdict.REFUSED, settings.lease_for)])
    lending.close_connections()
    answer = desk.get("proxies")
    rows = told(answer)["data"]
    assert [(row["pool"], row["proxy"], row["rotate"]) for row in rows] == [
        ("own", "http://***@10.0.0.7:3128", "request"),
        ("own", "http://10.0.0.8:3128", "request"),
        ("own", "http://10.0.0.9:3128", "request"),
        ("residential", "http://***@gate.example:8000", "host"),
    ]
    assert [(row["in_flight"], row["failures"], row["rest_seconds"] > 50) for row in rows] == [
        *((0, 1, True), (1, 0, False), (0, 0, False), (0, 0, False)),
    ]
    assert SECRET not in answer.get_data(as_text=True)


def test_proxies_are_listed_page_by_page_and_pool_by_pool(desk: Desk) -> None:
    assert len(list(desk.rows("proxies", limit=1))) == 4
    assert [row["pool"] for row in desk.rows("proxies?pool=own", limit=2)] == ["own"] * 3
    problem = refused(desk.get("proxies?pool=fast"), 422)
    assert [error["field"] for error in problem["errors"]] == ["pool"]


def test_only_admins_list_proxies(desk: Desk) -> None:
    refused(desk.make_key(Permission.READ, Permission.SUBMIT)[1].get("proxies"), 403)
    assert told(desk.make_key(Permission.ADMIN)[1].get("proxies"))["data"]


def test_without_a_file_there_are_no_pools(valkey_url: str, tmp_path: Path) -> None:
    with a_desk(valkey_url, tmp_path) as desk:
        assert told(desk.get("proxies"))["data"] == []
        detail = refused(desk.post("jobs", {"urls": [URL], "proxies": "own"}), 422)["detail"]
        assert "SHOAL_PROXIES_FILE" in detail
