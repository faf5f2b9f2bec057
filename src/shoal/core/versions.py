"""Versions of what a job takes from its pages: its own spec is the first, and others can follow over the same pages."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from shoal.core.spec import EXTRACTION, TAKING, JobSpec, read_spec
from shoal.core.values import STORED
from shoal.errors import BadSpec, InputError

FIRST_VERSION = "v1"
"""The job's own spec."""
NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,39}$"
"""Of a version."""


def check_name(version: str) -> str:
    """The name of a further version, if it can be one."""
    if version == FIRST_VERSION:
        raise InputError(f"{FIRST_VERSION} is what the job itself has taken; give another name", "version")
    if not re.fullmatch(NAME, version):
        raise InputError(
            f"{version[:60]!r} cannot be the name of a version: at most 40 letters, digits and `._-`", "version"
        )
    return version


def next_name(taken: Iterable[str]) -> str:
    """The first of v2, v3, … behind all that there are."""
    numbers = [int(found[1]) for name in taken if (found := re.fullmatch(r"v(\d{1,9})", name))]
    return f"v{max([1, *numbers]) + 1}"


def read_extraction(values: Mapping[str, Any], where: str = "the spec") -> tuple[dict[str, Any], list[str]]:
    """(the settings that say what is taken, names of settings of a job that say something else).

    What is no setting of a job at all is refused, like all that is wrong with those that are. A `contract` that is
    null says that there is none, which is something else than to say nothing.
    """
    other = [name for name in values if name in JobSpec.model_fields and name not in TAKING]
    spec = read_spec({name: value for name, value in values.items() if name not in other}, where)
    if not spec.takes_items:
        raise BadSpec(f"{where} does not say what to take from the pages: it needs one of {', '.join(EXTRACTION)}")
    dropped = {"contract": None} if "contract" in values and spec.contract is None else {}
    return {**json.loads(spec.extraction), **dropped}, other


def with_contract(spec: JobSpec, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a further version of this job, all of them: the job's contract holds for it as well.

    Unless they have one of their own, or say that there is none: then it is left out.
    """
    if "contract" not in settings:
        return {**settings, **json.loads(spec.model_dump_json(include={"contract"}, exclude_defaults=True))}
    return {name: value for name, value in settings.items() if name != "contract" or value is not None}


def with_extraction(spec: JobSpec, settings: Mapping[str, Any]) -> JobSpec:
    """The job as if it had been submitted with these settings."""
    own = spec.model_dump(mode="json", exclude=set(TAKING), exclude_defaults=True)
    return JobSpec.model_validate({**own, **settings}, context=STORED)
