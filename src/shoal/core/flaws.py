"""All that is wrong with what somebody sent, each with its place, and the name that was probably meant."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from shoal.core.browsing import VERBS, Browsing
from shoal.core.frozen import frozen
from shoal.core.headers import HEADER_NAME
from shoal.core.noise import Watching
from shoal.core.proxies import PROXY_KINDS
from shoal.core.redact import without_bare_login
from shoal.core.rules import BadRules

_SECTIONS: dict[str, type[BaseModel]] = {"browser": Browsing, "changes": Watching}
"""Settings that are mappings of settings."""
_MOST_MEANT = 100
"""Characters of a name for which one that was probably meant is looked for."""
_SHOWN_CHARS = 200
_PLAIN = {"tuple_type": "a list is needed", "list_type": "a list is needed", "dict_type": "an object is needed"}
"""In place of Python's words."""
_SECRET_PLACES = ("headers", "proxies", "output", "browser.cookies", "browser.actions")
"""Settings of which a refusal does not repeat what was given; nor of those that these are part of."""
JOB = "job"
"""The setting of something larger that is a whole job."""


@frozen
class Flaw:
    """One thing that is wrong with what somebody sent."""

    place: str
    """A field, such as `rate` or `fields.title`; empty for the whole."""
    message: str


def flaws_of(
    exc: ValidationError, values: Mapping[str, Any], model: type[BaseModel], elsewhere: Collection[str] = ()
) -> list[Flaw]:
    """Everything that is wrong, each with its place; a name that was probably meant is named.

    Names `elsewhere` are settings of a job that the model has not: they can be given when it is submitted.
    """
    messages: dict[str, list[str]] = {}
    shown: dict[str, str] = {}
    for error in exc.errors(include_url=False):
        if isinstance(cause := error.get("ctx", {}).get("error"), BadRules):
            for place, message in cause.flaws:
                messages.setdefault(place, []).append(message)
                shown[place] = ""
            continue
        place = _place(error["loc"])
        messages.setdefault(place, []).append(_message(dict(error), place, values, model, elsewhere))
        shown[place] = _shown(dict(error), place)
    return [
        Flaw(place, without_bare_login("; or ".join(dict.fromkeys(texts)) + shown[place]))
        for place, texts in messages.items()
    ]


def _message(
    error: dict[str, Any], place: str, values: Mapping[str, Any], model: type[BaseModel], elsewhere: Collection[str]
) -> str:
    if error["type"] == "extra_forbidden":
        if place in elsewhere:
            return "this can be set only when a job is submitted"
        names, given = _settings(model, values, place)
        near = get_close_matches(_in_job(place).lower()[:_MOST_MEANT], names, n=1, cutoff=0.6)
        hint = f"; did you mean {near[0]!r}?" if near and near[0] not in given else _hint(_in_job(place))
        return f"there is no such setting{hint}"
    if error["type"] == "model_type":
        return "a JSON object is needed"
    if error["type"] in _PLAIN:
        return _PLAIN[error["type"]]
    message = str(error["msg"]).removeprefix("Value error, ")
    return message[:1].lower() + message[1:]


def _settings(
    model: type[BaseModel], values: Mapping[str, Any], place: str
) -> tuple[Collection[str], Mapping[str, Any]]:
    """The settings that there are at a place, and those that were given."""
    if _in_job(place) == place or JOB not in model.model_fields:
        return model.model_fields, values
    kind = model.model_fields[JOB].annotation
    kinds = [one for one in (kind, *get_args(kind)) if isinstance(one, type) and issubclass(one, BaseModel)]
    return kinds[0].model_fields, values[JOB]


def _in_job(place: str) -> str:
    return place.removeprefix(f"{JOB}.")


def _hint(place: str) -> str:
    """What was probably meant within `browser` or `changes`, or what there is."""
    section, _, name = place.rpartition(".")
    if section.startswith("browser.actions.") and section.count(".") == 2:
        return f"; there are {', '.join(VERBS)}"
    known = _SECTIONS[section].model_fields if section in _SECTIONS else ()
    near = get_close_matches(name.lower()[:_MOST_MEANT], known, n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


def _shown(error: dict[str, Any], place: str) -> str:
    """What was given, unless it may be a secret or says nothing."""
    silent = error["type"] in ("extra_forbidden", "model_type", "missing") or not place
    if silent or _in_job(place).startswith(_SECRET_PLACES) or _in_job(place) in ("browser", JOB):
        return ""
    try:
        text = repr(error["input"])
    except RecursionError:
        return ""
    return f" (got {text if len(text) <= _SHOWN_CHARS else text[:_SHOWN_CHARS] + '…'})"


def _place(loc: Sequence[int | str]) -> str:
    if loc and loc[0] == JOB:
        return f"{JOB}.{_place(loc[1:])}".removesuffix(".")
    if loc and loc[0] == "headers" and not all(HEADER_NAME.fullmatch(str(part)) for part in loc):
        return "headers"
    names = [str(part) for part in loc if not (isinstance(part, str) and part.startswith(("constrained", "literal")))]
    return ".".join(name for name in names if name not in ("float", "int", *PROXY_KINDS))
