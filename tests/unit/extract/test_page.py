"""What a parsed page gives: its links as written, its base, and the values of fields."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.core.rules import read_rules
from shoal.core.url import Base
from shoal.extract.allowance import MAX_ITEM_CHARS, MAX_VALUE_CHARS, MAX_VALUES
from shoal.extract.page import (
    MAX_HREF_CHARS,
    MAX_HREFS_CHARS,
    MAX_LINKS,
    MAX_META_CHARS,
    MAX_METAS,
    META_NAMES,
    Html,
)
from shoal.extract.takers import fields_of
from shoal.fetch.decode import find_charset

PAGE = "http://h.example/a/b?q"


def read(markup: str | bytes, content_type: str = "text/html") -> Html:
    body = markup.encode() if isinstance(markup, str) else markup
    return Html.parse(body, find_charset(content_type, body), Base(PAGE))


def values_of(html: Html, fields: dict[str, str]) -> dict[str, Any]:
    """Whether or not they make an item."""
    return {field.name: field.take(html.tree.root, html) for field in fields_of(read_rules(fields).fields)}


def take(markup: str | bytes, content_type: str = "text/html", **fields: str) -> dict[str, Any]:
    return values_of(read(markup, content_type), fields)


@pytest.mark.parametrize(
    ("markup", "hrefs"),
    [
        ("<a href=x>1</a><area href=y><a href='/z'>", ["x", "y", "/z"]),
        ("<a href=x><a href=y><a href=x>", ["x", "y"]),
        ("<A HREF='x'>", ["x"]),
        ("<a href='?a=1&amp;b=2'>", ["?a=1&b=2"]),
        ("<a href='&#9;x'><a href=' x '>", ["\tx", " x "]),
        ("<a href>1</a><a href=''>2</a><a name=x>3</a>", []),
        ("<a href='#top'><a href='javascript:void(0)'>", ["#top", "javascript:void(0)"]),
        ("<a href='/日本'>", ["/日本"]),
        ("<p>a < b <a href=x", []),
        ("<a href=x", []),
        ("<!-- <a href=x> --><script>'<a href=y>'</script><template><a href=z></template>", []),
        ("<svg><a href=x></a></svg><noscript><a href=y></noscript>", ["x", "y"]),
        ("<link rel=stylesheet href=x><img src=y><form action=z>", []),
        ("", []),
    ],
)
def test_links_are_given_as_written_each_once(markup: str, hrefs: list[str]) -> None:
    assert read(markup).hrefs() == hrefs


def test_nofollow_links_are_left_out_only_when_asked() -> None:
    html = read("<a href=a rel=nofollow><a href=b rel='me NoFollow'><a href=c rel=nofollowing><a href=d rel>")
    assert html.hrefs() == ["a", "b", "c", "d"]
    assert html.hrefs(skip_nofollow=True) == ["c", "d"]


def test_a_link_that_is_followed_elsewhere_on_the_page_stays() -> None:
    assert read("<a href=a rel=nofollow><a href=a>").hrefs(skip_nofollow=True) == ["a"]


def test_a_page_with_too_many_links_gives_the_first() -> None:
    markup = "".join(f"<a href={number}>" for number in range(MAX_LINKS + 10))
    hrefs = read(markup).hrefs()
    assert (len(hrefs), hrefs[-1]) == (MAX_LINKS, str(MAX_LINKS - 1))


def cut(markup: str, **fields: str) -> tuple[Html, dict[str, Any]]:
    html = read(markup)
    return html, values_of(html, fields)


def test_what_is_left_out_is_named() -> None:
    html = read("<a href=x>" * 10)
    html.hrefs()
    assert list(html.cut) == []
    html = read("<a href=x>" * (MAX_LINKS + 1))
    assert (html.hrefs(), list(html.cut)) == (["x"], ["links"])


def test_links_that_are_too_long_are_left_out() -> None:
    html = read(f"<a href=x><a href={'y' * MAX_HREF_CHARS}><a href={'y' * (MAX_HREF_CHARS + 1)}><a href=z>")
    assert html.hrefs() == ["x", "y" * MAX_HREF_CHARS, "z"]
    assert list(html.cut) == ["links"]
    assert read(f"<link rel=canonical href={'y' * (MAX_HREF_CHARS + 1)}>").canonical == ""
    assert read(f"<base href={'y' * (MAX_HREF_CHARS + 1)}>").base_href == ""


def test_all_links_together_have_a_length_too() -> None:
    html = read("".join(f"<a href={number:06d}{'y' * 7_000}>" for number in range(MAX_HREFS_CHARS // 7_006 + 5)))
    assert len(html.hrefs()) == MAX_HREFS_CHARS // 7_006
    assert list(html.cut) == ["links"]


def test_what_a_page_says_to_robots_has_an_end() -> None:
    html = read(f"<meta name=robots content={'x' * 5_000}>" * (MAX_METAS + 1))
    assert [len(text) for text in html.metas(META_NAMES)] == [MAX_META_CHARS] * MAX_METAS
    assert list(html.cut) == ["metas"]


def test_a_value_that_is_too_long_is_cut() -> None:
    html, values = cut(f"<p>{'x' * (MAX_VALUE_CHARS + 1)}<i>{'y' * MAX_VALUE_CHARS}", p="p", i="i", q="q")
    assert values == {"p": "x" * MAX_VALUE_CHARS, "i": "y" * MAX_VALUE_CHARS, "q": None}
    assert list(html.cut) == ["values"]


def test_a_list_has_an_end() -> None:
    html, values = cut("<li>x" * (MAX_VALUES + 1), **{"all[]": "li"})
    assert (values["all"], list(html.cut)) == (["x"] * MAX_VALUES, ["values"])
    html, values = cut("<li>x" * MAX_VALUES, **{"all[]": "li"})
    assert (values["all"], list(html.cut)) == (["x"] * MAX_VALUES, [])


def test_an_item_has_an_end() -> None:
    text = "x" * (MAX_VALUE_CHARS - 1)
    html, values = cut(f"<li>{text}" * 20, **{"all[]": "li", "more": "li"})
    assert (values["all"], values["more"]) == ([text] * (MAX_ITEM_CHARS // len(text)), None)
    assert list(html.cut) == ["values"]


@pytest.mark.parametrize(
    ("markup", "canonical"),
    [
        ("<link rel=canonical href='/c'>", "/c"),
        ("<LINK REL='CANONICAL' HREF='/c'>", "/c"),
        ("<link rel='Canonical' href='/c'>", "/c"),
        ("<link rel='alternate canonical' href='/c'>", "/c"),
        ("<link rel=canonical><link rel=canonical href='/c'>", "/c"),
        ("<link rel=canonicals href='/c'>", None),
        ("<head><script>'<body>'</script><link rel=canonical href='/c'>", "/c"),
        ("<p>canonical</p>", None),
        ("<link rel=next href='/c'>", None),
    ],
)
def test_the_canonical_address_is_a_link_too(markup: str, canonical: str | None) -> None:
    html = read(markup)
    assert html.canonical == (canonical or "")
    assert html.hrefs() == ([canonical] if canonical else [])


@pytest.mark.parametrize(
    ("markup", "joined"),
    [
        ("<base href='/z/'>", "http://h.example/z/x"),
        ("<BASE HREF='/z/'>", "http://h.example/z/x"),
        ("<Base href='/z/'>", "http://h.example/z/x"),
        ("<base href='//o.example/'>", "http://o.example/x"),
        ("<base target=_top><base href='/z/'><base href='/y/'>", "http://h.example/z/x"),
        ("<head><!-- <body> --><base href='/z/'></head><body>", "http://h.example/z/x"),
        ("<head></head><body><p><base href='/z/'>", "http://h.example/z/x"),
    ],
)
def test_a_base_moves_all_links(markup: str, joined: str) -> None:
    html = read(markup)
    assert (str(html.base.join("x")), bool(html.base_href)) == (joined, True)


@pytest.mark.parametrize(
    "markup",
    [
        "<p>nothing",
        "<base target=_top>",
        "<base href=''>",
        "<!-- <base href='/z/'> -->",
        "<p>&lt;base href='/z/'>",
        "<basefont href='/z/'>",
    ],
)
def test_without_a_base_links_start_at_the_page(markup: str) -> None:
    html = read(markup)
    assert (str(html.base.join("x")), bool(html.base_href)) == ("http://h.example/a/x", False)


@pytest.mark.parametrize("href", ["http://[", "javascript:void(0)"])
def test_an_unusable_base_leaves_the_links_at_the_page(href: str) -> None:
    assert str(read(f"<base href='{href}'>").base.join("x")) == "http://h.example/a/x"


def test_a_base_is_found_in_utf_16() -> None:
    html = read("<base href='/z/'><link rel=canonical href=c><a href=x>".encode("utf-16"))
    assert (str(html.base.join("x")), html.hrefs()) == ("http://h.example/z/x", ["x", "c"])


def test_values_are_text_with_its_spaces_put_in_order() -> None:
    markup = "<h1>\n  The <b>old</b>\t&amp;&nbsp;new  </h1><h1>second</h1>"
    assert take(markup, title="h1", missing="h2") == {"title": "The old & new", "missing": None}


def test_a_list_holds_every_match_and_a_missing_one_is_empty() -> None:
    values = values_of(read("<li>1</li><li> </li><li>2"), {"all[]": "li", "none[]": "dt"})
    assert values == {"all": ["1", "", "2"], "none": []}


def test_attributes_are_taken_as_they_are() -> None:
    markup = "<p class=' x  y ' data-id=7 hidden>a</p><p>b</p>"
    fields = {"c": "p@class", "d": "p@DATA-ID", "h": "p@hidden", "n": "p@id", "all[]": "p@class"}
    values = values_of(read(markup), fields)
    assert values == {"c": " x  y ", "d": "7", "h": None, "n": None, "all": [" x  y "]}


@pytest.mark.parametrize(
    ("markup", "field", "value"),
    [
        ("<a href='c?x'>", "a@href", "http://h.example/a/c?x"),
        ("<base href='/z/'><img src='i.png'>", "img@src", "http://h.example/z/i.png"),
        ("<img src=' i.png '>", "img@src", "http://h.example/a/i.png"),
        ("<form action=''>", "form@action", PAGE),
        ("<video poster='//o.example/p'>", "video@poster", "http://o.example/p"),
        ("<a href='mailto:x@y'>", "a@href", "mailto:x@y"),
        ("<img src='data:,x'>", "img@src", "data:,x"),
        ("<img srcset='i.png 1x'>", "img@srcset", "i.png 1x"),
        ("<p title='c'>", "p@title", "c"),
    ],
)
def test_addresses_are_made_absolute_where_they_can_be(markup: str, field: str, value: str) -> None:
    assert take(markup, value=field) == {"value": value}


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        ("<h1>Übergröße – 表紙</h1>".encode(), "text/html"),
        ("<h1>Übergröße – 表紙</h1>".encode(), "text/html; charset=UTF-8"),
        ("<h1>Übergröße – 表紙</h1>".encode("utf-16"), "text/html"),
        ("<h1>Übergröße – 表紙</h1>".encode("utf-16-be"), "text/html; charset=utf-16be"),
        ("<h1>Übergröße – 表紙</h1>".encode("gb18030"), "text/html; charset=gb2312"),
        ("<meta charset=gb18030><h1>Übergröße – 表紙</h1>".encode("gb18030"), "text/html"),
    ],
)
def test_values_are_decoded(body: bytes, content_type: str) -> None:
    assert take(body, content_type, title="h1") == {"title": "Übergröße – 表紙"}


def test_a_byte_order_mark_is_no_part_of_the_page() -> None:
    markup = "\ufeff<!doctype html><title>T</title><p>x"
    assert take(markup, title="head > title", all="body") == {"title": "T", "all": "x"}
    assert take("\ufeffplain", all="body") == {"all": "plain"}


def test_bytes_that_are_not_what_the_header_says_become_question_marks() -> None:
    body = b"<h1 title='\xe9'>caf\xe9</h1><a href='/\xff'>"
    content_type = "text/html; charset=utf-8"
    assert take(body, content_type, text="h1", title="h1@title") == {"text": "caf\ufffd", "title": "\ufffd"}
    assert read(body, content_type).hrefs() == ["/\ufffd"]


@pytest.mark.parametrize("charset", ["base64", "hex", "rot13", "undefined", "idna", "punycode", "zlib"])
def test_no_charset_that_a_server_names_breaks_the_page(charset: str) -> None:
    assert take(b"<h1>x\xe9</h1>", f"text/html; charset={charset}", title="h1") == {"title": "xé"}


@pytest.mark.parametrize("body", [b"\x00", b"\xff" * 100, b"<" * 5000, b"<a " * 2000, b"<div>" * 3000, b"&#x110000;"])
def test_nonsense_is_a_page_without_links(body: bytes) -> None:
    assert read(body).hrefs() == []
