"""An answer as it came on the wire, and what can be read from it."""

from __future__ import annotations

import gzip
from datetime import timedelta

import brotli
import pytest

from shoal.core.url import parse
from shoal.errors import FetchError
from shoal.fetch.port import Response

PACKED_TWICE: bytes = brotli.compress(gzip.compress(b"hello"))


def answer(*headers: tuple[bytes, bytes], body: bytes = b"") -> Response:
    return Response(parse("http://a/"), 200, "OK", headers, body, timedelta(seconds=1))


def test_a_header_is_found_whatever_its_case_and_the_first_counts() -> None:
    response = answer((b"X-One", b"1"), (b"x-one", b"2"), (b"LOCATION", b"/caf\xe9"))
    assert (response.header("x-ONE"), response.header("Location"), response.header("x")) == ("1", "/café", None)


@pytest.mark.parametrize(
    ("written", "media_type"),
    [
        (b"text/html", "text/html"),
        (b" Text/HTML ; charset=utf-8", "text/html"),
        (b"text/html;", "text/html"),
        (b";charset=utf-8", ""),
        (b"", ""),
    ],
)
def test_the_media_type_stands_before_the_parameters(written: bytes, media_type: str) -> None:
    assert answer((b"Content-Type", written)).media_type == media_type


def test_an_answer_without_a_type_has_an_empty_one() -> None:
    assert (answer().content_type, answer().media_type) == ("", "")


def test_the_body_is_unpacked_as_its_header_says() -> None:
    packed = gzip.compress(b"hello")
    assert answer(body=packed).unpacked(100) == packed
    assert answer((b"content-encoding", b"gzip"), body=packed).unpacked(100) == b"hello"
    with pytest.raises(FetchError, match=r"^too_large"):
        answer((b"content-encoding", b"gzip"), body=packed).unpacked(4)


def test_several_lines_of_a_header_are_one_list() -> None:
    response = answer((b"Content-Encoding", b"gzip"), (b"Content-Encoding", b"br"), body=PACKED_TWICE)
    assert response.unpacked(100) == b"hello"


def test_the_charset_comes_from_header_or_body() -> None:
    assert answer((b"Content-Type", b"text/html; charset=koi8-r")).charset(b"") == "koi8-r"
    assert answer((b"Content-Type", b"text/html")).charset(b"<meta charset=koi8-r>") == "koi8-r"
