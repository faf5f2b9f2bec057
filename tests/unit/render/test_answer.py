"""The head of an answer, and what it makes of the page."""

from __future__ import annotations

from datetime import timedelta

import pytest

from shoal.core.url import parse
from shoal.render.answer import Answer, read_headers


def answer(*headers: tuple[bytes, bytes], status: int = 200) -> Answer:
    return Answer(status, "", headers, timedelta(seconds=1))


@pytest.mark.parametrize(
    ("content_type", "is_document"),
    [(b"Text/HTML; charset=x", True), (b"application/xhtml+xml", True), (b"", True), (b"application/json", False)],
)
def test_documents_are_told_by_their_type(content_type: bytes, is_document: bool) -> None:
    assert answer((b"Content-Type", content_type)).is_document is is_document


def test_redirects_downloads_and_empty_answers_are_no_pages() -> None:
    assert answer(status=308).is_redirect
    assert not answer(status=304).is_document
    assert answer((b"content-disposition", b"Attachment; filename=x")).is_attachment
    assert not answer((b"content-disposition", b"inline")).is_attachment


def test_only_the_length_of_an_unpacked_body_counts() -> None:
    assert answer((b"content-length", b"12")).length == 12
    assert answer((b"content-length", b"12"), (b"content-encoding", b"gzip")).length == 0
    assert answer((b"content-length", "²".encode())).length == 0


def test_a_response_has_no_headers_of_the_wire_and_says_where_the_page_goes() -> None:
    head = answer((b"Content-Encoding", b"br"), (b"X", b"1"), (b"Location", b"/old"), (b"Content-Length", b"5"))
    url = parse("http://shop.example/")
    assert head.response(url, b"body").headers == ((b"X", b"1"), (b"Location", b"/old"))
    assert head.response(url, b"body", "http://a.example/").headers == (
        (b"X", b"1"),
        (b"location", b"http://a.example/"),
    )


def test_headers_that_stand_together_are_taken_apart() -> None:
    assert read_headers([{"name": "Set-Cookie", "value": "a=1\nb=2"}]) == (
        (b"Set-Cookie", b"a=1"),
        (b"Set-Cookie", b"b=2"),
    )
