"""The routing table: canonical target -> `Route`, the answers it gives and what a crawl makes of them.

The table is the only source both of replies and of expected facts, so the two cannot disagree.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from tests.site import markup
from tests.site.reply import Reply, page, redirect


class Fate(StrEnum):
    """What a correct, polite crawl that begins at `/` makes of a target."""

    PAGE = "page"
    FILE = "file"
    REDIRECT = "redirect"
    LOOP = "loop"
    LEAVING = "leaving"
    DEAD = "dead"
    BLOCKED = "blocked"
    NOFOLLOW = "nofollow"
    UNLINKED = "unlinked"


@dataclass(frozen=True, slots=True)
class Route:
    """`detail` is the next hop of a redirect, the reason of a death or the type of a file."""

    fate: Fate
    replies: tuple[Reply, ...]
    heading: str = ""
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Routes:
    """A table under construction, for the site at `origin`."""

    origin: str
    table: dict[str, Route] = field(default_factory=dict[str, Route])

    def add(self, target: str, route: Route) -> None:
        # Two pages at one address would make the facts count a page that cannot be seen.
        if target in self.table:
            raise ValueError(f"two routes for {target}")
        self.table[target] = route

    def page(self, target: str, heading: str, content: str, fate: Fate = Fate.PAGE) -> None:
        """A page whose content does not bring its own `h1`."""
        reply = page(markup.document(heading, markup.titled(heading, content)))
        self.add(target, Route(fate, (reply,), heading))

    def redirect(self, source: str, to: str, *, status: int = 302, fate: Fate = Fate.REDIRECT) -> None:
        self.add(source, Route(fate, (redirect(to, status),), detail=to.removeprefix(self.origin)))

    def dead(self, target: str, reason: str, reply: Reply) -> None:
        self.add(target, Route(Fate.DEAD, (reply,), detail=reason))
