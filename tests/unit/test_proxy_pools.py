"""The operator's pools: a file that is read, read again, and refused without repeating its secrets."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import structlog

from shoal.core.proxies import ProxyPool, ProxyState
from shoal.errors import InputError
from shoal.proxy_pools import ProxyPools, listed, pools_of, proxy_record, read_proxy_file, with_list

SECRET = "pa55word"
POOLS = f"""
pools:
  residential:
    template: http://user-{{session}}:{SECRET}@gate.example:8000
    rotate: host
  own:
    file: proxies.txt
    parallel: 2
"""
LINES = f"# ours\n\nhttp://u:{SECRET}@10.0.0.7:3128\n  socks5h://10.0.0.8  \n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "proxies.txt").write_text(LINES, encoding="utf-8")
    path = tmp_path / "pools.yaml"
    path.write_text(POOLS, encoding="utf-8")
    return path


def write(path: Path, text: str, moment: int) -> None:
    """As if it had been written then: clocks of files are coarse."""
    path.write_text(text, encoding="utf-8")
    os.utime(path, ns=(moment, moment))


def test_pools_are_found_by_name(file: Path) -> None:
    pools = ProxyPools(file)
    assert sorted(pools.all()) == ["own", "residential"]
    assert pools.get("own").list == (f"http://u:{SECRET}@10.0.0.7:3128", "socks5h://10.0.0.8")
    assert (pools.get("own").parallel, pools.get("own").file) == (2, None)
    assert pools.get("residential").rotate == "host"


def test_a_name_that_is_not_there_is_refused_with_those_that_are(file: Path) -> None:
    with pytest.raises(InputError) as caught:
        ProxyPools(file).check("residental")
    assert str(caught.value) == "there is no proxy pool 'residental'; there are own, residential"
    assert caught.value.field == "proxies"
    with pytest.raises(InputError, match="no pools are defined: SHOAL_PROXIES_FILE names the file"):
        ProxyPools(None).check("residential")


def test_a_comment_may_stand_behind_a_proxy(tmp_path: Path) -> None:
    path = tmp_path / "proxies.txt"
    path.write_text(f"http://u:a#{SECRET}@10.0.0.7:3128  # Frankfurt\n  # none\n\thttp://10.0.0.8\t#x\n", "utf-8")
    assert read_proxy_file(path) == (f"http://u:a#{SECRET}@10.0.0.7:3128", "http://10.0.0.8")


def test_a_pool_of_ones_own_needs_no_name(file: Path) -> None:
    ProxyPools(None).check(None)
    ProxyPools(None).check(ProxyPool(list=("http://10.0.0.7:1",)))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (f"pools: [{SECRET}", "pools.yaml, line 1, column 17: this is not valid YAML"),
        (f"pools: *{SECRET}", "pools.yaml, line 1, column 8: this is not valid YAML"),
        (SECRET, "pools.yaml: write pools, for example"),
        ("", "pools.yaml: write pools, for example"),
        (f"pool: {{a: {SECRET}}}", "pool: Extra inputs are not permitted"),
        (f"pools: {SECRET}", "pools: Input should be a valid dictionary"),
        (f"pools: {{own: {{list: [{SECRET}]}}}}", "pools.own.list: Value error, number 1: this is not a proxy"),
        (f"pools: {{own: {{lst: [{SECRET}]}}}}", "pools.own.lst: Extra inputs are not permitted"),
        (f"pools: {{own: {SECRET}}}", "pools.own: Input should be"),
        (f"pools: {{own: {{template: 'http://u:{SECRET}@h:1'}}}}", "pools.own.template: Value error, a template has"),
        (f"pools: {{own: {{file: gone, rotate: {SECRET}}}}}", "pools.own.rotate: Input should be"),
        ("pools: {own: {file: gone.txt}}", "gone.txt: No such file or directory"),
        (f"pools: {{'a {SECRET[:2]} b': {{list: ['http://h:1']}}}}", "String should match pattern"),
    ],
)
def test_a_file_that_is_wrong_is_refused_with_the_place_and_no_secret(file: Path, text: str, problem: str) -> None:
    file.write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as caught:
        ProxyPools(file)
    assert problem in str(caught.value)
    assert str(file.parent) in str(caught.value)
    assert SECRET not in f"{caught.value} {caught.value.__cause__}"


def test_a_file_that_is_not_there_is_an_error_at_once(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cannot read .*gone\.yaml: No such file"):
        ProxyPools(tmp_path / "gone.yaml")


@pytest.mark.parametrize("changed", ["pools.yaml", "proxies.txt"])
def test_a_change_is_noticed(file: Path, changed: str) -> None:
    pools = ProxyPools(file, look_every_s=0)
    before = pools.get("own")
    assert pools.get("own") is before
    text = (file.parent / changed).read_text(encoding="utf-8")
    write(file.parent / changed, text.replace("parallel: 2", "parallel: 3").replace("10.0.0.8", "10.0.0.9"), 10**18)
    assert pools.get("own") != before


def test_a_file_that_becomes_wrong_changes_nothing_and_is_told_of_once(file: Path) -> None:
    pools = ProxyPools(file, look_every_s=0)
    write(file, f"pools: {{own: {SECRET}}}", 10**18)
    with structlog.testing.capture_logs() as logs:
        assert sorted(pools.all()) == ["own", "residential"]
        assert sorted(pools.all()) == ["own", "residential"]
    assert [entry["event"] for entry in logs] == ["proxy_pools_unreadable"]
    assert SECRET not in str(logs)
    write(file, "pools: {new: {list: ['http://h:1']}}", 10**18 + 1)
    assert sorted(pools.all()) == ["new"]


def test_a_process_has_one_view_of_a_file(file: Path) -> None:
    assert pools_of(file) is pools_of(file)
    assert pools_of(None).all() == {}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "has no proxies in it"),
        ("# only\n", "has no proxies in it"),
        (f"http://h:1\n\nu:{SECRET}@h:1\nhttp://h:2\nftp://{SECRET}", "proxies.txt, line 3: this is not a proxy"),
        (f"http://u:{SECRET}@h:77777", "proxies.txt, line 1: this is not a proxy: a port is between 1 and 65535"),
    ],
)
def test_a_list_that_is_wrong_is_refused_by_its_lines(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "proxies.txt"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as caught:
        read_proxy_file(path)
    assert problem in str(caught.value)
    assert SECRET not in str(caught.value)


def test_a_pool_without_a_file_stays_as_it_is(tmp_path: Path) -> None:
    pool = ProxyPool(list=("http://h:1",))
    assert with_list(pool, tmp_path) is pool


def test_what_is_listed_has_no_secrets(file: Path) -> None:
    rows: list[dict[str, Any]] = [proxy_record(row, ProxyState(row.name)) for row in listed(ProxyPools(file).all())]
    assert [(row["pool"], row["proxy"]) for row in rows] == [
        ("own", "http://***@10.0.0.7:3128"),
        ("own", "socks5h://10.0.0.8:1080"),
        ("residential", "http://***@gate.example:8000"),
    ]
    assert SECRET not in str(rows)
