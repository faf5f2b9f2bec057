"""The short form of a field: `NAME[]:TYPE=SOURCE:EXPRESSION@ATTRIBUTE`; a name and an expression are enough.

The same short form stands on the command line (`--field price:money=.price`) and, split at the equals sign, in a job
file (`price:money: .price`). What it cannot say, a mapping can: `core/rules.py` reads both.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from selectolax.lexbor import LexborHTMLParser, SelectolaxError

from shoal.core.frozen import frozen
from shoal.errors import BadSpec

MAX_JOB_FIELDS = 200
"""Of a job, with those of nested objects."""
MAX_SELECTOR_CHARS = 1_000
SOURCES = ("css", "xpath", "json", "jsonld", "microdata", "opengraph")
"""What may stand before a colon, and say in which language the rest is."""
TYPES = ("text", "number", "integer", "money", "date", "url", "bool", "json")
ITSELF = "."
"""The element that the field belongs to."""

_KEY = re.compile(r"(?P<name>[A-Za-z_][A-Za-z0-9_.-]*)(?P<many>\[\])?(?::(?P<type>[A-Za-z]+))?")
_SOURCE = re.compile(rf"(?P<source>{'|'.join(SOURCES)})\s*:\s*(?P<rest>.*)", re.DOTALL)
_ATTRIBUTE = re.compile(r"@([A-Za-z_:][A-Za-z0-9_.:-]*)\Z")
_XPATH = ("/", "(", "./", "..")


@frozen
class Key:
    """What the name of a field says."""

    name: str
    many: bool = False
    type: str = ""


def parse_key(text: str) -> Key:
    """`prices[]:money` → a list of money by the name of `prices`; raises BadSpec."""
    match = _KEY.fullmatch(text.strip())
    if match is None:
        raise BadSpec(
            f"field name {text[:100]!r}: use letters, digits and _ (and [] at the end for a list, :TYPE for a type)"
        )
    return Key(match["name"], bool(match["many"]), match["type"] or "")


def field_names(keys: Iterable[str]) -> tuple[str, ...]:
    """The names alone, in their order."""
    return tuple(parse_key(key).name for key in keys)


def parse_expression(text: str, *, within_json: bool = False) -> dict[str, str]:
    """The settings of a rule that a short text stands for: `img@src` → css and attribute."""
    text = text.strip()
    if match := _SOURCE.match(text):
        source, rest = match["source"], match["rest"].strip()
    elif within_json:
        source, rest = "json", text
    else:
        source, rest = ("xpath" if text.startswith(_XPATH) else "css"), text
    if source != "css":
        return {source: rest}
    attribute = _ATTRIBUTE.search(rest)
    selector = rest[: attribute.start()].strip() if attribute else rest
    settings = {} if (attribute and not selector) or selector == ITSELF else {"css": selector}
    return {**settings, "attribute": attribute[1].lower()} if attribute else settings


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
