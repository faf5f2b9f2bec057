"""What a page says: the text that people see, whatever it is written in."""

from __future__ import annotations

from dataclasses import replace

import pytest

from shoal.core.noise import Noise
from shoal.extract.findings import Wanted, find

PAGE = Wanted("https://books.example/", "utf-8", noise=Noise().pack(), media_type="text/html", prose=True, lines=10_000)


def _said(body: str, wanted: Wanted = PAGE) -> tuple[str, ...]:
    lines = find(body.encode(), wanted).lines
    assert lines is not None
    return lines


def test_the_text_that_people_see_is_told_line_by_line() -> None:
    body = (
        "<title>Shop</title><style>p{}</style><h1>All <b>books</b></h1><p>One\ntwo<br>three</p><script>x</script>"
        "<table><tr><td>a<td>b</table><noscript>no</noscript><div hidden>h</div><p style='display: none'>n</p>"
        "<button>Buy</button><!-- c --><pre>x\ny</pre><dialog>d</dialog><template>t</template>"
    )
    assert _said(body) == ("Shop", "All books", "One two", "three", "a b", "Buy", "x", "y")


def test_elements_that_are_ignored_are_left_out_with_all_that_is_in_them() -> None:
    wanted = replace(PAGE, noise=Noise((".ad", "title")).pack())
    assert _said("<title>T</title><p>a <i class=ad>b <b>c</b></i> d</p><div class=ad><p>e</p></div>", wanted) == (
        "a d",
    )


def test_the_main_content_alone_can_be_watched() -> None:
    text = "<p>" + "A sentence that is read by somebody who came for it. " * 8 + "</p>"
    wanted = replace(PAGE, noise=Noise((".x",), main=True).pack())
    found = [
        find(f"<body><nav><a href=/>{menu}</a></nav><article>{text}<p class=x>{menu}</p></article>".encode(), wanted)
        for menu in ("Home", "Start")
    ]
    assert found[0].digest == found[1].digest
    assert (
        find(b"<article><p>Other words, which nobody has read before now.</p></article>", wanted).digest
        != found[0].digest
    )


@pytest.mark.parametrize(
    ("media_type", "body", "other", "same"),
    [
        ("application/json", '{"a": 1, "b": [2]}', '{"b":[2],"a":1}', True),
        ("application/json", '{"a": 1}', '{"a": 2}', False),
        ("application/json", "{not json  at all", "{not json\n at all", True),
        ("text/plain", "a  b\r\nc", "a b\nc\n", True),
        ("text/plain", "at 2026-01-01", "at 2026-02-02", True),
        ("image/png", "\0a  b", "\0a b", False),
        ("application/octet-stream", "a", "a", True),
    ],
)
def test_what_is_no_page_has_a_digest_too(media_type: str, body: str, other: str, same: bool) -> None:
    wanted = replace(PAGE, markup=False, prose=False, media_type=media_type)
    assert (find(body.encode(), wanted).digest == find(other.encode(), wanted).digest) is same


def test_nobody_who_does_not_ask_gets_a_digest() -> None:
    found = find(b"<p>x</p>", replace(PAGE, noise="", lines=0))
    assert (found.digest, found.lines) == (None, None)


def test_long_lines_are_told_in_sentences_and_no_more_than_is_wanted() -> None:
    assert _said("<p>" + "One sentence of a long text. " * 10) == ("One sentence of a long text.",) * 10
    assert len(_said("<p>word</p>" * 100, replace(PAGE, lines=50))) == 10
