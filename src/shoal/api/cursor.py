"""Places in lists, as opaque text for clients."""

from __future__ import annotations

import base64
import binascii
from typing import cast

import orjson

from shoal.api.problems import BadValue

Place = list[int | str]


def write(place: Place) -> str:
    """A cursor for this place."""
    return base64.urlsafe_b64encode(orjson.dumps(place)).decode().rstrip("=")


def read(cursor: str | None, *kinds: type[int] | type[str]) -> Place | None:
    """The place of a cursor; it must have parts of these kinds."""
    if not cursor:
        return None
    try:
        place: object = orjson.loads(base64.b64decode(cursor + "=" * (-len(cursor) % 4), b"-_", validate=True))
    except (binascii.Error, ValueError) as exc:
        raise BadValue("cursor", "this is not one that Shoal has given") from exc
    parts = cast(Place, place) if isinstance(place, list) else []
    if [type(part) for part in parts] != list(kinds):
        raise BadValue("cursor", "this is not one of this list")
    if not all(_is_possible(part) for part in parts):
        raise BadValue("cursor", "this is not one that Shoal has given")
    return parts


def _is_possible(part: int | str) -> bool:
    return 0 <= part < 2**63 if isinstance(part, int) else "\0" not in part
