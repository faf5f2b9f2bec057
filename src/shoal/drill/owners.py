"""Whose lease is it? Redis does not tell, but the site's log does: it knows who asked for a group's pages."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from shoal.drill.evidence import Held
from shoal.drill.site import Hit


def held_by(worker: int, leased: Iterable[Held], hits: Iterable[Hit]) -> set[Held]:
    """What a worker holds of all that is leased, or may hold: of what nobody has asked for yet, nobody can tell.

    A group is leased by one worker with one call, so that one request tells about the whole group.
    """
    fetches: defaultdict[str, list[Hit]] = defaultdict(list)
    for hit in hits:
        fetches[hit.url].append(hit)
    groups: defaultdict[str, set[Held]] = defaultdict(set)
    for held in leased:
        groups[held.group].add(held)
    found: set[Held] = set()
    for group in groups.values():
        askers = {hit.worker for held in group for hit in fetches[held.url] if hit.at >= held.since}
        if not askers or worker in askers:
            found |= group
    return found
