"""Proxies from flags and job files, and what is said of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from shoal.cli.jobfile import make_spec
from shoal.cli.main import app
from shoal.core.proxies import ProxyPool
from shoal.errors import BadSpec, InputError

SECRET = "pa55word"
A, B = f"http://u:{SECRET}@a.example:1", "socks5h://b.example"
URLS = {"urls": ["http://shop.example/"]}


def job_file(folder: Path, text: str) -> Path:
    path = folder / "job.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def proxies_of(file: Path | None, flags: dict[str, Any], *proxies: str) -> str | ProxyPool | None:
    return make_spec(file, {**URLS, **flags}, (), (), proxies).proxies


def test_flags_name_proxies_or_a_pool() -> None:
    assert proxies_of(None, {}) is None
    assert proxies_of(None, {}, A, B) == ProxyPool(list=(A, B))
    assert proxies_of(None, {"proxies": "residential"}) == "residential"


def test_not_both() -> None:
    with pytest.raises(BadSpec, match="--proxy and --proxies: give proxies of your own, or the name of a pool"):
        proxies_of(None, {"proxies": "residential"}, A)


def test_flags_win_over_the_file_and_keep_how_proxies_are_used(tmp_path: Path) -> None:
    file = job_file(tmp_path, f"proxies: {{template: 'http://{{n}}:{SECRET}@h:1', rotate: host, parallel: 2}}")
    pool = proxies_of(file, {}, A)
    assert pool == ProxyPool.model_validate({"list": [A], "rotate": "host", "parallel": 2})
    assert proxies_of(file, {"proxies": "named"}) == "named"
    assert proxies_of(job_file(tmp_path, "proxies: named"), {}, A) == ProxyPool(list=(A,))


def test_a_file_of_proxies_is_read_when_the_job_is_made(tmp_path: Path) -> None:
    (tmp_path / "proxies.txt").write_text(f"# mine\n{A}\n\n{B}\n", encoding="utf-8")
    pool = proxies_of(job_file(tmp_path, "proxies: {file: proxies.txt, rate: 2}"), {})
    assert pool == ProxyPool.model_validate({"list": [A, B], "rate": 2})


def test_a_file_of_proxies_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cannot read .*gone\.txt: No such file"):
        proxies_of(job_file(tmp_path, "proxies: {file: gone.txt}"), {})


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home, and pools that can be named."""
    (tmp_path / "pools.yaml").write_text(f"pools: {{own: {{list: ['{A}', '{B}']}}}}", encoding="utf-8")
    monkeypatch.setenv("SHOAL_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("SHOAL_PROXIES_FILE", str(tmp_path / "pools.yaml"))
    return tmp_path


def failed(*args: str) -> str:
    """What a command says that cannot go on."""
    result = CliRunner().invoke(app, args)
    assert isinstance(result.exception, InputError)
    assert SECRET not in f"{result.output} {result.exception} {result.exception.__cause__}"
    return str(result.exception)


@pytest.mark.parametrize("command", ["crawl", "scrape"])
def test_a_pool_that_is_not_there_is_refused_before_anything_starts(bare: Path, command: str) -> None:
    said = failed(command, "http://127.0.0.1:9/", "--proxies", "fast")
    assert said == "there is no proxy pool 'fast'; there are own"
    assert not (bare / "home").exists()


def test_a_proxy_that_is_none_is_refused_without_repeating_it(bare: Path) -> None:
    assert "proxies.list: number 1: this is not a proxy" in failed("crawl", "http://h/", "--proxy", f"u:{SECRET}@h:1")


def test_a_file_of_pools_that_is_gone_is_an_error_for_who_needs_it(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOAL_PROXIES_FILE", str(bare / "gone.yaml"))
    assert "gone.yaml: No such file" in failed("crawl", "http://127.0.0.1:9/", "--proxies", "own")
    assert "gone.yaml: No such file" in failed("proxies")


def test_a_pool_to_list_must_be_there(bare: Path) -> None:
    assert failed("proxies", "fast") == "there is no proxy pool 'fast'; there are own"
