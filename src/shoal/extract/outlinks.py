"""All that a page leads to, packed: hrefs as they stood in it, so that they go the way of links once more.

What is kept is what was found, not what became of it: the next job may have other bounds, and begins with an empty
memory of links.
"""

from __future__ import annotations

from typing import Any

import orjson
from isal import isal_zlib

from shoal.core.frozen import frozen
from shoal.extract.findings import Findings
from shoal.spiders.follow import FollowUp

PACKED_LEVEL = 1
MAX_UNPACKED = 64_000_000
"""Bytes; a page has no more links than its caps allow, which is far below."""


_LEAST = 5
_MISSING: list[Any] = [(), (), ()]
"""What is left out at the end, as mostly nothing of it is there."""


@frozen
class Written:
    """What was written down of a page."""

    findings: Findings
    links_read: bool
    """Were its links looked for? Not at the deepest level, for instance."""
    nofollow: bool = False
    """It asks that none of them is followed, of a job that heeds this."""

    def pack(self) -> bytes | None:
        """None for what cannot be written down, half a character for instance: then the page is read again."""
        found = self.findings
        parts: list[Any] = [
            int(self.links_read),
            int(self.nofollow),
            found.base,
            found.kind,
            found.hrefs,
            found.further,
            found.stale,
            [tuple(each) for each in found.requests],
        ]
        while len(parts) > _LEAST and not parts[-1]:
            parts.pop()
        try:
            return isal_zlib.compress(orjson.dumps(parts), PACKED_LEVEL)
        except TypeError:
            return None

    @classmethod
    def unpack(cls, packed: bytes) -> Written:
        """Raises ValueError when this is none."""
        try:
            stream = isal_zlib.decompressobj()
            parts: list[Any] = orjson.loads(stream.decompress(packed, MAX_UNPACKED))
            read, nofollow, base, kind, hrefs, further, stale, requests = parts + _MISSING[len(parts) - _LEAST :]
        except (isal_zlib.error, TypeError) as exc:
            raise ValueError(f"not written down here: {exc}") from exc
        follow_ups = tuple(FollowUp(*each) for each in requests)
        found = Findings(base, hrefs=tuple(hrefs), kind=kind, further=tuple(further), stale=tuple(stale),
                         requests=follow_ups)  # fmt: skip
        return cls(found, bool(read), bool(nofollow))
