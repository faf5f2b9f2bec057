"""Bad input: one clear message, an exit code that is not 0, and nothing left behind."""

from __future__ import annotations

import subprocess
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.command import Done, Shoal
from tests.conftest import lack

URL = "http://127.0.0.1:9/"


def _refused(done: Done, *words: str) -> None:
    assert done.code == 2, (done.code, done.err)
    assert done.out == ""
    assert "Traceback" not in done.err
    for word in words:
        assert word in done.err


@pytest.fixture(autouse=True)
def _nothing_starts(shoal: Shoal) -> Generator[None]:
    yield
    assert not shoal.processes()
    assert not (shoal.home / "shoal.db").exists()


def test_a_malformed_url(shoal: Shoal) -> None:
    _refused(shoal.run("crawl", "http://exa mple.com/"), "not a valid URL", "exa mple.com")


def test_a_url_without_a_scheme_gets_a_suggestion(shoal: Shoal) -> None:
    _refused(shoal.run("crawl", "example.com/books"), "did you mean 'https://example.com/books'")


def test_a_url_of_another_scheme(shoal: Shoal) -> None:
    _refused(shoal.run("scrape", "ftp://example.com/x"), "only http and https", "ftp")


def test_a_password_in_a_url_is_refused_and_not_repeated(shoal: Shoal) -> None:
    done = shoal.run("scrape", "http://joe:secret@example.com/x")
    _refused(done, "user name or password")
    assert "secret" not in done.err


def test_a_malformed_url_in_a_list_is_named_by_its_line(shoal: Shoal, tmp_path: Path) -> None:
    listed = tmp_path / "urls.txt"
    listed.write_text(f"{URL}\n\nhttp://[::1/\n{URL}a\nnonsense\n")
    _refused(shoal.run("scrape", "-f", str(listed)), "2 of 4", "urls.txt, line 3", "urls.txt, line 5")


def test_all_that_is_wrong_with_a_list_is_named_at_once_by_its_lines(shoal: Shoal, tmp_path: Path) -> None:
    listed = tmp_path / "urls.txt"
    listed.write_text(f"{URL}\n# inside\nhttp://10.0.0.1/\nnonsense\nhttp://169.254.169.254/x\n")
    done = shoal.run("scrape", "http://192.168.0.1/", "-f", str(listed))
    _refused(done, "4 of 5 URLs cannot be used", "  - 192.168.0.1 is not on the internet")
    _refused(done, "urls.txt, line 3: 10.0.0.1 is", "urls.txt, line 4: not an", "urls.txt, line 5: 169.254.169.254 is")


def test_the_urls_of_a_job_file_are_named_by_their_lines(shoal: Shoal, tmp_path: Path) -> None:
    job = tmp_path / "job.yaml"
    job.write_text(f"urls:\n  - {URL}\n  - nonsense\n  - http://10.0.0.1/\n")
    done = shoal.run("crawl", "-j", str(job))
    _refused(done, "2 of 3 URLs", "job.yaml, line 3: not an absolute URL", "job.yaml, line 4: 10.0.0.1 is not")
    _refused(shoal.run("crawl", "-j", str(job), "nonsense"), "this URL cannot be used:\n  - not an absolute URL")


def test_this_machine_through_a_proxy_is_refused_with_the_way_out(shoal: Shoal) -> None:
    closed = replace(shoal, extra=(*shoal.extra, ("SHOAL_EGRESS_ALLOW", "")))
    done = closed.run("crawl", URL, "--proxy", "http://127.0.0.1:9")
    _refused(done, "127.0.0.1 is this machine, which is not asked through a proxy", "leave the proxy out")


def test_a_port_in_the_list_of_what_may_be_asked(shoal: Shoal) -> None:
    done = replace(shoal, extra=(("SHOAL_EGRESS_ALLOW", "127.0.0.1:8080"),)).run("jobs")
    _refused(done, "SHOAL_EGRESS_ALLOW: '127.0.0.1:8080' has a port in it", "write 127.0.0.1")


def test_an_empty_list(shoal: Shoal, tmp_path: Path) -> None:
    listed = tmp_path / "urls.txt"
    listed.write_text("\n# nothing\n")
    _refused(shoal.run("scrape", "-f", str(listed)), "urls.txt has no URLs in it")


def test_a_list_that_is_not_there(shoal: Shoal) -> None:
    _refused(shoal.run("scrape", "-f", "missing.txt"), "cannot read missing.txt", "No such file")


def test_no_urls_at_all(shoal: Shoal) -> None:
    _refused(shoal.run("crawl"), "no URLs given")


def test_an_unknown_host(shoal: Shoal) -> None:
    _refused(shoal.run("crawl", "http://no-such-host.invalid/"), "no such host", "no-such-host.invalid")


def test_a_typo_in_a_job_file_is_explained_with_all_other_faults(shoal: Shoal, tmp_path: Path) -> None:
    job = tmp_path / "job.yaml"
    job.write_text(f"urls: ['{URL}']\nfeilds: {{title: h1}}\npages: many\nallow: ['[']\n")
    done = shoal.run("crawl", "-j", str(job))
    _refused(done, "job.yaml is not valid", "did you mean 'fields'", "pages:", "not a regular expression")


