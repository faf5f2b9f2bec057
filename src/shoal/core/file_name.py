"""Names of files that come from strangers: of a URL, a title, a label."""

from __future__ import annotations

import re

MAX_BYTES = 150
"""Of a name; file systems take 255, and somebody may add an ending."""
_FORBIDDEN = frozenset('/\\:*?"<>|')
_DEVICE = re.compile(r"(con|prn|aux|nul|conin\$|conout\$|com[0-9¹²³]|lpt[0-9¹²³])\s*(\.|\Z)", re.IGNORECASE)
"""Names that Windows takes for devices, whatever ending they have."""


def safe_name(text: str) -> str:
    """A name that stays in its folder on every system: no path, no hidden file, no device; it may be empty."""
    shown = "".join("_" if char in _FORBIDDEN or not char.isprintable() else char for char in text)
    name = shown.encode("utf-8", "replace")[:MAX_BYTES].decode("utf-8", "ignore").strip(". ")
    return f"_{name}" if _DEVICE.match(name) else name
