"""What of a page's content a job asks for: `formats`, a list of names, or a mapping that says of what each is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Annotated, Any, Literal, cast

from pydantic import BeforeValidator, WithJsonSchema

MAIN, PAGE = "main", "page"
FORMATS = {"markdown": MAIN, "text": MAIN, "html": MAIN, "links": PAGE, "metadata": PAGE}
"""Each with what it is of when nobody says."""

Extent = Literal["main", "page"]
"""The main content, or the whole page."""


def read_formats(given: object) -> dict[str, Extent]:
    """`[markdown, metadata]`, `{markdown: page}` or `markdown`, as name → extent."""
    if isinstance(given, str):
        return read_formats([given])
    if isinstance(given, Mapping):
        pairs: Iterable[tuple[object, object]] = cast("Mapping[object, object]", given).items()
    elif isinstance(given, (list, tuple)):
        pairs = map(_pair_of, cast("list[object]", given))
    else:
        raise ValueError(f"a list of formats is needed: {', '.join(FORMATS)}")  # noqa: TRY004 - pydantic takes it
    return dict(_checked(*pair) for pair in pairs)


def _pair_of(entry: object) -> tuple[object, object]:
    """An entry of a list: `markdown`, `markdown=page`, or `{markdown: page}`."""
    if isinstance(entry, str):
        name, equals, extent = entry.partition("=")
        return name.strip(), extent.strip() if equals else None
    if isinstance(entry, Mapping) and len(cast("Mapping[object, object]", entry)) == 1:
        return next(iter(cast("Mapping[object, object]", entry).items()))
    return cast(object, entry), None


def _checked(name: object, extent: object) -> tuple[str, Extent]:
    if not isinstance(name, str) or name not in FORMATS:
        near = get_close_matches(str(name).lower()[:50], FORMATS, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(FORMATS)}"
        raise ValueError(f"there is no format {str(name)[:50]!r}; {hint}")
    if extent is None:
        return name, cast(Extent, FORMATS[name])
    if extent not in (MAIN, PAGE):
        raise ValueError(f"{name}: {str(extent)[:50]!r} is neither main, its main content, nor page, all of it")
    if name == "metadata" and extent == MAIN:
        raise ValueError("metadata is of the page: write metadata alone")
    return name, extent


_NAMES: dict[str, Any] = {"type": "string", "enum": list(FORMATS)}
_EXTENTS = {"type": "object", "additionalProperties": False, "properties": {
    name: {"enum": [PAGE] if name == "metadata" else [MAIN, PAGE]} for name in FORMATS
}}  # fmt: skip

Formats = Annotated[
    dict[str, Extent],
    BeforeValidator(read_formats),
    WithJsonSchema({"anyOf": [{"type": "array", "items": _NAMES}, _EXTENTS]}),
]
