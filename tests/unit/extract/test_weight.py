"""Which pages may be read where others wait: seen in their bytes, without reading them."""

from __future__ import annotations

import random
import time
from dataclasses import replace
from encodings.aliases import aliases
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from selectolax.lexbor import LexborHTMLParser

from shoal.core.noise import Noise
from shoal.core.spec import JobSpec
from shoal.extract.findings import Wanted, find, find_light
from shoal.extract.weight import LIGHT_BYTES, LIGHT_NS, LIGHT_TAGS, Weight, is_light, weigh
from shoal.fetch.decode import decode_text, find_charset, shows_markup

ROW = b"<div class='row'><h2><a href='/p/%d'>A product</a></h2><p>Its description, and its price</p></div>\n"
MOST_S = 0.4
"""About 40 ms are meant; machines differ, and may be busy."""
COPIED_ATTRIBUTE_NS = 30
ORDINARY = b"<!doctype html><title>A page</title>" + ROW * 250


def attributes(count: int, start: int = 0, every: int = 0, hidden: bytes = b'x=">"') -> bytes:
    """Names of attributes, with the end of a tag in quotes now and then."""
    names = (b"%x" % (number + 4096) for number in range(start, start + count))
    return b" ".join(name + b" " + hidden if every and at % every == 0 else name for at, name in enumerate(names))


def wanting(fields: dict[str, str], require: str | None = None) -> Wanted:
    return Wanted("http://h.example/", "utf-8", extraction=JobSpec(fields=fields).extraction, require=require)


def is_read(body: bytes, fields: dict[str, str], require: str | None = None) -> bool:
    return find_light(body, wanting(fields, require)) is not None


def test_an_ordinary_page_is_light() -> None:
    assert is_light(ORDINARY)
    assert is_read(ORDINARY, {"title": "h1", "all[]": ".row > h2@id", "one": "div[data-x='a b c'] a, p b"})
    assert is_read(ROW * 100, {"second": "tr:nth-child(2) > td:nth-child(3)", **{f"f{n}[]": "p" for n in range(20)}})
    assert is_light(ORDINARY.replace(b"class='row'", b"data-if='a > b'"))
    assert is_light((ROW * 200).replace(b"Its", b"<i class='icon'></i> <b style='x'>Its</b>"))
    assert is_light(
        ORDINARY.replace(b"href='/p/", b"target=_blank rel=noopener class='a b c' href='/%b/" % (b"p" * 200))
    )
    assert is_light(b"<p>" + b"word " * 40_000)
    assert is_light(b"")


