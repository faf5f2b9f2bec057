"""Expressions of users in XPath and JMESPath, checked when they come and compiled once.

Pages of strangers are searched with them, so neither may do more than search: XPath has the functions of its own
standard and no others, no namespaces and no documents besides the page; JMESPath has no others than its own either.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from difflib import get_close_matches
from functools import lru_cache
from typing import Any, cast

MAX_EXPRESSION_CHARS = 1_000
"""Of one XPath, JMESPath or regular expression of a field."""

_FUNCTIONS = frozenset(
    [
        "last",
        "position",
        "count",
        "local-name",
        "namespace-uri",
        "name",
        "string",
        "concat",
        "starts-with",
        "contains",
        "substring-before",
        "substring-after",
        "substring",
        "string-length",
        "normalize-space",
        "translate",
        "boolean",
        "not",
        "true",
        "false",
        "lang",
        "number",
        "sum",
        "floor",
        "ceiling",
        "round",
    ]
)
_TESTS = frozenset({"text", "node", "comment", "processing-instruction"})
_OPERATORS = frozenset({"and", "or", "div", "mod"})
_LITERAL = re.compile(r"\"[^\"]*\"|'[^']*'")
_CALL = re.compile(r"([A-Za-z_][\w.-]*)\s*\(")
_PREFIX = re.compile(r"([A-Za-z_][\w.-]*):(?!:)(?<!::)[A-Za-z_*]")
_ROAMING = re.compile(r"//|\b(?:descendant|ancestor|following|preceding)\b")
_JSON_LITERAL = re.compile(r"`(?:[^`\\]|\\.)*`|\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'")

Search = Callable[[Any], Any]


class BadExpression(ValueError):
    """It cannot be used; says why."""


def check_length(text: str) -> None:
    """Raises BadExpression."""
    if not text:
        raise BadExpression("it is empty")
    if len(text) > MAX_EXPRESSION_CHARS:
        raise BadExpression(f"it is longer than {MAX_EXPRESSION_CHARS} characters")


@lru_cache(maxsize=1000)
def compile_xpath(text: str) -> Search:
    """From an element to what is found from there; raises BadExpression."""
    from lxml import etree

    check_length(text)
    _check_names(_LITERAL.sub("''", text))
    try:
        found = etree.XPath(text, regexp=False, smart_strings=False)
        found(etree.Element("html"))
    except (etree.XPathError, ValueError) as exc:
        raise BadExpression(f"{text!r} is not an XPath: {_words(exc)}") from exc
    return cast(Search, found)


@lru_cache(maxsize=1000)
def compile_jmespath(text: str) -> Search:
    """From a JSON value to what is found in it; raises BadExpression."""
    import jmespath
    from jmespath import exceptions

    check_length(text)
    try:
        found = jmespath.compile(text)
    except (exceptions.JMESPathError, ValueError, RecursionError) as exc:
        raise BadExpression(f"{text!r} is not a JMESPath: {_words(exc)}") from exc
    _check_calls(cast(dict[str, Any], found.parsed))

    def search(value: Any) -> Any:
        try:
            return found.search(value)
        except (exceptions.JMESPathError, ValueError, TypeError, ArithmeticError, RecursionError):  # nothing like it
            return None

    return search


@lru_cache(maxsize=1000)
def xpath_roams(text: str) -> int:
    """How often it must try all elements of a page, one in the other; rather too many."""
    plain = _LITERAL.sub("''", text)
    calls = [name for name in _CALL.findall(plain) if name in _FUNCTIONS and name not in ("last", "position", "not")]
    return max(1, len(_ROAMING.findall(plain)) + len(calls))


@lru_cache(maxsize=1000)
def jmespath_growth(text: str) -> int:
    """How often what it gives may double: each comma of `[a, b]` can give the whole once more."""
    return _JSON_LITERAL.sub("", text).count(",")


def _check_calls(node: dict[str, Any]) -> None:
    """Else a function that does not exist is found out when there is something to call it with."""
    from jmespath.functions import Functions

    known = cast(dict[str, Any], cast(Any, Functions).FUNCTION_TABLE)
    if node["type"] == "function_expression" and node["value"] not in known:
        near = get_close_matches(str(node["value"]), known, n=1)
        raise BadExpression(
            f"JMESPath has no function {node['value']}()" + (f"; did you mean {near[0]}()?" if near else "")
        )
    for child in node["children"]:
        if isinstance(child, dict):
            _check_calls(cast(dict[str, Any], child))


def _check_names(plain: str) -> None:
    if "$" in plain:
        raise BadExpression("there are no variables ($)")
    for name in _CALL.findall(plain):
        if name in _FUNCTIONS or name in _TESTS or name in _OPERATORS:
            continue
        near = get_close_matches(name, _FUNCTIONS | _TESTS, n=1)
        raise BadExpression(f"XPath 1.0 has no function {name}()" + (f"; did you mean {near[0]}()?" if near else ""))
    if prefix := _PREFIX.search(plain):
        raise BadExpression(f"{prefix[1]}: is a namespace, and pages have none here; write *[name()='{prefix[1]}:…']")


def _words(exc: Exception) -> str:
    return " ".join(str(exc).split())[:200]
