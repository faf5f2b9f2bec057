"""Messages in the shape that a receiver wants: a JSON document whose texts have `{names}` of facts in them.

A name stands for a fact within a text, and becomes JSON with that text: nothing that a page or a job says can break out
of it. A text that is one name and nothing else takes the fact with its type. `{{` and `}}` are braces.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, cast

import orjson

from shoal.errors import InputError

MAX_TEMPLATE_CHARS = 10_000
MAX_TEMPLATE_DEPTH = 20
MAX_FILLED_CHARS = 4_000
"""Of one fact within a text."""
ROOTS = ("id", "type", "timestamp", "summary")
FACTS = (
    *("job", "name", "labels", "request_id", "created_at", "state", "started_at", "ended_at", "elapsed_seconds"),
    *("pages", "errors", "received_bytes", "reasons", "drift", "count", "first_id", "last_id", "items", "changes"),
)
"""What `data` can have, each in some events; where an event has it not, the text is empty."""
PRESETS: Mapping[str, str] = {
    "slack": '{"text": "{summary|mrkdwn}"}',
    "discord": '{"content": "{summary}", "allowed_mentions": {"parse": []}}',
    "teams": (
        '{"type": "message", "attachments": [{"contentType": "application/vnd.microsoft.card.adaptive", "content": '
        '{"type": "AdaptiveCard", "version": "1.4", "body": [{"type": "TextBlock", "text": "{summary}", "wrap": true}]'
        "}}]}"
    ),
}
FILTERS = ("mrkdwn",)
"""For Slack, where `<!channel>` in a job's name would call everybody."""

_PART = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")
_NAME = re.compile(r"([a-z_]+(?:\.[A-Za-z0-9_-]+)*)(?:\|([a-z]+))?")
_MRKDWN = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


def check_template(text: str) -> str:
    """A preset's name or a template, as it is; raises InputError when it cannot be used."""
    if not text or text in PRESETS:
        return text
    if len(text) > MAX_TEMPLATE_CHARS:
        raise InputError(f"a template has at most {MAX_TEMPLATE_CHARS} characters, not {len(text)}", "template")
    try:
        document = orjson.loads(text)
    except orjson.JSONDecodeError as exc:
        known = ", ".join(PRESETS)
        raise InputError(
            f"a template is a JSON document, or one of {known}; this is neither: {exc}", "template"
        ) from exc
    if not isinstance(document, dict | list):
        raise InputError('a template is a JSON object or list, such as {"text": "{summary}"}', "template")
    for each in _texts(cast(object, document), 0):
        _check_text(each)
    return text


def fill_template(text: str, facts: Mapping[str, Any]) -> bytes:
    """The message, as JSON."""
    return orjson.dumps(_filled(orjson.loads(PRESETS.get(text, text)), facts))


def _texts(node: object, depth: int) -> Iterator[str]:
    if depth > MAX_TEMPLATE_DEPTH:
        raise InputError(f"a template has at most {MAX_TEMPLATE_DEPTH} objects and lists within each other", "template")
    if isinstance(node, str):
        yield node
    parts = cast(Mapping[str, object], node).values() if isinstance(node, dict) else node
    for part in cast(list[object], parts) if isinstance(node, dict | list) else ():
        yield from _texts(part, depth + 1)


def _check_text(text: str) -> None:
    for match in _PART.finditer(text):
        if match[0] in ("{", "}"):
            raise InputError(
                f"a template's text has a lone {match[0]!r}; write it twice to mean it: {text[:80]!r}", "template"
            )
        if match[1] is not None:
            _check_name(match[1])


def _check_name(inner: str) -> None:
    named = _NAME.fullmatch(inner)
    if not named:
        raise InputError(f"{{{inner[:60]}}} is no name of a fact, such as {{summary}} or {{data.pages}}", "template")
    root, _, rest = named[1].partition(".")
    if (rest or root == "data") and (root != "data" or rest.partition(".")[0] not in FACTS):
        raise InputError(f"there is no {{{inner[:60]}}}; `data` has {', '.join(FACTS)}", "template")
    if not rest and root not in ROOTS:
        raise InputError(f"there is no {{{inner[:60]}}}; there are {', '.join(ROOTS)} and data.…", "template")
    if named[2] and named[2] not in FILTERS:
        raise InputError(f"{{{inner[:60]}}}: there is no filter {named[2]!r}, but {', '.join(FILTERS)}", "template")


def _filled(node: object, facts: Mapping[str, Any]) -> object:
    if isinstance(node, str):
        return _filled_text(node, facts)
    if isinstance(node, dict):
        return {key: _filled(part, facts) for key, part in cast(dict[str, object], node).items()}
    return [_filled(part, facts) for part in cast(list[object], node)] if isinstance(node, list) else node


def _filled_text(text: str, facts: Mapping[str, Any]) -> object:
    whole = _PART.fullmatch(text)
    if whole and whole[1] is not None and "|" not in whole[1]:
        return _look_up(whole[1], facts)
    return _PART.sub(lambda match: _replacement(match, facts), text)


def _replacement(match: re.Match[str], facts: Mapping[str, Any]) -> str:
    if match[1] is None:
        return match[0][:1]
    name, _, chosen = match[1].partition("|")
    text = _as_text(_look_up(name, facts))[:MAX_FILLED_CHARS]
    return text.translate(_MRKDWN) if chosen == "mrkdwn" else text


def _look_up(name: str, facts: Mapping[str, Any]) -> object:
    found: object = facts
    for part in name.split("."):
        found = cast(Mapping[str, object], found).get(part) if isinstance(found, dict) else None
    return "" if found is None else found


def _as_text(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(each, str) for each in cast(list[object], value)):
        return ", ".join(cast(list[str], value))
    return orjson.dumps(value).decode()
