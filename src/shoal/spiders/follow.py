"""What a spider asks for next: plain values, checked when they are made, so that the error has the spider's line."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from shoal.core.model import Level

MAX_META = 4_096
"""Bytes of JSON that a request can be sent along with: it waits in Redis with it."""
MAX_CALLBACK = 100
"""Characters of a callback's name."""
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*\Z")
_LEVELS: dict[str, Level] = {"first": Level.FIRST, "normal": Level.NORMAL, "last": Level.LAST}

Priority = Literal["first", "normal", "last"]


@dataclass(frozen=True, slots=True)
class Follow:
    """A page to fetch, and the callback that gets it.

    It is one of the job's requests like any link: hosts, patterns, depth, budgets and robots.txt decide about it, and a
    URL that the job has seen is not fetched again.
    """

    url: str
    """As the page has it: one that is not absolute is taken from the page's own."""
    callback: str = ""
    """Its name within the spider; not given: `parse`, or the spider's function."""
    priority: Priority = "normal"
    """Within its host's queue."""
    depth: int | None = None
    """Not given: one more than the page's."""
    meta: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Sent along to the callback (`page.meta`): JSON, at most 4 KB."""

    def __post_init__(self) -> None:
        if not isinstance(self.url, str) or not self.url.strip():  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ValueError(f"Follow: a URL is needed, not {self.url!r}")
        if self.callback and not is_name(self.callback):
            raise ValueError(f"Follow: {self.callback!r} is not the name of a callback")
        if self.priority not in _LEVELS:
            raise ValueError(f"Follow: priority is first, normal or last, not {self.priority!r}")
        if self.depth is not None and (isinstance(self.depth, bool) or self.depth < 0):
            raise ValueError(f"Follow: depth is a number from 0 on, not {self.depth!r}")
        _pack(self.meta)

    def onward(self, depth: int) -> FollowUp:
        """As it leaves a page of this depth."""
        asked = depth + 1 if self.depth is None else self.depth
        return FollowUp(self.url, self.callback, _LEVELS[self.priority].value, asked, _pack(self.meta))


class FollowUp(NamedTuple):
    """The same between processes. A tuple: pages may have thousands."""

    url: str
    callback: str
    level: int
    depth: int
    meta: str
    """JSON in ASCII on one line; empty for none."""


def is_name(text: str) -> bool:
    """Can this be the name of a callback?"""
    return len(text) <= MAX_CALLBACK and _NAME.match(text) is not None


def _pack(meta: Mapping[str, Any]) -> str:
    if not meta:
        return ""
    try:
        text = json.dumps(dict(meta), separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError) as exc:
        raise ValueError(f"Follow: meta must be JSON: {exc}") from exc
    if len(text) > MAX_META:
        raise ValueError(f"Follow: meta has {len(text)} bytes of JSON; at most {MAX_META} are sent along")
    return text
