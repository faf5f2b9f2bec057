"""Headers that users want sent along: what can stand there."""

from __future__ import annotations

import re

from shoal.core.redact import HIDDEN

HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
"""What is none may be a value that somebody has put in its place."""
OF_BODIES = frozenset({"content-length", "transfer-encoding"})
"""Headers that no GET has: a server that believes them takes the next request on the connection, another job's maybe,
for a body."""


def check_header(number: int, name: str, value: str, *, stored: bool = False) -> None:
    """Raise ValueError when it is no header, or not yet its value; what is `stored` was checked when it came."""
    if not HEADER_NAME.fullmatch(name):  # not repeated: somebody may have put the value there
        raise ValueError(f"the name of header {number} is empty or has characters that are not allowed")
    if value.strip() == HIDDEN and not stored:
        raise ValueError(f"{HIDDEN} stands for the value of {name!r}, which is not shown; write it")


def check_header_of_get(number: int, name: str, value: str, *, stored: bool = False) -> None:
    """The same for one that goes out with a page's request."""
    check_header(number, name, value, stored=stored)
    if not value.isprintable():
        raise ValueError(f"header {name!r} has control characters in its value")
    if name.lower() in OF_BODIES and not stored:
        raise ValueError(f"header {name!r} speaks of a body, and a GET has none; leave it out")
