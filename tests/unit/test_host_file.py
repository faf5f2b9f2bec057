"""The file of hosts: what it may say, and how what is wrong with it is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from shoal.errors import InputError
from shoal.host_file import HostFile, read_host_file
from shoal.store.host_limits import HostLimit


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "hosts.yaml"


def _limits(file: Path, text: str) -> list[HostLimit]:
    file.write_text(text, encoding="utf-8")
    return list(read_host_file(file).values())


@pytest.mark.parametrize("text", ["", "# nothing yet\n", "hosts:\n", "hosts: {}\n"])
def test_a_file_may_say_nothing(file: Path, text: str) -> None:
    assert _limits(file, text) == []


def test_everything_that_can_be_said_of_a_host_is_read(file: Path) -> None:
    text = """
hosts:
  SHOP.example:80: {rate: 30/m, parallel: 1, note: agreed by mail}
  "[::1]:8080": {rate: unlimited, parallel: unlimited}
  bücher.example: {rate: 2}
  "@example.org": {paused: true, rate: null}
"""
    limits = _limits(file, text)
    at = file.stat().st_mtime_ns // 1_000_000
    assert limits == [
        HostLimit("shop.example", 0.5, 1, False, "agreed by mail", at),
        HostLimit("[::1]:8080", 0.0, 0, set_ms=at),
        HostLimit("xn--bcher-kva.example", 2.0, set_ms=at),
        HostLimit("@example.org", paused=True, set_ms=at),
    ]


def test_entries_may_share_what_they_say(file: Path) -> None:
    text = "hosts:\n  a.example: &slow {rate: 1, parallel: 1}\n  b.example: {<<: *slow, rate: 2}\n"
    assert [(each.host, each.rate, each.parallel) for each in _limits(file, text)] == [
        ("a.example", 1.0, 1),
        ("b.example", 2.0, 1),
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("hosts: [", "line 1, column 9: not valid YAML"),
        ("- a", "a mapping with the one key `hosts`"),
        ("host: {}", "host: there is no such setting"),
        ("hosts: [a.example]", "hosts: a mapping of host to limits"),
        ("hosts: {127.1: {rate: 1}}", "hosts.127.1: a host is text; put it in quotes"),
        ("hosts: {a b: {rate: 1}}", "hosts.a b: 'a b' is not a host"),
        ("hosts: {'@1.2': {rate: 1}}", "hosts.@1.2: '1.2' is not a host"),
        ("hosts: {a.example: 4}", "hosts.a.example: a mapping such as"),
        ("hosts: {a.example: {rate: fast}}", "hosts.a.example.rate: write requests a second"),
        ("hosts: {a.example: {parallel: 0}}", "hosts.a.example.parallel:"),
        ("hosts: {a.example: {paused: 1}}", "hosts.a.example.paused:"),
        ("hosts: {a.example: {raet: 1}}", "hosts.a.example.raet: there is no such setting; did you mean 'rate'?"),
        (
            "hosts:\n  a.example: {rate: 1}\n  b.example: {rate: 1}\n  a.example: {rate: 2}\n",
            "hosts.a.example: it is there twice, in line 2 and in line 4",
        ),
        (
            "hosts:\n  a.example: {rate: 1}\n  A.example:80: {rate: 2}\n",
            "hosts.A.example:80: it is there twice, in line 2 and in line 3",
        ),
        ("hosts:\n  a.example:\n    rate: 1\n    rate: 2\n", "hosts.a.example.rate: it is there twice, in line 3"),
        ("hosts: {a.example: {rate: 1}}\nhosts: {}\n", "hosts: it is there twice, in line 1 and in line 2"),
        ("hosts: {a.example: {note: " + "x" * 501 + "}}", "hosts.a.example.note:"),
    ],
)
def test_what_is_wrong_is_named_with_its_file_and_place(file: Path, text: str, words: str) -> None:
    with pytest.raises(InputError) as error:
        _limits(file, text)
    assert words in str(error.value)
    assert str(file) in str(error.value)


def test_all_that_is_wrong_is_named_at_once_within_reason(file: Path) -> None:
    entries = ", ".join(f"h{n}.example: {{rate: fast}}" for n in range(15))
    with pytest.raises(InputError, match=r"h0\.example[\s\S]*h9\.example[\s\S]*… and 5 more"):
        _limits(file, f"hosts: {{{entries}}}")


def test_a_file_that_cannot_be_read_is_an_error_at_the_start(file: Path) -> None:
    with pytest.raises(InputError, match=r"cannot read .*hosts\.yaml"):
        HostFile(file).check()
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="cannot read"):
        HostFile(file).check()
    HostFile(None).check()
