"""Proxies as an operator sees them: what commands show and leave behind has no credentials in it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.command import Shoal

SECRET = "pa55word"


def test_a_job_whose_pool_is_gone_is_not_resumed(shoal: Shoal, tmp_path: Path) -> None:
    pools = tmp_path / "pools.yaml"
    pools.write_text("pools: {own: {list: ['http://127.0.0.1:9']}}", encoding="utf-8")
    named = Shoal(shoal.home, (("SHOAL_PROXIES_FILE", str(pools)),))
    job = named.run("crawl", "http://127.0.0.1:9/", "--proxies", "own", "--detach", "--json").json["job"]
    assert named.run("pause", job).code == 0
    pools.write_text("pools: {other: {list: ['http://127.0.0.1:9']}}", encoding="utf-8")
    done = named.run("resume", job)
    assert (done.code, done.out) == (2, ""), done.err
    assert "there is no proxy pool 'own'; there are other" in done.err
    assert named.status(job)["state"] == "paused"


@pytest.mark.embedded
def test_no_secret_of_a_proxy_is_shown_or_logged(shoal: Shoal, tmp_path: Path) -> None:
    pools = tmp_path / "pools.yaml"
    pools.write_text(f"pools: {{own: {{list: ['http://user:{SECRET}@127.0.0.1:9']}}}}", encoding="utf-8")
    (tmp_path / "job.yaml").write_text(
        f"urls: [http://127.0.0.1:9/]\nproxies: ['http://user:{SECRET}@127.0.0.1:9']\n", encoding="utf-8"
    )
    named = Shoal(shoal.home, (("SHOAL_PROXIES_FILE", str(pools)),))
    listed = named.run("proxies", "--json")
    assert listed.code == 0, listed.err
    assert [(row["pool"], row["proxy"]) for row in json.loads(listed.out)] == [("own", "http://***@127.0.0.1:9")]
    table = named.run("proxies")
    assert "http://***@127.0.0.1:9" in table.out
    job = named.run("crawl", "-j", str(tmp_path / "job.yaml"), "--detach", "--json")
    assert job.code == 0, job.err
    found = [named.run("jobs", "--json"), named.run("status", job.json["job"], "--json"), named.run("jobs")]
    pools.write_text(f"pools: {{own: {SECRET}}}", encoding="utf-8")
    wrong = named.run("proxies")
    assert wrong.code == 2
    assert "pools.own" in wrong.err
    for done in (listed, table, job, *found, wrong):
        assert SECRET not in done.out + done.err
    left = [path for path in shoal.home.rglob("*") if path.is_file() and not path.name.startswith("shoal.db")]
    assert any("appendonly" in str(path) for path in left)  # what Redis has written down, for one
    assert [path for path in left if SECRET.encode() in path.read_bytes()] == []
