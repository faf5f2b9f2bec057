"""What a job takes from a page: rules, read from short texts and mappings, with everything that is wrong with them.

A rule finds something (an element, a part of JSON), takes a value of it (text, attribute, html), and makes something of
that (a regular expression, a type). A rule with `fields` makes an object, one with `each` or `many` a list.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from difflib import get_close_matches
from typing import Any, cast

from shoal.core.convert import check_locale
from shoal.core.dates import check_form
from shoal.core.expressions import BadExpression, check_length, compile_jmespath, compile_xpath
from shoal.core.field import MAX_JOB_FIELDS, SOURCES, TYPES, check_selector, parse_expression, parse_key
from shoal.core.frozen import frozen
from shoal.core.pattern import BadPattern, compile_pattern
from shoal.errors import BadSpec

MAX_FIELD_DEPTH = 5
"""Objects within objects."""
MAX_FIELD_NAME_CHARS = 100
MAX_DEFAULT_CHARS = 1_000
"""Of a default or a constant, as JSON."""
TAKES = ("text", "own", "html", "exists")
"""What can be taken of an element: its text, that without its elements' text, its markup, whether it is there."""
LINKED = ("jsonld", "microdata")
CONVERTIBLE = ("number", "integer", "money", "date")
"""Types that are written differently in different countries."""
_SETTINGS = (
    *SOURCES,
    *("attribute", "as", "regex", "type", "locale", "format", "many", "each", "fields", "default", "required", "const"),
)
_TEXTS = (*SOURCES, "attribute", "as", "regex", "type", "locale", "format")
_OF_VALUES = ("attribute", "as", "regex", "type", "locale", "format")
"""For values, not for objects."""
_ABSENT = object()


@frozen
class Rule:
    """One value, object or list to take."""

    name: str
    source: str = ""
    """One of `SOURCES`, or empty for the element or JSON value that it belongs to."""
    find: str = ""
    """A selector, XPath or JMESPath; for linked data a type and a way from it."""
    path: str = ""
    """A JMESPath within the JSON that the text of an element is."""
    attribute: str = ""
    take: str = "text"
    regex: str = ""
    type: str = ""
    locale: str = ""
    format: str = ""
    many: bool = False
    fields: tuple[Rule, ...] = ()
    default: Any = None
    required: bool = False
    const: Any = _ABSENT

    @property
    def is_const(self) -> bool:
        return self.const is not _ABSENT

    @property
    def gives_json(self) -> bool:
        """Is what it finds JSON, rather than an element?"""
        return self.source in ("json", *LINKED) or bool(self.path)


class BadRules(ValueError):
    """Rules that cannot be used; says why for each, with its place."""

    def __init__(self, flaws: list[tuple[str, str]]) -> None:
        super().__init__("; ".join(f"{place}: {message}" for place, message in flaws))
        self.flaws = flaws


@frozen
class Rules:
    """All that a job takes from a page by rules."""

    fields: tuple[Rule, ...] = ()
    each: Rule | None = None
    """What there is an item for; without it, the page is one."""


def read_rules(fields: Mapping[str, Any], each: object = None) -> Rules:
    """Raises BadRules with everything that is wrong."""
    reader = _Reader([])
    top = reader.source("each", each, within_json=False) if each else None
    within_json = bool(top and top.gives_json)
    if each and not fields:
        reader.flaw("each", "there are no fields to take from each: add fields")
    rules = reader.fields("fields", fields, 1, within_json=within_json, taken=("url",))
    if reader.flaws:
        raise BadRules(reader.flaws)
    return Rules(rules, top)


