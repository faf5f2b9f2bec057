"""The operator's proxy pools: a YAML file, read again when it changes.

    pools:
      residential:
        template: http://user-{session}:password@gate.example:8000
        rotate: host
      own:
        file: proxies.txt

A file that is wrong when it is first read is an error; when it becomes wrong later, the pools stay as they were, and
the log says so. No error repeats what stands in it: there are passwords.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import structlog
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from shoal.core.frozen import frozen
from shoal.core.proxies import PoolName, ProxyPool, ProxyState, hide_login, read_proxy
from shoal.errors import InputError

log = structlog.get_logger()

LOOK_EVERY_S = 1.0
"""How soon a change of the file is noticed."""
SHOWN_PROBLEMS = 10

_COMMENT = re.compile(r"(?:^|\s)#.*")

_Stamp = tuple[tuple[str, int, int], ...]
"""(file, when it was written, size) of all files that were read."""


class _PoolsFile(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    pools: dict[PoolName, ProxyPool] = Field(default_factory=dict)


class ProxyPools:
    """The pools of one file; without a file there are none."""

    def __init__(self, path: Path | None, look_every_s: float = LOOK_EVERY_S) -> None:
        """Reads the file at once."""
        self._path = path
        self._look_every_s = look_every_s
        self._lock = threading.Lock()
        self._pools, self._stamp = _read_all(path) if path else ({}, ())
        self._looked = time.monotonic()

    def all(self) -> Mapping[str, ProxyPool]:
        """Every pool by its name."""
        with self._lock:
            if self._path and time.monotonic() - self._looked >= self._look_every_s:
                self._look(self._path)
            return self._pools

    def get(self, name: str) -> ProxyPool:
        """The pool of this name; an error names those that there are."""
        pools = self.all()
        if name in pools:
            return pools[name]
        if not pools:
            hint = "no pools are defined: SHOAL_PROXIES_FILE names the file that they stand in"
        else:
            hint = f"there are {', '.join(sorted(pools))}"
        raise InputError(f"there is no proxy pool {name!r}; {hint}", "proxies")

    def check(self, chosen: str | ProxyPool | None) -> None:
        """Is what a job asks for there?"""
        if isinstance(chosen, str):
            self.get(chosen)

    def _look(self, path: Path) -> None:
        self._looked = time.monotonic()
        stamp = _stamp(*(name for name, _, _ in self._stamp))
        if stamp == self._stamp:
            return
        self._stamp = stamp  # what is wrong now is said once
        try:
            self._pools, self._stamp = _read_all(path)
        except InputError as exc:
            log.warning("proxy_pools_unreadable", path=str(path), error=str(exc))


@cache
def pools_of(path: Path | None) -> ProxyPools:
    """The pools of this file, of which a process keeps one view."""
    return ProxyPools(path)


def with_list(pool: ProxyPool, folder: Path) -> ProxyPool:
    """The pool with the proxies of its file in it; a relative path begins at the folder."""
    if pool.file is None:
        return pool
    urls = read_proxy_file(folder / Path(pool.file).expanduser())
    return ProxyPool.model_validate({**pool.model_dump(exclude={"file"}), "list": urls})


def read_proxy_file(path: Path) -> tuple[str, ...]:
    """URLs of proxies, one a line; empty lines and # comments are skipped, also behind a URL."""
    lines = [(number, _COMMENT.sub("", line).strip()) for number, line in enumerate(_text_of(path).splitlines(), 1)]
    wanted = [(number, line) for number, line in lines if line]
    if not wanted:
        raise InputError(f"{path} has no proxies in it: write one a line")
    problems = [problem for number, line in wanted if (problem := _problem(path, number, line))]
    if problems:
        more = f"\n  … and {len(problems) - SHOWN_PROBLEMS} more" if len(problems) > SHOWN_PROBLEMS else ""
        raise InputError("\n  ".join(["proxies cannot be read:", *problems[:SHOWN_PROBLEMS]]) + more)
    return tuple(line for _, line in wanted)


def _problem(path: Path, number: int, line: str) -> str | None:
    try:
        read_proxy(line)
    except InputError as exc:
        return f"{path}, line {number}: {exc}"
    return None


def _read_all(path: Path) -> tuple[dict[str, ProxyPool], _Stamp]:
    try:
        found = _PoolsFile.model_validate(_yaml_of(path))
    except ValidationError as exc:
        problems = [f"{_place(error['loc'])}: {error['msg']}" for error in exc.errors(include_url=False)]
        raise InputError("\n  ".join([f"{path} is not valid:", *problems[:SHOWN_PROBLEMS]])) from None
    files = [path.parent / Path(pool.file).expanduser() for pool in found.pools.values() if pool.file]
    stamp = _stamp(str(path), *map(str, files))
    return {name: with_list(pool, path.parent) for name, pool in found.pools.items()}, stamp


def _yaml_of(path: Path) -> object:
    import yaml  # of its own: most commands read no file of pools

    try:
        loaded = yaml.safe_load(_text_of(path))
    except (yaml.YAMLError, ValueError) as exc:
        mark = getattr(exc, "problem_mark", None)
        place = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise InputError(f"{path}{place}: this is not valid YAML") from None
    if not isinstance(loaded, dict):
        raise InputError(f"{path}: write pools, for example\n  pools:\n    own:\n      list: [http://10.0.0.7:3128]")
    return loaded  # pyright: ignore[reportUnknownVariableType] - the model checks it


def _place(loc: tuple[int | str, ...]) -> str:
    return ".".join(str(part) for part in loc if part not in ("[key]", "float"))


def _text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as exc:
        raise InputError(f"cannot read {path}: {getattr(exc, 'strerror', None) or 'it is not UTF-8'}") from None


def _stamp(*files: str) -> _Stamp:
    return tuple((name, *_written(Path(name))) for name in files)


def _written(path: Path) -> tuple[int, int]:
    try:
        found = path.stat()
    except OSError:
        return 0, 0
    return found.st_mtime_ns, found.st_size


@frozen
class Listed:
    """A proxy of a pool, or the template that makes them, without credentials."""

    pool: str
    name: str
    """By which the desk keeps it."""
    shown: str
    rotate: str


def proxy_record(row: Listed, state: ProxyState) -> dict[str, Any]:
    """For programs."""
    return {
        "pool": row.pool,
        "proxy": row.shown,
        "id": row.name,
        "rotate": row.rotate,
        "score": state.score,
        "in_flight": state.in_flight,
        "failures": state.failures,
        "rest_seconds": round(state.rest.total_seconds(), 3),
    }


def listed(pools: Mapping[str, ProxyPool]) -> list[Listed]:
    """All proxies of all pools, in order. A template is one: those that it makes are known to nobody else."""
    rows: list[Listed] = []
    for name, pool in sorted(pools.items()):
        if pool.template is not None:
            rows.append(Listed(name, pool.digest, hide_login(pool.template), pool.rotate.value))
        else:
            rows += [Listed(name, key, proxy.shown, pool.rotate.value) for key, proxy in pool.proxies.items()]
    return rows
