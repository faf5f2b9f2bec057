"""What a job's spider is told of a page besides its body: one text, as it goes to the process apart."""

from __future__ import annotations

import json
from collections.abc import Iterable

from shoal.core.frozen import frozen


@frozen
class Brief:
    """What a spider is told of a page besides its body."""

    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    depth: int = 0
    callback: str = ""
    meta: str = ""

    def pack(self) -> str:
        """As one text, for `Wanted.brief`."""
        return json.dumps([self.status, self.headers, self.depth, self.callback, self.meta])

    @classmethod
    def unpack(cls, text: str) -> Brief:
        if not text:
            return cls()
        status, headers, depth, callback, meta = json.loads(text)
        return cls(status, tuple((name, value) for name, value in headers), depth, callback, meta)


def header_lines(headers: Iterable[tuple[bytes, bytes]]) -> tuple[tuple[str, str], ...]:
    """As text."""
    return tuple((name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in headers)