class _Reader:
    """Reads rules and notes what is wrong."""

    def __init__(self, flaws: list[tuple[str, str]]) -> None:
        self.flaws = flaws
        self.count = 0

    def flaw(self, place: str, message: str) -> None:
        self.flaws.append((place, message))

    def fields(
        self, place: str, given: object, depth: int, *, within_json: bool, taken: tuple[str, ...] = ()
    ) -> tuple[Rule, ...]:
        """The rules of an object."""
        if not isinstance(given, Mapping):
            self.flaw(place, "write names with what they take, such as title: h1")
            return ()
        if depth > MAX_FIELD_DEPTH:
            self.flaw(place, f"objects can be nested {MAX_FIELD_DEPTH} deep, and not deeper")
            return ()
        settings = cast(Mapping[object, object], given)
        self.count += len(settings)
        if self.count > MAX_JOB_FIELDS:
            self.flaw(place, f"{self.count} fields; at most {MAX_JOB_FIELDS} are taken from a page")
            return ()
        rules = [self.rule(place, str(key), value, depth, within_json) for key, value in settings.items()]
        names = list(taken)
        for rule in rules:
            if rule and rule.name in names:
                self.flaw(f"{place}.{rule.name}", "there is another value of this name")
            names.append(rule.name if rule else "")
        return tuple(rule for rule in rules if rule)

    def rule(self, place: str, key: str, value: object, depth: int, within_json: bool) -> Rule | None:
        """The rule of one name."""
        try:
            parsed = parse_key(key)
        except BadSpec as exc:
            self.flaw(place, str(exc))
            return None
        if len(parsed.name) > MAX_FIELD_NAME_CHARS:
            self.flaw(place, f"a name of a field can have {MAX_FIELD_NAME_CHARS} characters: {parsed.name[:40]!r}…")
            return None
        here = f"{place}.{parsed.name}"
        settings = self.settings(here, value, within_json=within_json)
        if settings is None:
            return None
        if parsed.type and settings.setdefault("type", parsed.type) != parsed.type:
            self.flaw(here, f"its name says {parsed.type}, its type {settings['type']}")
        found = self.read(here, parsed.name, settings, depth, within_json=within_json, short=isinstance(value, str))
        return replace(found, many=True) if parsed.many else found

    def settings(self, place: str, value: object, *, within_json: bool) -> dict[str, Any] | None:
        """Those of a mapping, or those that a short text stands for."""
        if isinstance(value, str) and value.strip():
            return dict(parse_expression(value, within_json=within_json))
        if not isinstance(value, Mapping) or not value:
            self.flaw(place, "write a selector, such as h1 or img@src, or a mapping, such as {css: h1, type: number}")
            return None
        given = {str(name): setting for name, setting in cast(Mapping[object, Any], value).items()}
        for name in given:
            if name not in _SETTINGS:
                near = get_close_matches(name.lower()[:100], _SETTINGS, n=1, cutoff=0.6)
                hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(_SETTINGS)}"
                self.flaw(f"{place}.{name[:100]}", f"there is no such setting; {hint}")
        known = {name: setting for name, setting in given.items() if name in _SETTINGS}
        for name in _TEXTS:
            if name in known and not (isinstance(known[name], str) and known[name].strip()):
                self.flaw(f"{place}.{name}", "a text is needed")
                known.pop(name)
        for name in ("many", "required"):
            if not isinstance(known.get(name, False), bool):
                self.flaw(f"{place}.{name}", "true or false is needed")
                known.pop(name)
        return {name: setting.strip() if name in _TEXTS else setting for name, setting in known.items()}

    def source(self, place: str, value: object, *, within_json: bool) -> Rule | None:
        """What an `each` finds: elements, or parts of JSON."""
        settings = self.settings(place, value, within_json=within_json)
        if settings is None:
            return None
        if extra := [name for name in settings if name not in SOURCES]:
            self.flaw(f"{place}.{extra[0]}", "each only finds what there is an object for; this belongs to its fields")
        settings = {name: text for name, text in settings.items() if name in SOURCES and name != "opengraph"}
        if not settings:
            self.flaw(place, "write what there is an object for, such as .card or json:items")
            return None
        rule = self.found(place, "", settings, within_json=within_json, short=isinstance(value, str))
        return replace(rule, many=True)

    def read(
        self, place: str, name: str, settings: dict[str, Any], depth: int, *, within_json: bool, short: bool
    ) -> Rule:
        """A whole rule."""
        if "const" in settings:
            return self.constant(place, name, settings)
        if "each" in settings:
            rule = self.each(place, name, settings, within_json=within_json)
        else:
            rule = self.found(place, name, settings, within_json=within_json, short=short)
        if "fields" in settings:
            for wrong in (one for one in _OF_VALUES if one in settings):
                self.flaw(f"{place}.{wrong}", "this is for values; what has fields is an object")
            inner = within_json if rule.source == "" and not rule.path else rule.gives_json
            nested = self.fields(f"{place}.fields", settings["fields"], depth + 1, within_json=inner)
            if not settings["fields"]:
                self.flaw(f"{place}.fields", "there are no fields in it")
            rule = replace(rule, fields=nested)
        else:
            rule = self.value(place, rule, settings, within_json=within_json)
        rule = replace(rule, many=rule.many or bool(settings.get("many")), required=bool(settings.get("required")))
        return self.with_default(place, rule, settings)

    def each(self, place: str, name: str, settings: dict[str, Any], *, within_json: bool) -> Rule:
        """`each` in a field: a list of objects."""
        for wrong in (one for one in (*SOURCES, "many") if one in settings):
            self.flaw(f"{place}.{wrong}", "each says already what is found, and that it is a list")
        if "fields" not in settings:
            self.flaw(place, "each needs fields: what is taken from each; for a list of values use many: true")
        rule = self.source(f"{place}.each", settings["each"], within_json=within_json)
        return replace(rule, name=name) if rule else Rule(name, many=True)

    def found(self, place: str, name: str, settings: dict[str, Any], *, within_json: bool, short: bool) -> Rule:
        """What a rule finds."""
        given = [source for source in SOURCES if source in settings]
        both = len(given) == 2 and given[0] in ("css", "xpath") and given[1] == "json"
        if len(given) > 1 and not both:
            self.flaw(place, f"{' and '.join(given)}: one of them; only json goes with css or xpath, to read its text")
        if within_json and (wrong := [source for source in given if source != "json"]):
            self.flaw(_at(place, wrong[0], short), "this belongs to something that is JSON: there is only json here")
            return Rule(name)
        for source in given:
            self.check(_at(place, source, short), _CHECKS[source], settings[source])
        if not given:
            return Rule(name)
        return Rule(name, given[0], settings[given[0]], path=settings["json"] if both else "")

    def value(self, place: str, rule: Rule, settings: dict[str, Any], *, within_json: bool) -> Rule:
        """What is taken of what was found, and what is made of that."""
        take, kind, locale, form = (settings.get(name, "") for name in ("as", "type", "locale", "format"))
        attribute = settings.get("attribute", "").lower()
        if not rule.source and settings and not settings.keys() & {*SOURCES, *_OF_VALUES}:
            self.flaw(place, f"what is to be taken? write one of {', '.join(SOURCES)}")
        if (attribute or take) and (rule.gives_json or within_json or rule.source == "opengraph"):
            self.flaw(f"{place}.{'attribute' if attribute else 'as'}", "this is for elements")
        if attribute and take:
            self.flaw(f"{place}.as", "an attribute is a text: leave one of them out")
        self.choice(f"{place}.as", take, TAKES)
        self.choice(f"{place}.type", kind, TYPES)
        if take == "exists" and (kind or "regex" in settings):
            self.flaw(f"{place}.as", "whether something is there is a bool already: leave type and regex out")
        if locale and kind not in CONVERTIBLE:
            self.flaw(f"{place}.locale", f"this is for types that depend on it: {', '.join(CONVERTIBLE)}")
        elif locale and (problem := check_locale(locale)):
            self.flaw(f"{place}.locale", problem)
        if form and kind != "date":
            self.flaw(f"{place}.format", "this is for type: date")
        elif form and (problem := check_form(form)):
            self.flaw(f"{place}.format", problem)
        regex = settings.get("regex", "")
        if regex:
            self.check(f"{place}.regex", _check_regex, regex)
        made = {"regex": regex, "type": kind, "locale": locale, "format": form}
        return replace(rule, attribute=attribute, take=take or "text", **made)

    def constant(self, place: str, name: str, settings: dict[str, Any]) -> Rule:
        if extra := [one for one in settings if one != "const"]:
            self.flaw(f"{place}.{extra[0]}", "a constant is always the same: leave this out")
        self.plain(f"{place}.const", settings["const"])
        return Rule(name, const=settings["const"])

    def with_default(self, place: str, rule: Rule, settings: dict[str, Any]) -> Rule:
        if "default" not in settings:
            return rule
        if rule.required:
            self.flaw(f"{place}.required", "a field with a default is never missing: leave one of them out")
        self.plain(f"{place}.default", settings["default"])
        return replace(rule, default=settings["default"])

    def plain(self, place: str, value: object) -> None:
        """Only JSON of some length can be given as a value."""
        if not _is_json(value, MAX_FIELD_DEPTH):
            self.flaw(place, "a JSON value is needed: text, number, true, false, null, list or object")
        elif len(str(value)) > MAX_DEFAULT_CHARS:
            self.flaw(place, f"it can have {MAX_DEFAULT_CHARS} characters")

    def choice(self, place: str, given: str, choices: tuple[str, ...]) -> None:
        if given and given not in choices:
            near = get_close_matches(given.lower()[:100], choices, n=1, cutoff=0.6)
            hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(choices)}"
            self.flaw(place, f"there is no {given[:40]!r}; {hint}")

    def check(self, place: str, check: Callable[[str], object], text: str) -> None:
        try:
            check_length(text)
            check(text)
        except (BadExpression, BadPattern, BadSpec) as exc:
            self.flaw(place, str(exc))


