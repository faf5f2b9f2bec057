"""Simple fields: `name=selector`, `name=selector@attribute`, `name[]=selector` for a list.

The same short form stands on the command line (`--field image=img@src`) and, split at the equals sign, in a job file
(`image: img@src`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from selectolax.lexbor import LexborHTMLParser, SelectolaxError

from shoal.errors import BadSpec

MAX_JOB_FIELDS = 200
"""Of a job."""
MAX_SELECTOR_CHARS = 1_000
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*\Z")
_ATTRIBUTE = re.compile(r"@([A-Za-z_:][A-Za-z0-9_.:-]*)\Z")


@dataclass(frozen=True, slots=True)
class Field:
    """One value, or list of values, to take from a page."""

    name: str
    selector: str
    attribute: str | None = None
    many: bool = False


def parse_field(name: str, expression: str) -> Field:
    """A field from its name (`tags[]`) and expression (`.tag`, `img@src`)."""
    plain = name.strip().removesuffix("[]")
    if not _NAME.match(plain):
        raise BadSpec(f"field name {name!r}: use letters, digits and _ (and [] at the end for a list)")
    text = expression.strip()
    attribute = _ATTRIBUTE.search(text)
    selector = text[: attribute.start()].strip() if attribute else text
    _check(plain, selector)
    return Field(plain, selector, attribute[1].lower() if attribute else None, name.strip().endswith("[]"))


def parse_fields(fields: Mapping[str, str]) -> tuple[Field, ...]:
    return tuple(parse_field(name, expression) for name, expression in fields.items())


def split_option(option: str) -> tuple[str, str]:
    """`image=img@src` → (`image`, `img@src`)."""
    name, equals, expression = option.partition("=")
    if not equals or not expression.strip():
        raise BadSpec(f"--field {option!r}: write NAME=SELECTOR, for example title=h1 or image=img@src")
    return name.strip(), expression.strip()


def check_selector(selector: str) -> None:
    """Raises BadSpec unless it can be parsed."""
    if len(selector) > MAX_SELECTOR_CHARS:
        raise BadSpec(f"a selector of {len(selector)} characters; at most {MAX_SELECTOR_CHARS} are taken")
    try:
        LexborHTMLParser("").css(selector)
    except SelectolaxError as exc:
        raise BadSpec(f"{selector!r} is not a CSS selector that can be parsed") from exc


def _check(name: str, selector: str) -> None:
    try:
        check_selector(selector)
    except BadSpec as exc:
        raise BadSpec(f"field {name!r}: {exc}") from exc
