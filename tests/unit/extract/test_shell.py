"""Which pages need a browser, by what came without one."""

from __future__ import annotations

import gc
import time

import pytest
from selectolax.lexbor import LexborHTMLParser

from shoal.extract.shell import why_render

TEXT = "A sentence that people come here to read, and that no script had to write. " * 12


def why(body: str, require: str = "", head: str = "") -> str:
    return why_render(LexborHTMLParser(f"<html><head>{head}</head><body>{body}</body></html>"), require)


@pytest.mark.parametrize(
    "body",
    [
        '<div id="root"></div><script src="/main.js"></script>',
        '<div id="app"><div class="spinner">Loading…</div></div><script>boot()</script>',
        '<app-root></app-root><script src="/polyfills.js"></script><script src="/main.js"></script>',
        '<div id="__next"></div><script id="data" type="application/json">{"a": "' + "x" * 5_000 + '"}</script>',
        '<header>Shop</header><div id="root"><a href="/">Home</a></div><p>© us</p><script src="/m.js"></script>',
    ],
)
def test_an_empty_element_that_frameworks_fill_makes_a_shell(body: str) -> None:
    assert why(body) == "shell"


def test_a_page_that_asks_for_javascript_and_has_no_text_is_a_shell() -> None:
    asks = "<noscript>You need to enable JavaScript to run this app.</noscript>"
    assert (
        why(f'{asks}<main class="x"></main><script src="/m.js"></script><a href="/a">a</a><a href="/b">b</a>')
        == "noscript"
    )
    assert why(f"<p>{TEXT}</p>{asks}<script src='/m.js'></script>") == ""


def test_scripts_and_nothing_else_are_a_shell() -> None:
    assert why('<script src="/m.js"></script>') == "empty"
    assert why("Please wait<script>location.reload()</script>") == "empty"


@pytest.mark.parametrize(
    "body",
    [
        f"<p>{TEXT}</p>",
        f'<div id="root"><p>{TEXT}</p></div><script src="/main.js"></script>',
        "<h1>404</h1><p>There is nothing here.</p>",
        "<h1>Opening hours</h1><p>Monday to Friday, nine to five; closed on holidays.</p><script>count()</script>",
        "".join(f'<a href="/{n}">{n}</a> ' for n in range(10)) + "<script>count()</script>",
        "",
    ],
)
def test_a_page_with_its_text_or_without_scripts_is_left_as_it_is(body: str) -> None:
    assert why(body) == ""


def test_what_nobody_sees_within_what_nobody_sees_counts_once() -> None:
    picture = f"<svg><style>{'a' * 900}</style><svg><style>{'b' * 900}</style></svg></svg>"
    asks = "<noscript>Enable JavaScript<style>p { color: red }</style></noscript>"
    assert why(f"<p>{TEXT}</p>{picture}{asks}<script>count()</script>") == ""


def test_an_element_that_is_filled_within_one_that_is_not_is_seen() -> None:
    assert why('<div id="app">' + "x" * 100 + '<div id="root"></div></div><script></script>') == "shell"
    assert why('<div id="app"><div id="root">' + "x" * 100 + "</div></div><script></script>") == ""
    assert why('<body data-app-root><a href="/"></a><script></script>') == "shell"


@pytest.mark.parametrize(
    "body",
    [
        "<app-root>" * 1_000 + "x" * 100 + "<svg></svg>" * 1_000,
        "<noscript>" * 1_400 + "y " * 100_000 + "</noscript>" * 1_400,
        "<div id=root>" * 2_900,
        "<svg>" * 2_900,
        "<p>" * 2_900,
        "<app-root><a href=x>" * 1_400,
    ],
)
def test_no_page_is_looked_at_twice(body: str) -> None:
    tree = LexborHTMLParser(f"<body><script></script>{body}")
    gc.disable()  # what the tests before have left is not this page's
    try:
        started = time.thread_time()
        why_render(tree)
        assert time.thread_time() - started < 0.2
    finally:
        gc.enable()


def test_what_the_page_says_counts_before_anything_else() -> None:
    shell = '<div id="root"></div><script src="/main.js"></script>'
    assert why(f"<p>{TEXT}</p>", head='<meta name="fragment" content="!">') == "meta"
    assert why(f"<p>{TEXT}</p>", head='<meta name="shoal-engine" content="browser">') == "meta"
    assert why(shell, require=".price", head='<meta name="shoal-engine" content="http">') == ""
    assert why(shell, head='<meta name="shoal-engine" content="steam">') == "shell"


def test_a_required_selector_that_is_missing_is_reason_enough() -> None:
    assert why(f"<p>{TEXT}</p>", require=".price") == "required"
    assert why(f'<p class="price">{TEXT}</p>', require=".price") == ""
