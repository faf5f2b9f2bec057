"""A site of given pages, all linked from its first one."""

from __future__ import annotations

from collections.abc import Mapping

from tests.site.reply import NOT_FOUND, Reply, page

TITLE = "Directory"
FILLED = (
    '<!doctype html>\n<title>Filled</title>\n<p id="said"></p>\n'
    "<script>document.querySelector('#said').textContent = 'by a script';</script>\n"
)
"""A page that a script fills, and that leads nowhere."""


class Directory:
    """`/` links to every page; it needs no JavaScript itself."""

    def __init__(self, pages: Mapping[str, Reply]) -> None:
        """`pages`: target → what is answered."""
        links = "\n".join(f'<li><a href="{target}">{target}</a></li>' for target in pages)
        first = page(f"<!doctype html>\n<title>{TITLE}</title>\n<h1>{TITLE}</h1>\n<ul>{links}</ul>\n")
        self._pages = {"/": first, **pages}

    @property
    def targets(self) -> frozenset[str]:
        """Of all pages, the first one too."""
        return frozenset(self._pages)

    @property
    def size(self) -> int:
        """Pages, the first one too."""
        return len(self._pages)

    def respond(self, target: str, _hits: int) -> Reply:
        return self._pages.get(target, NOT_FOUND)


def copies(reply: Reply, count: int) -> dict[str, Reply]:
    """The same page at many addresses."""
    return {f"/page/{number}": reply for number in range(1, count + 1)}