@pytest.mark.parametrize(
    "body",
    [
        b"x" * (LIGHT_BYTES + 1),
        b"<p>text" * (LIGHT_TAGS + 1),
        b"<div>" * 100_000,
        b"<a " + b" ".join(b"a%d" % number for number in range(10_000)) + b">",
        b"<a " + b" ".join(b"a%d='>'" % number for number in range(10_000)) + b">",
        b"<table><tr><td><b>x<table>y" * 10_000,
        b"<a "
        + b"".join(b'a%d x=">" ' % number if number % 100 == 0 else b"a%d " % number for number in range(36_000)),
        b"".join(
            b"<body %s>" % b" ".join(b"a%d" % each for each in range(at, at + 1_000)) for at in range(0, 30_000, 1_000)
        ),
        b"<a " + attributes(6_000, every=500) + b">",
        b"<a " + attributes(6_000, every=50, hidden=b"x = '\">'") + b">",
        b'<!--<a x="--><a y=">" ' + attributes(6_000, every=50) + b">",
        b'<a " y=">" ' + attributes(6_000, every=50) + b">",
        (b"<p " + attributes(800) + b">") * 50,
        b"".join(b"<body %s>" % attributes(100, at) for at in range(0, 6_000, 100)),
        b"".join(b"<%s %s>" % (b"hTmL" if at % 200 else b"BODY", attributes(100, at)) for at in range(0, 6_000, 100)),
        b"".join(b"<b %s z%d>" % (attributes(20), number) for number in range(1_000)),
        b"".join(b"<Strong %s z%d>" % (attributes(5), number) for number in range(2_000)),
        b"<p>" + b"".join(b"<i/a%d>" % number for number in range(1_000)) + b"<p>x" * 1_000,
        b'<b x=">" %s>' % attributes(1_000) + b"<p>x" * 1_500,
        (b"<b " + attributes(60) + b">") * 3 + b"<div>" * 1_500 + b"</b>" * 1_480,
        b"<p><a " + attributes(1_000) + b">" + b"<p>x" * 2_900,
        b"<p><A\n" + attributes(1_000) + b">" + b"<p>x" * 2_900,
        b"<p><a x='>' " + attributes(1_000) + b">" + b"<p>x" * 2_900,
        b"<a " + attributes(4_000) + b">" + b"<div>" * 2_500 + b"</a>" * 480,
        b"<p><a href=" + b"x" * 240_000 + b">" + b"<p>x" * 2_900,
        b"<p><b x=" + b"x" * 60_000 + b">" + b"<p>x" * 2_900,
        b"<p><b x=" + b"x" * 30_000 + b"><i y=" + b"y" * 30_000 + b">" + b"<p>x" * 2_900,
        (b"<b " + attributes(300) + b">") * 3 + b"='>" * 80_000 + b"<p>x" * 1_500,
    ],
    ids=[
        "long",
        "many tags",
        "nested",
        "attributes",
        "attributes that look like tags",
        "tables",
        "attributes with ends in quotes",
        "attributes of many bodies",
        "attributes in a page of middle size",
        "attributes with ends in single quotes",
        "attributes behind quotes in a comment",
        "attributes behind a quote that opens nothing",
        "attributes of many tags",
        "attributes of small bodies",
        "attributes of small bodies in capitals",
        "formatting with attributes",
        "formatting with few attributes",
        "formatting that is made again and again",
        "formatting with an end in quotes",
        "formatting that is adopted again and again",
        "a link that is made again and again",
        "a link in capitals",
        "a link with an end in quotes",
        "a link that is adopted again and again",
        "a long link that is made again",
        "long formatting that is made again",
        "long formatting of two kinds that is made again",
        "more hidden ends than anybody looks through",
    ],
)
def test_what_could_take_long_is_not(body: bytes) -> None:
    assert not is_light(body)


@pytest.mark.parametrize(
    "selector", ["div div div a", "h1 ~ p ~ div a", "div :is(a b, c d) p", "div:has(a b) p", "a b, div   p  a\tb"]
)
def test_a_selector_that_roams_makes_a_page_heavy(selector: str) -> None:
    assert is_read(b"<div>" * 10 + b"<p>x", {"x": selector})
    assert not is_read(b"<div>" * 400, {"x": selector})


def test_no_selector_is_too_long_to_be_weighed() -> None:
    assert not is_read(b"<div>" * 3_000, {"x": "a " * 499 + "b"})


def test_many_selectors_weigh_more_than_one() -> None:
    body = b"<div>" * 1_000
    assert is_read(body, {"x": "p div"})
    assert not is_read(body, {f"x{number}": "p div" for number in range(20)})


@pytest.mark.parametrize(
    "selector",
    [
        "p" + ":nth-last-child(n)" * 10,
        "p" + ":NTH-of-type(2n + 1)" * 10,
        "p:not(p:nth-child(n), :nth-child(2n)):is(:nth-last-child(n), :nth-child(n))",
        "p:nth-child(2) ~ p",
        "p:nth-child(2 of .a)",
        r"p" + r":nt\68 -child(n)" * 3,
    ],
)
def test_counting_siblings_makes_a_page_heavy(selector: str) -> None:
    assert is_read(b"<p>" * 20, {"x": selector})
    assert not is_read(b"<p>" * 1_200, {f"x{number}": selector for number in range(3)})
    assert not is_read(b"<p>" * 1_200, {}, require=f"{selector}, {selector}, {selector}")


def test_texts_within_each_other_make_a_page_heavy() -> None:
    body = b"<div>" * 1_000
    assert is_read(body, {f"x{number}[]": "div@id" for number in range(20)})
    assert is_read(body, {f"x{number}": "div" for number in range(20)})
    assert not is_read(body, {f"x{number}[]": "div" for number in range(20)})


def test_long_selectors_weigh_more_than_short_ones() -> None:
    body = b"<div>" * 2_000
    fields = {f"x{number}": "div" + ":not(.a)" * 100 for number in range(20)}
    assert not is_read(body, fields)


