"""A JSON answer as a page: a value instead of a tree, under the same caps."""

from __future__ import annotations

from codecs import BOM_UTF8
from dataclasses import field
from typing import Any

from shoal.core.frozen import frozen
from shoal.core.json_text import read_json
from shoal.core.url import Base
from shoal.extract.allowance import Allowance
from shoal.fetch.decode import decode_text

JSON_TYPES = frozenset({"application/json", "text/json", "application/x-json"})


def is_json(media_type: str) -> bool:
    """By its media type: application/json, or anything that ends in +json."""
    return media_type in JSON_TYPES or media_type.endswith("+json")


@frozen
class Document:
    """A JSON answer with the base of addresses in it."""

    value: Any
    base: Base
    allowance: Allowance = field(default_factory=Allowance)

    @classmethod
    def parse(cls, body: bytes, charset: str, base: Base) -> Document:
        """JSON is UTF-8, whatever its header says, unless it cannot be that. What cannot be read is null, and noted."""
        for text in (body.removeprefix(BOM_UTF8), decode_text(body, charset)):
            try:
                return cls(read_json(text), base)
            except ValueError:
                continue
        document = cls(None, base)
        document.allowance.unreadable = True
        return document