def test_a_job_file_that_is_not_yaml(shoal: Shoal, tmp_path: Path) -> None:
    job = tmp_path / "job.yaml"
    job.write_text("urls: [unclosed\npages: 3\n")
    _refused(shoal.run("crawl", "-j", str(job)), "job.yaml, line", "not valid YAML")


def test_a_selector_that_does_not_parse(shoal: Shoal) -> None:
    _refused(shoal.run("crawl", URL, "--field", "title=h1["), "fields.title", "not a CSS selector")


def test_a_field_without_a_selector(shoal: Shoal) -> None:
    _refused(shoal.run("crawl", URL, "--field", "title"), "NAME=SELECTOR")


def test_a_rate_that_is_none(shoal: Shoal) -> None:
    _refused(shoal.run("crawl", URL, "--rate", "fast"), "rate")


@pytest.mark.parametrize(("flag", "value"), [("bytes", "lots"), ("seconds", "soon"), ("weight", "0")])
def test_a_budget_or_a_weight_that_is_none(shoal: Shoal, flag: str, value: str) -> None:
    _refused(shoal.run("crawl", URL, f"--{flag}", value), f"{flag}:")


def test_a_file_of_proxy_pools_that_is_none(shoal: Shoal, tmp_path: Path) -> None:
    pools = tmp_path / "pools.yaml"
    pools.write_text("pools: {own: {list: ['ftp://joe:secret@127.0.0.1:9']}}", encoding="utf-8")
    named = Shoal(shoal.home, (("SHOAL_PROXIES_FILE", str(pools)),))
    for args in (["crawl", URL, "--proxies", "own"], ["scrape", URL, "--detach"], ["resume", "k3x9"]):
        done = named.run(*args)
        _refused(done, f"{pools} is not valid", "pools.own")
        assert "secret" not in done.err


def test_a_proxy_pool_that_is_not_there(shoal: Shoal, tmp_path: Path) -> None:
    _refused(shoal.run("crawl", URL, "--proxies", "own"), "there is no proxy pool 'own'", "SHOAL_PROXIES_FILE")
    pools = tmp_path / "pools.yaml"
    named = Shoal(shoal.home, (("SHOAL_PROXIES_FILE", str(pools)),))
    _refused(named.run("scrape", URL, "--proxies", "own", "--detach"), f"cannot read {pools}", "No such file")
    pools.write_text("pools: {}", encoding="utf-8")
    _refused(named.run("scrape", URL, "--proxies", "own", "--detach"), "there is no proxy pool 'own'")


def test_an_unknown_format(shoal: Shoal) -> None:
    _refused(shoal.run("crawl", URL, "-o", "x.json", "--format", "xml"), "jsonl, csv, parquet and sqlite")


def test_a_redis_that_is_down(shoal: Shoal) -> None:
    down = Shoal(shoal.home, (("SHOAL_REDIS_URL", "redis://:hidden@127.0.0.1:9"),))
    done = down.run("crawl", URL)
    assert done.code == 1
    assert "cannot reach Redis at redis://***@127.0.0.1:9" in done.err
    assert "SHOAL_REDIS_URL" in done.err
    assert "hidden" not in done.err


def test_a_redis_url_that_is_none(shoal: Shoal) -> None:
    _refused(Shoal(shoal.home, (("SHOAL_REDIS_URL", "localhost:6379"),)).run("jobs"), "is not a Redis URL")


def test_an_unknown_queue(shoal: Shoal) -> None:
    _refused(shoal.run("worker", "--queues", "http.fast"), "--queues: unknown queue http.fast", "http.high")


@pytest.fixture
def full_disk(tmp_path: Path) -> Generator[Path]:
    """A file system of 64 KB."""
    folder = tmp_path / "full"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        lack("a small file system can only be mounted by root")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_at_the_start(full_disk: Path) -> None:
    done = Shoal(full_disk / "home").run("crawl", URL)
    assert done.code == 1
    assert "cannot write to" in done.err
    assert "No space left" in done.err
    assert "SHOAL_HOME" in done.err
    assert not Shoal(full_disk / "home").processes()


def test_a_home_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = Shoal(tmp_path / "file" / "home").run("jobs")
    assert done.code == 1
    assert "cannot write to" in done.err


def test_an_output_that_cannot_be_written(shoal: Shoal) -> None:
    _refused(shoal.run("crawl", URL, "-o", "/no/such/folder/x.jsonl"), "cannot write /no/such/folder/x.jsonl")


def test_an_output_that_is_a_folder(shoal: Shoal, tmp_path: Path) -> None:
    _refused(shoal.run("crawl", URL, "-o", str(tmp_path)), "cannot write", "it is a folder")


def test_a_log_level_that_is_none(shoal: Shoal) -> None:
    _refused(shoal.run("worker", "--log-level", "loud"), "--log-level 'loud'", "warning")


def test_a_bad_header_does_not_repeat_the_secret_ones(shoal: Shoal) -> None:
    done = shoal.run("crawl", URL, "--header", "Authorization: hidden", "--header", "bad name: x")
    _refused(done, "the name of header 2")
    assert "hidden" not in done.err
