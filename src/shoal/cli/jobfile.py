"""Where jobs come from: a YAML file, flags, lists of URLs. Flags win over the file."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

from shoal.core.field import split_option
from shoal.core.frozen import frozen
from shoal.core.proxies import SOURCES, ProxyPool
from shoal.core.spec import JobSpec, read_spec
from shoal.core.url import describe_problems
from shoal.errors import BadSpec, BadUrls, InputError
from shoal.proxy_pools import with_list

SCHEDULE = "schedule"
"""The part of a job file that says when the job is to run."""


def read_job_file(path: Path) -> dict[str, Any]:
    """The settings of a YAML job."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        raise InputError(f"cannot read {path}: {getattr(exc, 'strerror', None) or exc}") from exc
    import yaml

    try:
        loaded = yaml.safe_load(text)
    except yaml.YAMLError as exc:
        mark = getattr(exc, "problem_mark", None)
        place = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise BadSpec(f"{path}{place}: not valid YAML: {_problem_of(exc)}") from None
    except ValueError as exc:
        raise BadSpec(f"{path}: a value cannot be read: {exc}; put it in quotes") from exc
    if not isinstance(loaded, dict) or not all(isinstance(key, str) for key in cast(dict[Any, Any], loaded)):
        raise BadSpec(
            f"{path}: a job is a mapping of settings, for example\n  urls: [https://example.com/]\n  pages: 100"
        )
    return cast(dict[str, Any], loaded)


def _problem_of(exc: Exception) -> str:
    """What is wrong, without the words of the file that it is about: a password may begin with `*` or `!`."""
    problem = getattr(exc, "problem", None)
    return re.sub(r"\b(alias|anchor|tag|handle|directive) '.*'", r"\1", problem) if problem else "it cannot be read"


@frozen
class Written:
    """A URL as somebody has written it, and where."""

    url: str
    place: str = ""
    """Nothing for what stands in the command itself."""


def read_url_list(path: str) -> list[Written]:
    """URLs from a file, or from standard input for `-`: one a line; empty lines and # comments are skipped."""
    name = "standard input" if path == "-" else path
    try:
        text = sys.stdin.read() if path == "-" else Path(path).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as exc:
        raise InputError(f"cannot read {name}: {getattr(exc, 'strerror', None) or exc}") from exc
    text = text.removeprefix("\ufeff")
    lines = [(number, line.strip()) for number, line in enumerate(text.splitlines(), 1)]
    wanted = [(number, line) for number, line in lines if line and not line.startswith("#")]
    if not wanted:
        raise InputError(f"{name} has no URLs in it: write one a line")
    return [Written(line, f"{name}, line {number}") for number, line in wanted]


def places_in(path: Path) -> list[str]:
    """Where the URLs of a job file stand in it; nothing when that cannot be told."""
    import yaml

    root = cast(Any, yaml).compose(path.read_text(encoding="utf-8"), yaml.SafeLoader)  # which has no types
    lists = [value.value for key, value in root.value if key.value == "urls" and isinstance(value, yaml.SequenceNode)]
    return [f"{path}, line {url.start_mark.line + 1}" for url in (lists[-1] if lists else ())]


def placed(exc: BadUrls, places: Sequence[str], total: int) -> BadUrls:
    """The same error about a list of so many URLs, with where each was written as far as that is known."""
    known = places if len(places) == total else [""] * total
    told = [f"{known[number]}: {problem}" if known[number] else problem for number, problem in exc.problems]
    return BadUrls(describe_problems(told, total), exc.problems)


def read_headers(options: Iterable[str]) -> dict[str, str]:
    """`Name: value` options."""
    headers: dict[str, str] = {}
    for option in options:
        name, colon, value = option.partition(":")
        if not colon:
            raise BadSpec("--header has no colon in it: write NAME: VALUE, for example 'Accept-Language: en'")
        headers[name.strip()] = value.strip()
    return headers


def read_params(options: Iterable[str]) -> dict[str, Any]:
    """`name=value` options; a value is JSON, or else a text."""
    params: dict[str, Any] = {}
    for option in options:
        name, equals, value = option.partition("=")
        if not equals or not name.strip():
            raise BadSpec(f"--param {option!r}: write NAME=VALUE, for example language=en or most=10")
        try:
            params[name.strip()] = json.loads(value)
        except ValueError:
            params[name.strip()] = value
    return params


def make_spec(
    file: Path | None,
    flags: Mapping[str, Any],
    fields: Iterable[str],
    headers: Iterable[str],
    proxies: Sequence[str] = (),
    browser: Mapping[str, Any] = MappingProxyType({}),
    params: Iterable[str] = (),
    ignore: Sequence[str] = (),
) -> JobSpec:
    """The job from a file and flags; flags that were not given (None or empty) change nothing."""
    if proxies and flags.get("proxies"):
        raise BadSpec("--proxy and --proxies: give proxies of your own, or the name of a pool")
    values = _with_schema(read_job_file(file), file.parent) if file else {}
    values.pop(SCHEDULE, None)  # when it is to run is for who schedules it
    watched = values.get("changes")
    values |= {name: value for name, value in flags.items() if value is not None and value != []}
    if ignore or values.get("changes") is True:
        values["changes"] = _watching(watched, ignore)
    if given := dict(split_option(option) for option in fields):
        values["fields"] = _added(values.get("fields"), given)
    if sent := read_headers(headers):
        values["headers"] = _added(values.get("headers"), sent)
    if asked := {name: value for name, value in browser.items() if value is not None}:
        values["browser"] = _added(values.get("browser"), asked)
    if told := read_params(params):
        values["params"] = _added(values.get("params"), told)
    if proxies:
        values["proxies"] = _with_proxies(values.get("proxies"), proxies)
    spec = read_spec(values, str(file) if file else "the job")
    if isinstance(spec.proxies, ProxyPool):  # workers may be elsewhere, where there is no such file
        pool = with_list(spec.proxies, file.parent if file else Path.cwd())
        spec = spec.model_copy(update={"proxies": pool})
    return spec


def _with_schema(values: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The schema of its contract written out, where the job names a file beside it."""
    contract = values.get("contract")
    name = cast(dict[str, Any], contract).get("schema") if isinstance(contract, dict) else None
    if not isinstance(name, str):
        return values
    return {**values, "contract": {**cast(dict[str, Any], contract), "schema": read_job_file(folder / name)}}


def _watching(section: object, ignore: Sequence[str]) -> object:
    """What the file says about changes, with the selectors of the flags besides."""
    if section is None or isinstance(section, bool):
        return {"ignore": list(ignore)} if ignore else True
    if not isinstance(section, dict):
        return section
    known = cast(dict[str, Any], section)
    if not ignore:
        return known
    listed: Any = known.get("ignore") or ()
    return {**known, "ignore": [*((listed,) if isinstance(listed, str) else listed), *ignore]}


def _with_proxies(section: object, given: Sequence[str]) -> dict[str, Any]:
    """The proxies of the flags in place of the file's, which may say how to use them."""
    pool = cast(dict[str, Any], section) if isinstance(section, dict) else {}
    return {**{name: value for name, value in pool.items() if name not in SOURCES}, "list": list(given)}


def _added(section: object, given: dict[str, Any]) -> object:
    """What stands in the file with the flags on top; something else is left for the check to refuse."""
    if section is None:
        return given
    return {**cast(dict[str, Any], section), **given} if isinstance(section, dict) else section
