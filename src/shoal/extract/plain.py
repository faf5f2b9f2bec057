"""What a page says, line by line, without noise: what two runs are compared by.

Of HTML it is the text that people see, of JSON its values in the order of their names, of other text all of it. What is
no text is known by its bytes. `core.noise` says what does not count.
"""

from __future__ import annotations

import json
import re
from codecs import BOM_UTF8
from collections.abc import Container
from typing import Any

from selectolax.lexbor import LexborHTMLParser, LexborNode

from shoal.core.frozen import frozen
from shoal.core.json_text import read_json
from shoal.core.noise import Noise, digest_of_bytes, digest_of_lines
from shoal.extract.content import outline_of, text_of, title_of
from shoal.extract.document import is_json
from shoal.extract.main_text import main_content
from shoal.extract.page import Html
from shoal.fetch.decode import decode_text

MAX_LINE = 160
"""Characters of a line; a longer one is told sentence by sentence."""

_UNSEEN = frozenset(
    (
        *("script", "style", "template", "noscript", "head", "iframe", "object", "embed", "canvas", "audio", "video"),
        *("datalist", "map"),
    )
)
_PRE = "\n "
"""What stands before and behind an element whose own ends of lines are seen."""
_BLOCKS = frozenset(
    (
        *("address", "article", "aside", "blockquote", "body", "br", "caption", "center", "dd", "details", "dialog"),
        *("dir", "div", "dl", "dt", "fieldset", "figcaption", "figure", "footer", "form", "h1", "h2", "h3", "h4", "h5"),
        *("h6", "header", "hr", "legend", "li", "main", "menu", "nav", "ol", "optgroup", "option", "p"),
        *("search", "section", "select", "summary", "table", "tbody", "tfoot", "thead", "tr", "ul"),
    )
)
_APART = frozenset(("td", "th", "button", "label", "img", "input", "textarea", "svg", "text"))
"""Elements within a line whose text is no part of the word before."""
_HIDDEN = '[hidden], [style*="display:none" i], [style*="display: none" i], dialog:not([open])'
_SENTENCE_END = re.compile(r"(?<=[.!?…。！？])\s+")


@frozen
class Plain:
    """What a page says."""

    digest: int
    lines: list[str] | None
    """None when it is no text."""


def plain_html(html: Html, noise: Noise) -> Plain:
    """The text of a parsed page, which is left as it is."""
    return _plain(_main_lines(html, noise) if noise.main else _seen_lines(html.tree, noise), noise)


def plain_text(body: bytes, charset: str, media_type: str, noise: Noise) -> Plain:
    """Of anything else; an answer that is no JSON though it says so is any other text."""
    if is_text(media_type, body):
        lines = _json_lines(body) if is_json(media_type) else None
        return _plain(decode_text(body, charset or "utf-8").splitlines() if lines is None else lines, noise)
    return Plain(digest_of_bytes(body), None)


def is_text(media_type: str, body: bytes) -> bool:
    """By what it says it is, and unless it has what no text has."""
    named = media_type.startswith("text/") or media_type.endswith(("json", "xml", "javascript", "yaml", "x-ndjson"))
    return (named or not media_type) and b"\0" not in body


def _plain(lines: list[str], noise: Noise) -> Plain:
    clean = noise.clean(lines)
    return Plain(digest_of_lines(clean), clean)


def told_lines(lines: list[str]) -> list[str]:
    """For who reads them: long ones in sentences."""
    told: list[str] = []
    for line in lines:
        told += _SENTENCE_END.split(line) if len(line) > MAX_LINE else (line,)
    return told


def _seen_lines(tree: LexborHTMLParser, noise: Noise) -> list[str]:
    """All that people see of a page, with its title first."""
    left_out = _left_out(tree, f"{noise.selector}, {_HIDDEN}" if noise.ignore else _HIDDEN)
    title = tree.css_first("head > title")
    lines = [title.text()] if title is not None and title.mem_id not in left_out else []
    body = tree.body
    if body is None or body.mem_id in left_out:
        return lines
    return [*lines, *"".join(_texts(body, left_out)).split("\n")]


def _left_out(tree: LexborHTMLParser, selector: str) -> set[int]:
    return {node.mem_id for node in tree.css(selector)}


def _texts(body: LexborNode, left_out: Container[int]) -> list[str]:
    """The texts of an element in order, with ends of lines and spaces where elements stand apart."""
    found: list[str] = []
    behind: list[tuple[LexborNode | None, str]] = []
    """Where to go on behind an element, and what stands there."""
    node, seen_ends = body.child, 0
    while node is not None or behind:
        if node is None:
            node, gap = behind.pop()
            if gap:
                found.append(gap)
                seen_ends -= gap is _PRE
            continue
        tag = node.tag
        if tag == "-text":
            text = node.text_content or ""
            found.append(text if seen_ends else text.replace("\n", " "))
            node = node.next
        elif tag is None or tag in _UNSEEN or not tag[0].isalpha() or node.mem_id in left_out:
            node = node.next
        else:
            gap = "\n" if tag in _BLOCKS else " " if tag in _APART else _PRE if tag == "pre" else ""
            if gap:
                found.append(gap)
                seen_ends += gap is _PRE
            behind.append((node.next, gap))
            node = node.child
    return found


def _main_lines(html: Html, noise: Noise) -> list[str]:
    left_out = _left_out(html.tree, noise.selector) if noise.ignore else frozenset[int]()
    content = main_content(outline_of(html, left_out), title_of(html.tree))
    return text_of(content).splitlines()


def _json_lines(body: bytes) -> list[str] | None:
    """None when it is none, or of too many levels."""
    try:
        value: Any = read_json(body.removeprefix(BOM_UTF8))
        return json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False).splitlines()
    except (ValueError, RecursionError):
        return None
