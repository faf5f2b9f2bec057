"""Regular expressions from users, which are searched in URLs from strangers.

Python tries all ways in which a pattern can match, and a URL made for it can keep it busy for ever. RE2 takes time that
grows with the length of the URL and not faster. For that it knows neither lookarounds nor back references.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Protocol, cast

import re2 as untyped

MAX_PATTERN_CHARS = 1_000
"""Of one `allow` or `deny`."""
MAX_PROGRAM = 1_000
"""Steps of a compiled pattern: each character of a URL takes so many at the most."""

_LOOKAROUNDS = ("(?=", "(?!", "(?<=", "(?<!")
_BACK_REFERENCE = re.compile(r"\\[0-9]+")

_re2 = cast(Any, untyped)
_OPTIONS = _re2.Options()
_OPTIONS.log_errors = False


class BadPattern(ValueError):
    """It cannot be used; says why."""


class Pattern(Protocol):
    """A compiled pattern."""

    def search(self, text: str, /) -> object | None:
        """What matches anywhere, or None."""
        ...


@lru_cache(maxsize=1000)
def compile_pattern(text: str) -> Pattern:
    """Raises BadPattern."""
    if len(text) > MAX_PATTERN_CHARS:
        raise BadPattern(f"it is longer than {MAX_PATTERN_CHARS} characters")
    try:
        found = _re2.compile(text, _OPTIONS)
    except _re2.error as exc:
        raise BadPattern(_reason(exc)) from None
    if found.programsize > MAX_PROGRAM:
        raise BadPattern("it has too many parts, or repeats that count too far")
    return found


def _reason(exc: Exception) -> str:
    said = exc.args[0] if exc.args else ""
    words = said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)
    what = words.rpartition(": ")[2]
    if what.startswith(_LOOKAROUNDS):
        return f"{what} begins a lookaround, which RE2 does not know; `deny` leaves out what `allow` lets in"
    if _BACK_REFERENCE.fullmatch(what):
        return f"{what} is a back reference, which RE2 does not know"
    return f"{words}; RE2 writes it \\z" if what == "\\Z" else words