@pytest.mark.parametrize("attribute", [b" %x\xff", b' %x="\xff>"', b" \xc3\xa4%x", b" %x='\xe4'"])
def test_no_byte_hides_attributes(attribute: bytes) -> None:
    """Neither strays nor those of other alphabets."""
    assert not is_light(b"<p>hi</p><a" + b"".join(attribute % number for number in range(8_000)) + b">x</a>")


@pytest.mark.parametrize("base", [b"<base href=/x>", b"<BASE\nhref=/x>", b"<bAsE>", b"<!-- <base> -->", b"<basefont>"])
@pytest.mark.parametrize("place", [0.0, 0.5, 1.0])
def test_what_may_be_a_base_is_seen_while_a_page_is_weighed(base: bytes, place: float) -> None:
    at = int(len(ORDINARY) * place)
    assert weigh(ORDINARY[:at] + base + ORDINARY[at:]) is Weight.LIGHT
    assert weigh(ORDINARY) is Weight.BARE


@pytest.mark.parametrize("tags", [LIGHT_TAGS, LIGHT_TAGS + 1])
@pytest.mark.parametrize("filler", [b"", b"x" * 3_000, b"x" * 30_000])
@pytest.mark.parametrize("first", [True, False])
def test_tags_are_counted_wherever_they_stand(tags: int, filler: bytes, *, first: bool) -> None:
    body = b"<p>" * tags + filler if first else filler + b"<p>" * tags
    assert is_light(body) is (tags == LIGHT_TAGS)


def test_different_formatting_is_light_where_there_are_few_tags_to_make_it_again_in() -> None:
    body = b"".join(b"<b x%d>x</b>" % number for number in range(40)) + b"text " * 4_000
    assert is_light(body)
    assert not is_light(body + b"<p>" * (LIGHT_TAGS - 100))


FORMATTING = b"<b><i><u><s><big><code><em><font><nobr><small><strike><strong><tt>"
AGAIN = b"<p>" + FORMATTING * 3 + b"<p>x" * 1_400


@pytest.mark.parametrize(
    "asked",
    [
        {"noise": Noise(main=True).pack()},
        {"likeness": True},
        {"fields": {"x": "p b b"}},
        {"fields": {"x[]": "//b/following::u"}},
    ],
    ids=["text", "likeness", "CSS", "XPath"],
)
def test_formatting_that_is_made_again_is_counted_in_the_tree(asked: dict[str, Any]) -> None:
    fields: dict[str, str] = asked.pop("fields", {})
    order = replace(wanting(fields), prose=True, **asked)
    assert order.weigh(AGAIN, scale=2) is not Weight.HEAVY
    assert find_light(AGAIN, order) is None
    assert find_light(AGAIN[:225], order) is not None


def test_who_follows_links_only_does_not_count() -> None:
    found = find_light(AGAIN + b"<a href=/x>x</a>", replace(wanting({}), links=True))
    assert found is not None
    assert found.hrefs == ("/x",)


@pytest.mark.parametrize("end", [b"</p>", b"</br>", b"</P >"])
def test_ends_that_make_elements_are_counted(end: bytes) -> None:
    assert is_read(b"x" + end * 100, {"x[]": "h1 ~ p ~ p, h1 ~ br ~ br"})
    assert not is_read(b"x" + end * 1_400, {"x[]": "h1 ~ p ~ p, h1 ~ br ~ br"})


HIDDEN_IN = {
    "utf-16-le": "",
    "utf-16-be": "",
    "utf-16": "",
    "utf-32": "",
    "hz": "~\n",
    "iso2022_jp": "\x1b(B",
    "iso2022_kr": "\x0f",
    "shift_jis_2004": "",
    "johab": "",
}


@pytest.mark.parametrize(("charset", "nothing"), HIDDEN_IN.items(), ids=HIDDEN_IN)
def test_no_charset_hides_markup(charset: str, nothing: str) -> None:
    names = attributes(1_000).decode()
    text = "<p>" + f"<b {names}>" * 3 + "<p>x" * 2_900
    body = text.encode(charset).replace(b"<b", b"<" + nothing.encode("latin-1") + b"b")
    assert LexborHTMLParser(decode_text(body, charset)).css_first("b") is not None
    assert replace(wanting({}), charset=charset, links=True).weigh(body) is Weight.HEAVY
    assert replace(wanting({}), charset=charset, links=True).weigh("<p>hello".encode(charset) * 900) is not Weight.HEAVY


