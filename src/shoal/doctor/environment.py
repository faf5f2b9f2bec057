"""The environment, read by who must not fail of it."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import ValidationError

from shoal.core.frozen import frozen
from shoal.settings import Settings, from_environment, variable_of, variables_in_use

_ASKED_FOR_BY = {"mail_from": "smtp_url"}
"""A setting that is wrong because it is missing → the one that asks for it."""


@frozen
class Reading:
    """The environment, read by who must not fail of it."""

    settings: Settings
    """Without the variables that are not valid."""
    flaws: Mapping[str, str]
    """Variable → what is wrong with its value."""
    variables: frozenset[str]
    """Every one that begins with SHOAL_ and is not empty, whoever reads it."""


def read_what_is_valid() -> Reading:
    """Settings from the environment as far as they are valid, and what is wrong with the others."""
    values: dict[str, str] = from_environment()
    flaws: dict[str, str] = {}
    variables = variables_in_use()
    while values:
        try:
            return Reading(Settings.model_validate(values), flaws, variables)
        except ValidationError as exc:
            told = {str(e["loc"][0]): e["msg"].removeprefix("Value error, ") for e in exc.errors(include_url=False)}
            flaws |= {variable_of(name): message for name, message in told.items()}
            at_fault = {name if name in values else _ASKED_FOR_BY.get(name, "") for name in told}
            kept: dict[str, str] = {name: value for name, value in values.items() if name not in at_fault}
            values = kept if len(kept) < len(values) else {}
    return Reading(Settings(), flaws, variables)
