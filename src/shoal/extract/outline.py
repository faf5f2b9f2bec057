"""A page as parts of text, with a measure of how much each has to read.

Blocks hold blocks and runs; a run is text with what stands in a line with it. All is built in one walk of the parsed
page, which is left as it is, and measured on the way up: time grows with the page and not faster.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator
from dataclasses import dataclass, field

from selectolax.lexbor import LexborNode

from shoal.core.frozen import frozen
from shoal.extract.hints import UNSEEN, Hint, hint_of, is_hidden

MAX_PARTS = 50_000
"""Elements and texts of a page that are looked at."""
MAX_DEPTH = 100
"""Elements within each other; deeper ones count as text of these."""
RUN = "#run"

_INLINE = frozenset(
    (
        *(
            "a",
            "abbr",
            "acronym",
            "b",
            "bdi",
            "bdo",
            "big",
            "br",
            "cite",
            "code",
            "data",
            "del",
            "dfn",
            "em",
            "font",
            "i",
        ),
        *(
            "img",
            "ins",
            "kbd",
            "mark",
            "nobr",
            "picture",
            "q",
            "rp",
            "rt",
            "ruby",
            "s",
            "samp",
            "small",
            "source",
            "span",
        ),
        *("strike", "strong", "sub", "sup", "time", "tt", "u", "var", "wbr", "amp-img"),
    )
)
HEADINGS = frozenset(("h1", "h2", "h3", "h4", "h5", "h6"))
_KEPT = ("href", "src", "alt", "class", "id", "data-src", "srcset", "start", "colspan", "rowspan")
_DENSE = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_DENSE_WEIGHT = 2.0
"""That a character has more, where a word is one or two of them."""
_SENTENCE = re.compile(r"[.!?:;…。！？」؟।][\"'”’»)\]]*\s*$")
_LONG = 80
"""Characters of text that is read, even if it does not end as a sentence does."""
_LABEL_SHARE = 0.2
"""Of a short text without an end: a label, a date, a title."""
_MANY_LINKS = 0.5


@dataclass(slots=True, eq=False)
class Part:
    """An element, or a run of text within one."""

    tag: str
    attributes: dict[str, str] = field(default_factory=dict[str, str])
    parent: Part | None = None
    children: list[Part | str] = field(default_factory=list["Part | str"])
    hint: Hint = Hint.NONE
    block: bool = False
    chars: float = 0.0
    """Of its text."""
    linked: float = 0.0
    """Of these, such as lead elsewhere."""
    good: float = 0.0
    """Of these, such as people come to read."""

    @property
    def parts(self) -> Iterator[Part]:
        """Of its children, those that are no plain text."""
        return (child for child in self.children if isinstance(child, Part))

    @property
    def density(self) -> float:
        """The share of links."""
        return self.linked / self.chars if self.chars else 0.0

    def texts(self) -> Iterator[str]:
        """All text in it, in order."""
        stack: list[Part | str] = [self]
        while stack:
            top = stack.pop()
            if isinstance(top, str):
                yield top
            elif top.tag == "br":
                yield "\n"
            else:
                stack.extend(reversed(top.children))

    def walk(self) -> Iterator[Part]:
        """It and all parts in it, in order."""
        stack: list[Part] = [self]
        while stack:
            top = stack.pop()
            yield top
            stack.extend(reversed([child for child in top.children if isinstance(child, Part)]))

    def line(self) -> str:
        """Its text in one line."""
        return " ".join("".join(self.texts()).split())


@frozen
class Outline:
    """A page as parts."""

    body: Part
    cut: bool = False
    """Was there more?"""


def outline(body: LexborNode, left_out: Container[int] = ()) -> Outline:
    """The parts of a page's body, without these elements (`LexborNode.mem_id`)."""
    root = Part("body")
    stack: list[tuple[LexborNode | None, bool]] = []
    """Where to go on behind an element, and whether it is a part of its own."""
    node, top, depth, left = body.child, root, 0, MAX_PARTS
    while node is not None or stack:
        if node is None:
            node, opened = stack.pop()
            if opened and top.parent is not None:
                _close(top)
                top, depth = top.parent, depth - 1
            node = node if left > 0 else None
            continue
        left -= 1
        part = _part_of(node, top) if not left_out or node.mem_id not in left_out else None
        if part is None:
            node = node.next if left > 0 else None
            continue
        opened = depth < MAX_DEPTH
        if opened:
            top.children.append(part)
            top, depth = part, depth + 1
        stack.append((node.next, opened))
        node = node.child if left > 0 else None
    _close(root)
    return Outline(root, left <= 0)


def _part_of(node: LexborNode, top: Part) -> Part | None:
    """An element as a part without content; text goes to the part that it is in."""
    tag = node.tag
    if tag == "-text":
        if text := node.text_content:
            top.children.append(text)
        return None
    if tag is None or tag in UNSEEN or not tag[0].isalpha():
        return None
    given = node.attributes
    if is_hidden(given):
        return None
    kept = {name: value for name in _KEPT if (value := given.get(name))} if given else {}
    return Part(tag, kept, top, hint=hint_of(tag, given) if given or tag not in _INLINE else Hint.NONE)


def _close(part: Part) -> None:
    """All of it is there: it is measured, and its text put into runs."""
    part.block = part.tag not in _INLINE or any(child.block for child in part.parts)
    if part.block and part.tag != RUN:
        part.children = _in_runs(part)
    for child in part.children:
        if isinstance(child, str):
            part.chars += _weight(child)
        else:
            part.chars += child.chars
            part.linked += child.linked
            part.good += child.good
    if part.tag == "a" and "href" in part.attributes:
        part.linked, part.good = part.chars, 0.0
    elif part.tag == "pre":
        part.good = part.chars


def _in_runs(part: Part) -> list[Part | str]:
    """The children of a block, with what stands in a line together as one part."""
    found: list[Part | str] = []
    run: Part | None = None
    for child in part.children:
        if isinstance(child, Part) and child.block:
            run = None
            found.append(child)
            continue
        if run is None:
            if isinstance(child, str) and child.isspace() and part.tag != "pre":
                continue
            run = Part(RUN, parent=part)
            found.append(run)
        run.children.append(child)
        if isinstance(child, Part):
            child.parent = run
    for each in found:
        if isinstance(each, Part) and each.tag == RUN:
            _measure_run(each, heading=part.tag in HEADINGS)
    return found


def _measure_run(run: Part, *, heading: bool) -> None:
    for child in run.children:
        run.chars += _weight(child) if isinstance(child, str) else child.chars
        run.linked += 0 if isinstance(child, str) else child.linked
    if run.density > _MANY_LINKS:
        return
    reads = not heading and (run.chars > _LONG or _SENTENCE.search(run.line()))
    run.good = (run.chars - run.linked) * (1.0 if reads else _LABEL_SHARE)


def _weight(text: str) -> float:
    chars = len(" ".join(text.split()))
    return chars if text.isascii() else chars + _DENSE_WEIGHT * len(_DENSE.findall(text))
