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
_UNSEEN_TAGS = frozenset({"script", "style", "noscript", "template", "svg", "iframe"})
_TEXT = "-text"
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
    look = _Look(tree)
    if not look.over(body, SHELL_CHARS):
        return ""
    if look.has_bare_mount:
        return "shell"
    if look.asks:
        return "noscript"
    return "empty" if _is_little(look.chars, look.links) else ""


def _said(tree: LexborHTMLParser) -> str | None:
    """What the page says about itself; None when it says nothing that is known."""
    for node in tree.css(_META):
        known = _ENGINES.get((node.attributes.get("content") or "").strip().lower())
        if known is not None:
            return known
    return None


class _Look:
    """One walk over a page, however its elements stand: a page that nests them to be looked at again gains nothing."""

    def __init__(self, tree: LexborHTMLParser) -> None:
        self._mounts = {node.mem_id for node in tree.css(_MOUNTS)}
        self._open: list[tuple[LexborNode, int, int]] = []
        """Elements that have begun, with the characters and links before them."""
        self.chars = 0
        """Of the text that people see; blanks count for nothing."""
        self.links = 0
        self.asks = False
        """For JavaScript, where there is none."""
        self.has_bare_mount = False

    def over(self, top: LexborNode, most: int) -> bool:
        """Look at all of it; False when there was more text than this, at which it ends."""
        node: LexborNode | None = top
        while node is not None:
            if self._enter(node):
                node = node.child
            else:
                self._note(node, self.chars, self.links)
                node = self._next(node)
            if self.chars > most:
                return False
        return True

    def _enter(self, node: LexborNode) -> bool:
        """Is there anything to see in it?"""
        tag = node.tag or ""
        if tag == _TEXT:
            self.chars += len("".join((node.text_content or "").split()))
        elif tag in _UNSEEN_TAGS:
            self.asks = self.asks or (tag == "noscript" and _ASKS.search(node.text()) is not None)
        elif node.child is not None:
            self._open.append((node, self.chars, self.links))
            self.links += _is_link(node, tag)
            return True
        else:
            self.links += _is_link(node, tag)
        return False

    def _next(self, node: LexborNode) -> LexborNode | None:
        """What comes behind it, or behind those that end with it."""
        following = node.next if self._open else None
        while following is None and self._open:
            ended, chars, links = self._open.pop()
            self._note(ended, chars, links)
            following = ended.next if self._open else None
        return following

    def _note(self, node: LexborNode, chars: int, links: int) -> None:
        """The end of an element before which there were so many."""
        if node.mem_id in self._mounts and _is_little(self.chars - chars, self.links - links):
            self.has_bare_mount = True


def _is_link(node: LexborNode, tag: str) -> bool:
    return tag == "a" and "href" in node.attributes


def _is_little(chars: int, links: int) -> bool:
    return chars <= EMPTY_CHARS and links <= EMPTY_LINKS
