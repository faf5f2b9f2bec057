"""Does a page need a browser? A cheap test of what came over HTTP, for jobs with `engine: auto`.

A page that is made in the browser comes as a shell: scripts, an empty element to fill, and nearly no text. A page that
has its text, or is short and honest about it, is left as it is. What the test sees, in this order:

- `meta`: the page says so itself, with `<meta name="shoal-engine" content="browser">`, or with the older
  `<meta name="fragment" content="!">`; `content="http"` says the opposite, and nothing else counts then.
- `required`: the selector that the job requires is not there.
- `shell`: there are scripts, hardly any text, and an element that frameworks fill is empty.
- `noscript`: there are scripts, hardly any text, and the page asks to enable JavaScript.
- `empty`: there are scripts, and as good as nothing else.
"""

from __future__ import annotations

import re

from selectolax.lexbor import LexborHTMLParser, LexborNode

SHELL_CHARS = 500
"""A page with more text than this is no shell."""
EMPTY_CHARS = 40
"""`Loading, please wait …`"""
EMPTY_LINKS = 1

_MOUNTS = (
    "#root, #app, #__next, #__nuxt, #___gatsby, #svelte, #react-root, #app-root, #main-app, #application, #q-app, "
    "app-root, [ng-app], [data-ng-app], [data-reactroot], [data-server-rendered], [data-v-app], [data-app-root]"
)
_UNSEEN = "script, style, noscript, template, svg, iframe"
_UNSEEN_TAGS = frozenset(_UNSEEN.split(", "))
_ASKS = re.compile(r"java\s?script", re.IGNORECASE)
_META = 'meta[name="shoal-engine" i][content], meta[name="fragment" i][content]'
_ENGINES = {"browser": "meta", "!": "meta", "http": ""}


def why_render(tree: LexborHTMLParser, require: str = "") -> str:
    """Why this page is to be rendered; empty when it need not be."""
    said = _said(tree)
    if said is not None:
        return said
    if require and tree.css_first(require) is None:
        return "required"
    body = tree.body
    if body is None or tree.css_first("script") is None:
        return ""
    chars = _chars(body)
    if chars > SHELL_CHARS:
        return ""
    return _of_little_text(tree, body, chars)


def _of_little_text(tree: LexborHTMLParser, body: LexborNode, chars: int) -> str:
    if any(_is_bare(mount) for mount in tree.css(_MOUNTS)):
        return "shell"
    if any(_ASKS.search(node.text()) for node in tree.css("noscript")):
        return "noscript"
    return "empty" if chars <= EMPTY_CHARS and len(body.css("a[href]")) <= EMPTY_LINKS else ""


def _said(tree: LexborHTMLParser) -> str | None:
    """What the page says about itself; None when it says nothing that is known."""
    for node in tree.css(_META):
        known = _ENGINES.get((node.attributes.get("content") or "").strip().lower())
        if known is not None:
            return known
    return None


def _chars(node: LexborNode) -> int:
    """Of the text that people see; blanks count for nothing."""
    outer = [part for part in node.css(_UNSEEN) if not _is_within(part, node)]
    return _length(node) - sum(map(_length, outer))


def _length(node: LexborNode) -> int:
    return len("".join(node.text().split()))


def _is_within(part: LexborNode, top: LexborNode) -> bool:
    """Does it stand in another one that nobody sees? Then that one counts."""
    above = part.parent
    while above is not None and above != top:
        if above.tag in _UNSEEN_TAGS:
            return True
        above = above.parent
    return False


def _is_bare(mount: LexborNode) -> bool:
    return _chars(mount) <= EMPTY_CHARS and len(mount.css("a[href]")) <= EMPTY_LINKS
