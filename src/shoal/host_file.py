"""Limits of hosts from a YAML file: what an operator keeps beside the other configuration.

    hosts:
      shop.example: {rate: 30/m, parallel: 1, note: agreed by mail}
      "@example.org": {paused: true}

A file that is bad at the start is an error. One that becomes bad later is logged, and what it said before holds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import structlog
from pydantic import BaseModel, ConfigDict, Field, Strict, ValidationError

from shoal.core.flaws import flaws_of
from shoal.core.host_name import host_name
from shoal.core.spec import JobSpec, Parallel, Rate
from shoal.errors import InputError
from shoal.store.host_limits import HostLimit

if TYPE_CHECKING:
    import yaml  # else where a file is read: most installations have none

log = structlog.get_logger()

MAX_BYTES = 10_000_000
MAX_NOTE_CHARS = 500
SHOWN_FLAWS = 10

_EXAMPLE = "for example\n  hosts:\n    shop.example: {rate: 30/m, parallel: 1}"

Words = Mapping[str, HostLimit]


class FileEntry(BaseModel):
    """What the file can say of a host."""

    model_config = ConfigDict(extra="forbid")

    rate: Rate | None = None
    parallel: Parallel | None = None
    paused: Annotated[bool, Strict()] = False
    note: str = Field(default="", max_length=MAX_NOTE_CHARS)

    def limit(self, host: str, set_ms: int) -> HostLimit:
        rate = 0.0 if self.rate == "unlimited" else self.rate
        parallel = 0 if self.parallel == "unlimited" else self.parallel
        return HostLimit(host, rate, parallel, self.paused, self.note, set_ms)


def read_host_file(path: Path) -> dict[str, HostLimit]:
    """The file's words by host, or one error that names file and places."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise InputError(f"{path}: too large for a file of hosts: more than {MAX_BYTES // 1_000_000} MB")
        text, set_ms = path.read_text(encoding="utf-8"), path.stat().st_mtime_ns // 1_000_000
    except (OSError, UnicodeDecodeError) as exc:
        raise InputError(f"cannot read {path}: {getattr(exc, 'strerror', None) or exc}") from exc
    loaded, doubles = _loaded(path, text)
    return _limits(path, _entries(path, loaded), set_ms, doubles)


def _loaded(path: Path, text: str) -> tuple[object, list[str]]:
    """What stands there, and what stands there twice: of two, YAML would take the last without a word."""
    import yaml

    loader = yaml.SafeLoader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return None, []
        doubles = _doubles(node)  # first: what an entry merges into another is no double
        return cast(Any, loader).construct_document(node), doubles
    except yaml.YAMLError as exc:
        mark = getattr(exc, "problem_mark", None)
        place = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise InputError(f"{path}{place}: not valid YAML: {getattr(exc, 'problem', None) or exc}") from exc
    except ValueError as exc:
        raise InputError(f"{path}: a value cannot be read: {exc}; put it in quotes") from exc
    finally:
        loader.dispose()


def _doubles(root: yaml.Node) -> list[str]:
    """Settings, hosts and limits that stand there twice, each with both lines."""
    flaws = _twice(root, "", str)
    for key, hosts in _pairs(root):
        if key.value == "hosts":
            flaws += _twice(hosts, "hosts.", _plain_name)
            flaws += [flaw for name, entry in _pairs(hosts) for flaw in _twice(entry, f"hosts.{name.value}.", str)]
    return flaws


def _twice(node: yaml.Node, place: str, plain: Callable[[str], str]) -> list[str]:
    lines: dict[str, int] = {}
    flaws: list[str] = []
    for key, _ in _pairs(node):
        name, line = plain(key.value), key.start_mark.line + 1
        if name in lines:
            flaws.append(f"{place}{key.value}: it is there twice, in line {lines[name]} and in line {line}")
        lines.setdefault(name, line)
    return flaws


def _pairs(node: yaml.Node) -> list[tuple[yaml.ScalarNode, yaml.Node]]:
    """What a mapping has under plain keys."""
    import yaml

    if not isinstance(node, yaml.MappingNode):
        return []
    return [(key, value) for key, value in node.value if isinstance(key, yaml.ScalarNode)]


def _plain_name(text: str) -> str:
    try:
        return host_name(text)
    except InputError:
        return text


def _entries(path: Path, loaded: object) -> dict[Any, Any]:
    if loaded is None:
        return {}
    if not isinstance(loaded, dict):
        raise InputError(f"{path}: a mapping with the one key `hosts` is needed, {_EXAMPLE}")
    other = [str(key) for key in cast(dict[Any, Any], loaded) if key != "hosts"]
    if other:
        raise InputError(f"{path}: {other[0]}: there is no such setting; hosts stand under `hosts`, {_EXAMPLE}")
    hosts: object = cast(dict[str, Any], loaded)["hosts"]
    if hosts is None:
        return {}
    if not isinstance(hosts, dict):
        raise InputError(f"{path}: hosts: a mapping of host to limits is needed, {_EXAMPLE}")
    return cast(dict[Any, Any], hosts)


def _limits(path: Path, entries: Mapping[Any, Any], set_ms: int, doubles: Sequence[str]) -> dict[str, HostLimit]:
    limits: dict[str, HostLimit] = {}
    flaws = list(doubles)
    for name, entry in entries.items():
        try:
            host = host_name(name) if isinstance(name, str) else ""
            if not host:
                flaws.append(f"hosts.{name}: a host is text; put it in quotes")
            else:
                limits[host] = FileEntry.model_validate(entry).limit(host, set_ms)
        except ValidationError as exc:
            given = cast(dict[str, Any], entry) if isinstance(entry, dict) else {}
            flaws += [
                _place(name, flaw.place, flaw.message) for flaw in flaws_of(exc, given, FileEntry, JobSpec.model_fields)
            ]
        except InputError as exc:
            flaws.append(f"hosts.{name}: {exc}")
    if flaws:
        rest = [f"… and {len(flaws) - SHOWN_FLAWS} more"] if len(flaws) > SHOWN_FLAWS else []
        raise InputError("\n".join([f"{path} is not valid:", *(f"  - {flaw}" for flaw in flaws[:SHOWN_FLAWS] + rest)]))
    return limits


def _place(name: str, field: str, message: str) -> str:
    if not field:
        return f"hosts.{name}: a mapping such as {{rate: 30/m}} is needed"
    return f"hosts.{name}.{field}: {message}"


class HostFile:
    """The file as it is now; read again when it was changed."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._words: Words | None = None if path else {}
        self._stamp: tuple[int, ...] | None = None

    def check(self) -> None:
        """Raise InputError when the file cannot be used."""
        if self._path:
            self._words, self._stamp = read_host_file(self._path), _stamp(self._path)

    def words(self) -> Words | None:
        """What it says, by host; of one that became bad, what it said before. None: it was never good."""
        if self._path and (stamp := _stamp(self._path)) != self._stamp:
            self._stamp = stamp
            try:
                self._words = read_host_file(self._path)
            except InputError as exc:
                log.warning("hosts_file_refused", file=str(self._path), error=str(exc))
        return self._words


def _stamp(path: Path) -> tuple[int, ...]:
    """Another one whenever the file is another one."""
    try:
        found = path.stat()
    except OSError:
        return ()
    return found.st_mtime_ns, found.st_size, found.st_ino
