"""Which parts of a page are its main content.

From the body down, the way goes to the child that holds nearly all of what is to be read, until there is none: the
content is spread over the children of that part. Its title, and what stands between the two, belong to it. Within it
lists of links, notes and boxes are left out, and so are headings that nothing is left under.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from shoal.core.frozen import frozen
from shoal.extract.hints import Hint
from shoal.extract.outline import HEADINGS, RUN, Outline, Part

_NEARLY_ALL = 0.75
"""Of what is to be read in a part: a child with so much is what people came for."""
_MOST = 0.5
"""A part with so much of a page is no box beside the content, whatever it is called."""
_ENOUGH = 200.0
"""To be read outside of comments: then these are not the content."""
_SHORT = 220.0
"""Characters of a note about the content."""
_LINKS = 0.5
"""Share of links in a part that leads elsewhere."""
_LEAD = 40.0
"""Characters of a text between title and content that belongs to it."""
_MOST_WORDS = 12
"""Of a title: longer ones are no better."""
_BOXES = (Hint.REST, Hint.COMMENT)
_WORD = re.compile(r"\w+")


@frozen
class MainContent:
    """What of a page is to be read."""

    tops: tuple[Part, ...]
    """In order, none within another."""
    left_out: frozenset[int]
    """Identities of parts within these that do not belong."""

    def holds(self, part: Part) -> bool:
        return id(part) not in self.left_out


def whole(page: Outline) -> MainContent:
    """All that can be read of a page."""
    return MainContent((page.body,), frozenset())


def main_content(page: Outline, title: str = "") -> MainContent:
    """The content of a page with this title."""
    body = page.body
    parts = list(body.walk())
    rest = _rest_of(body, parts)
    good = _good_without(parts, rest)
    if not good.get(id(body)):
        return MainContent((body,), frozenset(rest))
    top = _down(body, good, rest)
    heading = _heading(parts, top, title)
    tops = [*_between(heading, top, rest), top] if heading is not None else [top]
    left_out = set(rest)
    for each in tops:
        _prune(each, left_out)
    return MainContent(tuple(tops), frozenset(left_out))


def _rest_of(body: Part, parts: Sequence[Part]) -> set[int]:
    """Parts that are something else by their names, unless they hold what is to be read of the page."""
    said = {
        hint: sum(part.good for part in parts if part.hint is hint and not _is_within(part, hint)) for hint in _BOXES
    }
    readers = body.good - sum(said.values()) < _ENOUGH
    rest: set[int] = set()
    for part in parts:
        hint = part.hint
        if hint is Hint.NONE and part.tag != "header":
            continue
        most = part.good > _MOST * body.good
        if hint is Hint.COMMENT:
            beside = not readers
        elif hint is Hint.NONE:
            beside = not most and _is_banner(part)
        else:
            beside = not most and (hint is Hint.REST or part.chars < _SHORT)
        if beside:
            rest.add(id(part))
    return rest


def _is_banner(header: Part) -> bool:
    """The head of a site, not of an article."""
    return header.density > _LINKS or any(part.tag == "nav" for part in header.walk())


def _is_within(part: Part, hint: Hint) -> bool:
    above = part.parent
    while above is not None:
        if above.hint is hint:
            return True
        above = above.parent
    return False


def _good_without(parts: Sequence[Part], rest: set[int]) -> dict[int, float]:
    """What is to be read in each part, without what does not belong."""
    good: dict[int, float] = {}
    for part in reversed(parts):  # children come before their parents
        if id(part) in rest:
            continue
        good[id(part)] = part.good if part.tag in (RUN, "pre") else sum(good.get(id(c), 0.0) for c in part.parts)
    return good


def _down(body: Part, good: dict[int, float], rest: set[int]) -> Part:
    top = body
    while True:
        best = max((c for c in top.parts if id(c) not in rest), key=lambda c: good.get(id(c), 0.0), default=None)
        if best is None or best.tag in (RUN, "p", "pre", "li") or best.tag in HEADINGS:
            return top
        if good[id(best)] < _NEARLY_ALL * good[id(top)]:
            return top
        top = best


def _heading(parts: Sequence[Part], top: Part, title: str) -> Part | None:
    """The page's title, where it stands before the content and not in it."""
    wanted = set(_WORD.findall(title.lower()))
    best, best_score = None, 0.0
    for part in parts:
        if part.tag not in ("h1", "h2", "h3"):
            continue
        words = set(_WORD.findall(part.line().lower()))
        shared = len(words & wanted)
        score = shared * min(shared, _MOST_WORDS) / max(len(words), 1) + (0.5 if part.tag == "h1" else 0.0)
        if words and score > best_score:
            best, best_score = part, score
    first = next((part for part in parts if part is best or part is top), None)
    return best if best is not None and first is best and not _holds(top, best) else None


def _holds(top: Part, part: Part) -> bool:
    above: Part | None = part
    while above is not None and above is not top:
        above = above.parent
    return above is top


def _between(heading: Part, top: Part, rest: set[int]) -> list[Part]:
    """The heading, and texts on the way from it to the content."""
    above = set[int]()
    part: Part | None = top
    while part is not None:
        above.add(id(part))
        part = part.parent
    found, place = [heading], heading
    while place.parent is not None and id(place) not in above:
        siblings = list(place.parent.parts)
        for sibling in siblings[siblings.index(place) + 1 :]:
            if id(sibling) in above:
                break
            found += _leads(sibling, rest)
        place = place.parent
    return found


def _leads(part: Part, rest: set[int]) -> list[Part]:
    if id(part) in rest or part.chars < _LEAD or part.density > _LINKS:
        return []
    if part.good > _MOST * part.chars:
        return [part]
    return [lead for child in part.parts for lead in _leads(child, rest)]


def _prune(top: Part, left_out: set[int]) -> None:
    """Leave out what leads elsewhere, and headings that nothing is left under."""
    stack = [top]
    while stack:
        part = stack.pop()
        kept: list[Part] = []
        for child in part.parts:
            if id(child) in left_out:
                continue
            if _leads_elsewhere(child):
                left_out.add(id(child))
                continue
            kept.append(child)
        _drop_bare_headings(kept, left_out)
        stack.extend(child for child in kept if id(child) not in left_out and child.block and child.tag != "pre")


def _leads_elsewhere(part: Part) -> bool:
    if part.tag in HEADINGS or not part.chars or part.density <= _LINKS:
        return False
    return part.tag != RUN or part.parent is None or part.parent.tag not in ("li", "td", "th", "dt", *HEADINGS)


def _drop_bare_headings(kept: list[Part], left_out: set[int]) -> None:
    """Those behind which the next of their rank, or the end, comes at once."""
    rank = 0
    if len(kept) < 2 and kept and kept[0].tag in HEADINGS:
        return
    for part in reversed(kept):
        if part.tag in HEADINGS:
            if rank and int(part.tag[1]) >= rank:
                left_out.add(id(part))
            rank = int(part.tag[1])
        elif part.chars or part.tag in ("img", "table", "figure"):
            rank = 0
