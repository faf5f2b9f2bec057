"""Parts of a page written anew: as clean HTML, as markdown, and as plain text.

Of the page's own markup only what means something is kept: headings, paragraphs, lists, tables, code, quotes, links and
images, these with absolute URLs. Nothing of a script, a style or a form can be in it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from html import escape

from shoal.extract.main_text import MainContent
from shoal.extract.outline import HEADINGS, RUN, Part

Join = Callable[[str], str | None]
"""A link as written → the absolute URL, if it is one."""

_BLOCKS = {
    **{tag: tag for tag in (*HEADINGS, "p", "ul", "ol", "li", "dl", "dt", "dd", "blockquote", "figure", "figcaption")},
    **{tag: tag for tag in ("thead", "tbody", "tfoot", "tr", "td", "th", "caption", "hr")},
    "summary": "p",
}
_CELLS = frozenset(("tr", "td", "th", "thead", "tbody", "tfoot", "caption"))
_LINES = frozenset(("p", "li", "dt", "dd", "td", "th", "figcaption", "caption", *HEADINGS))
"""Blocks whose text needs no paragraph of its own."""
_INLINE = {
    **{tag: tag for tag in ("strong", "em", "code", "sub", "sup", "del", "mark", "kbd", "samp", "q")},
    "b": "strong", "i": "em", "s": "del", "strike": "del", "tt": "code",
}  # fmt: skip
_LANGUAGE = re.compile(r"(?:^|\s)(?:language|lang|highlight|highlight-source|brush:?)[-\s:]+([\w+#.-]+)")
_NO_LANGUAGE = frozenset(("text", "none", "default", "plaintext", "wrap", "container", "notranslate"))
_LANGUAGE_ABOVE = 3
"""Elements around a block of code that may name its language."""
_SPACED = frozenset(("tr", "ul", "ol", "table", "p", "blockquote", *HEADINGS))
"""Behind these, plain text has an end of line more."""
_EDGE_RULES = re.compile(r"\A(?:<hr>\s*)+|(?:\s*<hr>)+\s*\Z")
_SPACES = re.compile(r"[^\S\n]*\n\s*|\s+")


class Writer:
    """Writes the content of one page."""

    def __init__(self, content: MainContent, join: Join) -> None:
        self._content = content
        self._join = join
        self._tables: dict[int, bool] = {}

    def html(self) -> str:
        """As clean HTML, a block a line."""
        html = "".join("".join(self._block(top)) for top in self._content.tops)
        return _EDGE_RULES.sub("", html).strip()

    def text(self) -> str:
        """As plain text: a paragraph or an item a line."""
        text = "\n".join("".join(self._texts(top)) for top in self._content.tops)
        return re.sub(r"\n{3,}", "\n\n", re.sub(r"[ \t]+\n", "\n", text)).strip()

    def links(self) -> list[tuple[str, str]]:
        """(absolute URL, text) of the links in it, each once."""
        found: dict[str, str] = {}
        for top in self._content.tops:
            for part in self._kept(top):
                if part.tag == "a" and (url := self._join(part.attributes.get("href", ""))):
                    found[url] = found.get(url) or part.line()
        return list(found.items())

    def _kept(self, top: Part) -> Iterator[Part]:
        stack = [top] if self._content.holds(top) else []
        while stack:
            part = stack.pop()
            yield part
            stack.extend(reversed([child for child in part.parts if self._content.holds(child)]))

    # --- as HTML ------------------------------------------------------------------------------------------------

    def _block(self, part: Part) -> Iterator[str]:
        if not self._content.holds(part):
            return
        if not part.block and part.tag != RUN:
            yield from self._inline(part)
        elif part.tag == RUN:
            yield from self._run(part)
        elif part.tag == "pre":
            yield _code(part)
        elif part.tag == "table" and not self._is_table(part):
            yield from self._inside(part)
        else:
            yield from self._element(part)

    def _element(self, part: Part) -> Iterator[str]:
        tag = "table" if part.tag == "table" else _BLOCKS.get(part.tag, "")
        if tag in _CELLS and not self._is_in_table(part):
            tag = ""
        inside = "".join(self._inside(part))
        if tag == "hr":
            yield "<hr>\n"
        elif tag and (inside := inside.strip()):
            if tag == "li" and inside.startswith("<p>") and inside.count("<p>") == 1 and inside.endswith("</p>"):
                inside = inside[3:-4]
            start = f' start="{part.attributes["start"]}"' if part.attributes.get("start", "").isdecimal() else ""
            yield f"<{tag}{start}>{inside}</{tag}>\n"
        elif not tag:
            yield inside

    def _inside(self, part: Part) -> Iterator[str]:
        for child in part.children:
            if isinstance(child, Part):
                yield from self._block(child)

    def _run(self, run: Part) -> Iterator[str]:
        text = "".join(self._within(run)).strip()
        if not text:
            return
        if run.parent is not None and run.parent.tag in _LINES:
            yield text
            return
        for paragraph in re.split(r"(?:<br>\s*){2,}", text):
            if paragraph.strip():
                yield f"<p>{paragraph.strip()}</p>\n"

    def _within(self, part: Part) -> Iterator[str]:
        for child in part.children:
            if isinstance(child, str):
                yield escape(_SPACES.sub(" ", child), quote=False)
            elif self._content.holds(child):
                yield from self._inline(child)

    def _inline(self, part: Part) -> Iterator[str]:
        if part.tag == "br":
            yield "<br>"
        elif part.tag in ("img", "amp-img"):
            yield self._image(part)
        else:
            inside = "".join(self._within(part))
            if part.tag == "a":
                yield self._link(part, inside)
            elif (tag := _INLINE.get(part.tag)) and inside.strip():
                yield f"<{tag}>{inside}</{tag}>"
            else:
                yield inside

    def _link(self, part: Part, inside: str) -> str:
        url = self._join(part.attributes.get("href", ""))
        return f'<a href="{escape(url)}">{inside}</a>' if url and inside.strip() else inside

    def _image(self, part: Part) -> str:
        url = next((url for source in _sources(part.attributes) if (url := self._join(source))), None)
        return f'<img src="{escape(url)}" alt="{escape(part.attributes.get("alt", ""))}">' if url else ""

    def _is_table(self, table: Part) -> bool:
        if id(table) not in self._tables:
            self._tables[id(table)] = _holds_data(table)
        return self._tables[id(table)]

    def _is_in_table(self, part: Part) -> bool:
        above = part.parent
        while above is not None and above.tag != "table":
            above = above.parent
        return above is not None and self._is_table(above)

    # --- as text ------------------------------------------------------------------------------------------------

    def _texts(self, part: Part) -> Iterator[str]:
        if not self._content.holds(part):
            return
        if part.tag == "pre":
            yield "\n" + _verbatim(part).strip("\n") + "\n\n"
        elif part.tag == RUN:
            lines = "".join(self._words(part)).split("\n")
            yield "\n".join(" ".join(line.split()) for line in lines).strip()
            if part.parent is None or part.parent.tag not in ("td", "th"):
                yield "\n"
        else:
            for child in part.parts:
                yield from self._texts(child)
            yield "\t" if part.tag in ("td", "th") else "\n" if part.tag in _SPACED else ""

    def _words(self, part: Part) -> Iterator[str]:
        if part.tag == "br":
            yield "\n"
        for child in part.children:
            if isinstance(child, str):
                yield _SPACES.sub(" ", child)
            elif self._content.holds(child):
                yield from self._words(child)


def _sources(attributes: Mapping[str, str]) -> Iterator[str]:
    """Where an image may come from; pages that load it later name it elsewhere."""
    for name in ("src", "data-src"):
        if (source := attributes.get(name, "")) and not source.startswith("data:"):
            yield source
    if srcset := attributes.get("srcset", "").split():
        yield srcset[0]


def _holds_data(table: Part) -> bool:
    """Or is it there for the looks of the page?"""
    rows = cells = 0
    named = False
    for part in table.walk():
        if part.tag == "table" and part is not table:
            return False
        named = named or part.tag in ("th", "caption", "thead")
        rows += part.tag == "tr"
        if part.tag == "td":
            cells += 1
            if not named and sum(child.tag != RUN for child in part.parts) > 1:
                return False
    return named or (rows > 1 and cells > rows)


def _code(pre: Part) -> str:
    language = _language(pre)
    marked = f' class="language-{escape(language)}"' if language else ""
    text = _verbatim(pre).strip("\n")
    return f"<pre><code{marked}>{escape(text, quote=False)}</code></pre>\n" if text.strip() else ""


def _verbatim(pre: Part) -> str:
    """Code as it stands; lines that are blocks of their own end as lines do."""
    pieces: list[str] = []
    for part in pre.walk():
        if part is not pre and part.block and pieces and not pieces[-1].endswith("\n"):
            pieces.append("\n")
        if part.tag == "br":
            pieces.append("\n")
        elif part.tag == RUN:
            pieces.append("".join(part.texts()))
    return "".join(pieces)


def _language(pre: Part) -> str:
    """By the classes of the code, of the elements in it, or of those around it."""
    inner = [part for part in list(pre.walk())[:4] if part.tag in ("pre", "code")]
    above: list[Part] = []
    place = pre.parent
    while place is not None and len(above) < _LANGUAGE_ABOVE:
        above.append(place)
        place = place.parent
    for part in (*reversed(inner), *above):
        found = _LANGUAGE.search(part.attributes.get("class", ""))
        if found and found[1].lower() not in _NO_LANGUAGE:
            return found[1].lower()
    return ""
