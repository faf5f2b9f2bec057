"""Lines out of blocks, wherever the blocks end."""

from __future__ import annotations

import io
from collections.abc import Iterator

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from shoal.api.urllist import BLOCK_BYTES, MAX_LINE_BYTES, TEXT, read_lines
from shoal.intake.lines import Line


def lines(data: bytes, kind: str = TEXT, at_once: int = BLOCK_BYTES) -> list[Line]:
    stream = io.BytesIO(data)
    return list(read_lines(lambda size: stream.read(min(size, at_once)), kind))


@settings(max_examples=300, deadline=None, database=None)
@given(data=st.binary(max_size=300), at_once=st.integers(1, 20), kind=st.sampled_from([TEXT, "ndjson"]))
@example(data=b"\xef\xbb\xbfhttp://a/\r\n\n# x\nhttp://b/", at_once=1, kind=TEXT)
@example(data=b'"a"\n{"url":"b"}\n{"url":1}\n', at_once=3, kind="ndjson")
def test_where_the_blocks_end_makes_no_difference(data: bytes, at_once: int, kind: str) -> None:
    assert lines(data, kind, at_once) == lines(data, kind)


@settings(max_examples=300, deadline=None, database=None)
@given(data=st.binary(max_size=300), kind=st.sampled_from([TEXT, "ndjson"]))
def test_every_line_is_a_url_or_has_a_reason_why_not(data: bytes, kind: str) -> None:
    found = lines(data, kind)
    assert all(bool(url) != bool(problem) or url == "" for _, url, problem in found)
    numbers = [number for number, _, _ in found]
    assert numbers == sorted(set(numbers))
    assert all(1 <= number <= data.count(b"\n") + 1 for number in numbers)


def test_numbers_count_every_line_also_those_that_are_skipped() -> None:
    assert lines(b"\n# x\n\na\n\nb") == [(4, "a", ""), (6, "b", "")]


@pytest.mark.parametrize("ending", [b"\n", b"\r\n"])
def test_the_last_line_needs_no_end(ending: bytes) -> None:
    assert lines(b"a" + ending + b"b") == lines(b"a" + ending + b"b" + ending) == [(1, "a", ""), (2, "b", "")]


def test_a_mark_counts_only_at_the_beginning() -> None:
    assert lines("\ufeffa\n\ufeffb".encode()) == [(1, "a", ""), (2, "\ufeffb", "")]


def test_a_comment_is_none_in_json() -> None:
    ((number, url, problem),) = lines(b"# x", "ndjson")
    assert (number, url) == (1, None)
    assert problem.startswith("not JSON")


@pytest.mark.parametrize("at_once", [1_000, BLOCK_BYTES])
@pytest.mark.parametrize("length", [MAX_LINE_BYTES, MAX_LINE_BYTES + 1, 5 * MAX_LINE_BYTES])
def test_too_long_a_line_is_one_line_however_it_comes(length: int, at_once: int) -> None:
    found = lines(b"a\n" + b"x" * length + b"\nb", at_once=at_once)
    assert [number for number, _, _ in found] == [1, 2, 3]
    assert (found[1][1] is None) == (length > MAX_LINE_BYTES)
    assert found[2] == (3, "b", "")


def test_a_line_without_end_does_not_fill_the_memory() -> None:
    left = 200

    def endless(size: int) -> bytes:
        nonlocal left
        left -= 1
        return b"x" * size if left > 0 else b""

    ((number, url, problem),) = read_lines(endless, TEXT)
    assert (number, url) == (1, None)
    assert str(MAX_LINE_BYTES) in problem


def test_lines_are_given_out_before_the_stream_ends() -> None:
    def blocks() -> Iterator[bytes]:
        yield b"a\nb\n"
        raise AssertionError("read too far")

    given_out = blocks()
    found = read_lines(lambda _: next(given_out), TEXT)
    assert [next(found), next(found)] == [(1, "a", ""), (2, "b", "")]
