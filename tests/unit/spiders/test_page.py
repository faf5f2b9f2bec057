"""A page as a spider sees it."""

from __future__ import annotations

import pytest

from shoal import Follow, Page, Selection
from shoal.spiders.mirror import MAX_LEVELS
from shoal.spiders.selection import BadSelector

HTML = """<!doctype html><base href="/shop/"><title>T</title>
<h1> Ünder
 a   tree </h1>
<ul><li class=card><a href="b/1">One</a> <b>1</b></li><li class=card><a href="b/2">Two</a></li></ul>
<a href="b/1#top">again</a><a href="mailto:a@b.example">mail</a><a>nowhere</a>"""
PAGE = Page("https://h.example/x", HTML.encode(), headers={"content-type": "text/html; charset=utf-8"})


def test_css_and_xpath_find_the_same() -> None:
    assert PAGE.css("h1").text == PAGE.xpath("//h1").text == "Ünder a tree"
    assert PAGE.css(".card a").texts == PAGE.xpath("//li[@class='card']/a").texts == ["One", "Two"]
    assert PAGE.css("a").attr("href") == PAGE.xpath("//a/@href").text == "b/1"
    assert PAGE.css("b").html == PAGE.xpath("//b").html == "<b>1</b>"
    assert PAGE.css(".card a").attrs("href") == PAGE.xpath("//li/a").attrs("href") == ["b/1", "b/2"]


def test_nothing_found_is_no_error() -> None:
    for nothing in (PAGE.css("q"), PAGE.xpath("//q"), PAGE.xpath("string(//q)"), Page("http://a/", b"").xpath("//p")):
        assert not nothing
        assert len(nothing) == 0
        assert (nothing.text, nothing.html, nothing.texts, nothing.all()) == ("", "", [], [])
        assert nothing.attr("href") is None
        assert nothing.attr("href", "/") == "/"
        assert not nothing.css("a")
        assert not nothing.first.xpath("a")


def test_selections_are_searched_further_by_either_way() -> None:
    cards = PAGE.css(".card")
    assert [card.css("a").text for card in cards] == ["One", "Two"]
    assert [card.xpath("./a/@href").text for card in cards] == ["b/1", "b/2"]
    assert [card.css("b").text for card in PAGE.xpath("//li")] == ["1", ""]
    assert cards.css("a").texts == PAGE.xpath("//li").xpath("./a").texts == ["One", "Two"]
    assert isinstance(cards.first, Selection)
    assert "One 1" in repr(cards)
    assert PAGE.xpath("count(//li)").text == "2.0"


@pytest.mark.parametrize(("ask", "said"), [("css", "is not a CSS selector"), ("xpath", "is not an XPath")])
def test_a_selector_that_is_none_is_named(ask: str, said: str) -> None:
    for page in (PAGE, Page("http://a/", b"")):
        with pytest.raises(BadSelector, match=said):
            getattr(page, ask)("a[")


def test_hrefs_are_taken_from_the_pages_base() -> None:
    assert PAGE.urljoin("b/1") == "https://h.example/shop/b/1"
    with pytest.raises(ValueError, match="does not lead to a page"):
        PAGE.urljoin("mailto:a@b.example")
    assert list(PAGE.links(callback="detail")) == [
        Follow("https://h.example/shop/b/1", "detail"),
        Follow("https://h.example/shop/b/2", "detail"),
    ]


def test_text_and_json_are_read_in_the_pages_charset() -> None:
    page = Page("http://a/", '{"ü": 1}'.encode("latin-1"), charset="latin-1", headers={"content-type": "A/Json; x=1"})
    assert page.json() == {"ü": 1}
    assert page.content_type == "a/json"
    with pytest.raises(ValueError, match="Expecting value"):
        PAGE.json()


NESTED = """<!doctype html><title>T</title><body class=all><div id=a><p>1</p><div id=b><p>2</p> tail</div></div>
<table><tr><td><i>x</i></td></tr></table><p @click=go xml:lang=de>last</p><x:y>odd</x:y><!-- said --></body>"""
NEST = Page("https://h.example/x", NESTED.encode())


@pytest.mark.parametrize("selector", ["body", "html", "head", ".all"])
def test_an_xpath_is_asked_of_any_element_that_css_has_found(selector: str) -> None:
    found = NEST.css(selector)
    assert len(found.xpath("self::*")) == 1
    assert found.xpath("./p").texts == (["last"] if selector in ("body", ".all") else [])
    assert found.xpath("//p").texts == ["1", "2", "last"], "a page has one root, wherever it is asked"


def test_an_element_stays_where_it_is_on_the_page_when_it_goes_from_css_to_xpath() -> None:
    inner = NEST.css("#b")
    assert inner.xpath("..").attr("id") == "a"
    assert inner.xpath("ancestor::body").attr("class") == "all"
    assert inner.xpath("./text()").texts == ["tail"]
    assert inner.xpath("./p").css("p").texts == []
    assert inner.xpath("following::i").text == "x"
    assert NEST.css("i").xpath("./ancestor::tr").html.startswith("<tr><td>")
    assert inner.xpath("..").html == NEST.css("#a").html
    assert NEST.css("p:last-of-type").xpath("@*").texts == []
    assert NEST.css("x\\:y").xpath(".").text == "odd"
    assert not inner.xpath("namespace::*")


def test_what_elements_within_each_other_find_comes_once_and_never_themselves() -> None:
    for divs in (NEST.css("div"), NEST.xpath("//div")):
        assert divs.css("div").attrs("id") == ["b"]
        assert divs.css("p").texts == ["1", "2"]
        assert divs.xpath(".//p").texts == ["1", "2"]
        assert divs.xpath(".//p/text()").texts == ["1", "2"]
        assert divs.xpath("./@id").texts == ["a", "b"]
        assert divs.xpath("boolean(./p)").texts == ["True", "True"]
        assert divs.xpath("count(./p)").texts == ["1.0", "1.0"]
        assert [each.css("p").texts for each in divs] == [["1", "2"], ["2"]]


def test_css_is_asked_of_any_element_that_xpath_has_found() -> None:
    assert NEST.xpath("//tr").css("td > i").texts == NEST.xpath("//td").css("i").texts == ["x"]
    assert NEST.xpath("//body").css("body > p").texts == ["last"]
    assert NEST.xpath("/html").css("body").attr("class") == "all"
    assert NEST.xpath("//comment()").css("p").texts == NEST.xpath("//p/text()").css("p").texts == []
    assert NEST.xpath("//table").css("i").xpath("./ancestor::td").text == "x"


def test_a_page_that_is_nested_without_end_has_xpaths_as_far_as_xpath_reads() -> None:
    page = Page("https://h.example/x", b"<div>" * 2_000 + b"<p>deep")
    assert not page.css("p").xpath("..")
    assert len(page.css("div").first.xpath(".//div")) == MAX_LEVELS - 2
    with pytest.raises(BadSelector):
        page.css("p").xpath("a[")


def test_names_that_xml_does_not_have_keep_nobody_from_asking() -> None:
    odd = Page("http://a.example/", '<body><p data-m²="55" class="p">1</p><x-ª>2</x-ª><!-- said --></body>'.encode())
    assert odd.css("p").xpath("./@class").text == "p"
    assert odd.css("body").xpath(".//p").text == "1"
    assert odd.xpath("//comment()").texts == ["said"]