def test_in_all_other_charsets_markup_stands_in_the_bytes_as_itself() -> None:
    """Whatever stands before it or within it: nothing of it is swallowed, added or left without a trace."""
    markup = "<b x>"
    odd = (*range(128, 256), *b"\x0e\x0f\x1b\\~+&")
    plain = [charset for charset in charsets() if shows_markup(charset)]
    assert len(plain) > 50
    for charset in plain:
        for first in odd:
            for second in range(256):
                before = bytes((first, second))
                assert (before + markup.encode()).decode(charset, "replace").endswith(markup), (charset, before)
                within = b"<" + before + b"b x>"
                assert markup not in within.decode(charset, "replace") or markup.encode() in within, (charset, within)


def charsets() -> set[str]:
    """All that a server may name."""
    found = (find_charset(f"text/html; charset={name}", b"") for name in {*aliases, *aliases.values(), "x-sjis"})
    return set(found)


PARTS = [b"<p ", b"<BODY ", b">", b"='>'", b'= ">', b'"', b"'", b"/", b" = ", b"\xff", b'="\xff>"', b"\xc3\xa4"]


@settings(max_examples=150, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    parts=st.lists(st.sampled_from(PARTS), max_size=6),
    rare=st.integers(1, 2_000),
)
def test_no_light_page_has_many_attributes_however_they_are_written(seed: int, parts: list[bytes], rare: int) -> None:
    pick = random.Random(seed)
    names = (b"a%d " % number for number in range(20_000))
    body = b"<p " + b"".join(pick.choice(parts) if parts and not pick.randrange(rare) else name for name in names)
    if is_light(body):
        counts = [len(node.attributes) for node in LexborHTMLParser(body).css("*")]
        assert 2 * sum(count**2 for count in counts) <= LIGHT_NS


TAGS = st.lists(
    st.sampled_from([b"<p>x", b"</a>", b"<div>", b"</b>", b"<td>", b"<a>", b"<b>", b"</p>"]), min_size=1, max_size=4
)


@settings(max_examples=100, deadline=None)
@given(TAGS, st.sampled_from([b"a", b"b", b"A", b"nobr"]), st.integers(1, 2_000), st.integers(1, 3_000))
def test_no_light_page_has_many_attributes_made_again(again: list[bytes], name: bytes, count: int, times: int) -> None:
    body = b"<p><%b %b>" % (name, attributes(count)) + b"".join(again) * times
    if is_light(body):
        made = sum(len(node.attributes) for node in LexborHTMLParser(body).css("*"))
        assert made * COPIED_ATTRIBUTE_NS <= LIGHT_NS


@settings(max_examples=100, deadline=None)
@given(
    TAGS,
    st.sampled_from([b"a", b"b", b"A", b"nobr"]),
    st.integers(1, 3),
    st.integers(1, 100_000),
    st.integers(1, 3_000),
)
def test_no_light_page_has_many_bytes_made_again(
    again: list[bytes], name: bytes, equal: int, length: int, times: int
) -> None:
    body = b"<p>" + b"<%b href=%b>" % (name, b"x" * length) * equal + b"".join(again) * times
    if is_light(body):
        made = sum(len(node.attributes.get("href") or "") for node in LexborHTMLParser(body).css("*"))
        assert made <= LIGHT_NS


@pytest.mark.parametrize(
    ("body", "selector"),
    [
        (b"<p>" * 2_900, "p:nth-child(n)"),
        (b"<p></p>" * 1_450, "p:nth-child(2 of p)"),
        (b"<p></p>" * 1_450, "p:nth-last-child(2) ~ p"),
        (b"<div>" * 700, "div:has(a, b, c, d, e, f, g)"),
        (b"<div>" * 700, ":has(div:has(b))"),
        (b"<div>" * 2_900, ",".join(["a"] * 400)),
        (b"<div>" * 2_900, "div"),
    ],
)
def test_what_is_light_is_read_in_no_time(body: bytes, selector: str) -> None:
    """As many fields as are light with such a page."""
    fields: dict[str, str] = {}
    while len(fields) < 60 and is_read(body, {**fields, f"x{len(fields)}[]": selector}):
        fields[f"x{len(fields)}[]"] = selector
    wanted = wanting(fields)
    started = time.thread_time()
    find(body, wanted)
    assert time.thread_time() - started < MOST_S