def _at(place: str, setting: str, short: bool) -> str:
    """A short text has no settings to point at."""
    return place if short else f"{place}.{setting}"


def _is_json(value: object, depth: int) -> bool:
    if value is None or isinstance(value, str | bool | int | float):
        return True
    if depth == 0:
        return False
    if isinstance(value, list):
        return all(_is_json(part, depth - 1) for part in cast(list[object], value))
    if isinstance(value, dict):
        parts = cast(dict[object, object], value).items()
        return all(isinstance(name, str) and _is_json(part, depth - 1) for name, part in parts)
    return False


def _check_regex(text: str) -> None:
    try:
        compile_pattern(text)
    except BadPattern as exc:
        raise BadPattern(f"{text[:100]!r} is not a regular expression: {exc}") from exc


def _check_linked(text: str) -> None:
    names = text.split(".")
    if not all(names) or not (names[0] == "*" or names[0][0].isalpha()) or any(mark in text for mark in "[]|()`\"' "):
        raise BadExpression(f"{text!r}: write a type, and the way from it, such as Product.offers.price; * is any type")


def _check_opengraph(text: str) -> None:
    if not all(part.replace("_", "").replace("-", "").isalnum() for part in text.split(":")):
        raise BadExpression(f"{text!r}: write a property, such as title, image or product:price:amount")


_CHECKS: dict[str, Callable[[str], object]] = {
    "css": check_selector,
    "xpath": compile_xpath,
    "json": compile_jmespath,
    "jsonld": _check_linked,
    "microdata": _check_linked,
    "opengraph": _check_opengraph,
}
