"""The content of pages: which it is, and how it is written."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, cast

import pytest
import trafilatura

from shoal.core.url import Base
from shoal.extract.content import MAX_CONTENT_CHARS, Content
from shoal.extract.extractor import extractor_of
from shoal.extract.outline import MAX_PARTS
from shoal.extract.page import Html
from tests.content.scoring import Sample, f1, mean, samples

PAGE = "https://h.example/a/b"
SAMPLES = samples()
FILLER = "There is a sentence here, and it is long enough for somebody to have come for it. " * 2
extract = cast("Callable[..., str | None]", trafilatura.extract)


def read(markup: str | bytes) -> Html:
    return Html.parse(markup.encode() if isinstance(markup, str) else markup, "utf-8", Base(PAGE))


def take(markup: str | bytes, **formats: str) -> Any:
    return Content(formats).take(read(markup))


def text_of(sample: Sample) -> str:
    return str(take(sample.html, text="main")["text"])


def test_the_main_content_is_found_at_least_as_well_as_trafilatura_finds_it() -> None:
    ours = mean([f1(text_of(each), each.answer) for each in SAMPLES])
    theirs = [
        mean([f1(extract(each.html, **options) or "", each.answer) for each in SAMPLES])
        for options in ({}, {"include_comments": False}, {"favor_precision": True}, {"favor_recall": True})
    ]
    assert len(SAMPLES) >= 30
    assert ours >= max(theirs)
    assert ours > 0.95


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)
def test_of_no_page_is_much_lost_or_much_added(sample: Sample) -> None:
    assert f1(text_of(sample), sample.answer) > 0.8


def test_markdown_has_headings_lists_tables_code_quotes_links_and_images() -> None:
    markup = f"""<html><body><nav><a href=/>Home</a></nav><main><h1>Title</h1><p>{FILLER}</p>
    <h2>Part</h2><ul><li>one<ul><li>one <b>and</b> a half</li></ul></li><li>two</li></ul><ol><li>first</li></ol>
    <table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>2</td></tr></table>
    <pre><code class="language-python">if a &lt; b:
    go()</code></pre>
    <blockquote><p>Well said, and long enough.</p></blockquote>
    <p>See <a href="../c?x=1#y">the other page</a> and <code>code</code>, <em>or</em> not.</p>
    <figure><img data-src="i.png" src="data:image/gif;base64,R0" alt="A picture"></figure>
    <script>alert("script")</script><style>p {{color: red}}</style></main></body></html>"""
    found = take(markup, markdown="main")["markdown"]
    expected = (
        "# Title", "## Part", "- one\n  - one **and** a half\n- two", "1. first", "| a | b |", "| 1 | 2 |",
        "```python\nif a < b:\n    go()\n```", "> Well said, and long enough.",
        "See [the other page](https://h.example/c?x=1) and `code`, *or* not.", "![A picture](https://h.example/a/i.png)",
    )  # fmt: skip
    for piece in expected:
        assert piece in found
    assert "script" not in found
    assert "color" not in found
    assert "Home" not in found


def test_the_whole_page_has_what_the_main_content_leaves_out() -> None:
    markup = f"<body><nav><a href=/x>Menu</a></nav><article><p>{FILLER}</p></article><footer>Imprint</footer></body>"
    assert take(markup, text="main")["text"] == FILLER.strip()
    assert take(markup, text="page")["text"].split("\n") == ["Menu", FILLER.strip(), "", "Imprint"]


def test_html_is_clean_and_has_nothing_of_the_page_that_could_run() -> None:
    markup = (
        f'<body><div onclick="x()" style="color:red"><p class=a>{FILLER}<a href="javascript:x()">no</a> '
        '<a href="/y" onmouseover="x()">yes</a> &lt;b&gt;</p><iframe src="//e.example"></iframe></div></body>'
    )
    found = take(markup, html="main")["html"]
    assert found == f'<p>{FILLER}no <a href="https://h.example/y">yes</a> &lt;b&gt;</p>'


def test_links_are_absolute_each_once_with_the_first_text_there_is() -> None:
    markup = (
        '<body><a href="/x"><img src=i></a> <a href="/x#p">Next <b>page</b></a> <a href="#top">up</a>'
        '<a href="mailto:a@b">mail</a><div hidden><a href="/unseen">x</a></div></body>'
    )
    assert take(markup, links="page")["links"] == [{"url": "https://h.example/x", "text": "Next page"}]


def test_a_page_gives_one_item_with_its_fields_and_its_formats() -> None:
    extractor = extractor_of('{"fields":{"title":"h1"},"formats":{"text":"main"}}')
    assert extractor.take(read(f"<h1>T</h1><p>{FILLER}</p>")) == ({"title": "T", "text": f"T\n\n{FILLER.strip()}"},)
    assert extractor.take(read("")) == ()


@pytest.mark.parametrize("markup", ["", "<html>", "<body></body>", "<frameset><frame src=x></frameset>", "<p></p>"])
def test_a_page_without_content_has_empty_formats(markup: str) -> None:
    found = take(markup, markdown="main", text="page", html="main", links="page")
    assert found == {"markdown": "", "text": "", "html": "", "links": []}


def test_long_content_is_cut_at_a_line_and_this_is_said() -> None:
    html = read("<body>" + f"<p>{FILLER}</p>" * 3_000)
    found = Content({"markdown": "main", "text": "main", "html": "main", "links": "page"}).take(html)
    assert all(MAX_CONTENT_CHARS * 0.9 < len(found[name]) <= MAX_CONTENT_CHARS for name in ("text", "html", "markdown"))
    assert found["text"].endswith("for it.")
    assert list(html.cut) == ["content"]


@pytest.mark.parametrize(
    "markup",
    [
        "<div>" * 20_000 + FILLER,
        "<b>" * 20_000 + FILLER,
        "<blockquote>" * 5_000 + FILLER,
        "<ul><li>" * 5_000 + FILLER,
        "<table><tr><td>" * 2_000 + FILLER,
        "<table>" + "<tr><td>x<td>y" * 30_000,
        "<p class='comment'>" + "x. " * 5 + "<div class=comment>" * 500 + "<p>x.</p>" * 20_000,
        "<table><tr>" + "<td>x" * 10_000 + "<tr><td>y" * 20_000,
        "<table><tr><th>x<th>y" + "<tr><td>y<td>z" * 10_000 + "<tr><td>" + "x" * 200_000,
        "<h2>x</h2>" * 40_000,
        "<a href=/x>x</a>" * 40_000,
        "x<br>" * 100_000,
        "<p>" + "<br> " * 100_000,
        "<pre>" + "<div>x</div>" * 40_000,
        "<p>" + " " * 1_000_000 + "x",
        "<p>x" + "\n \t" * 300_000,
        f"<script type='application/ld+json'>{'[' * 50_000}</script>",
    ],
    ids=lambda markup: str(markup)[:20],
)
def test_hostile_pages_take_time_that_grows_with_their_size_only(markup: str) -> None:
    html = read(markup)
    started = time.process_time()
    found = Content({"markdown": "main", "text": "page", "html": "main", "links": "page", "metadata": "page"}).take(
        html
    )
    assert time.process_time() - started < 5
    assert len(found["text"]) <= MAX_CONTENT_CHARS


def test_of_pages_with_too_many_elements_the_first_are_read() -> None:
    html = read("<i>x</i>" * MAX_PARTS)
    found = Content({"text": "page"}).take(html)
    assert list(html.cut) == ["content"]
    assert 0 < len(found["text"]) < MAX_PARTS
