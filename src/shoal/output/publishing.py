"""A set of files and the pointer to it. Files never change under their names; the pointer moves in one step, and only
to a set that is complete: whoever follows it sees one set, whole, at any moment.

    PREFIX/latest.json                          the pointer: the manifest of the newest set
    PREFIX/RUN/manifest.json                    the same for this run
    PREFIX/RUN/part-00000-1f0c2d3e4a5b.parquet  named after its content
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import orjson

from shoal.errors import PlaceUnavailable
from shoal.output.columns import Column, ListOf, Struct, Type
from shoal.output.place import Store
from shoal.store.deliveries import Part

LATEST = "latest.json"
MANIFEST = "manifest.json"
SWAP_TRIES = 20
_HASH_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Run:
    """Which set it is, and where it stands among others of its place."""

    name: str
    job: str
    label: str
    """The job's name, for people."""
    version: str
    order: tuple[int, str, int]
    """(when the job was created, its id, how often it was complete before): the pointer never goes back."""


def part_name(run: Run, number: int, kind: str, file: Path) -> str:
    """A name that no other content has."""
    digest = sha256()
    with file.open("rb") as content:
        while chunk := content.read(_HASH_BYTES):
            digest.update(chunk)
    return f"{run.name}/part-{number:05d}-{digest.hexdigest()[:12]}.{kind}"


def manifest(run: Run, kind: str, parts: tuple[Part, ...], columns: tuple[Column, ...], at: str) -> dict[str, Any]:
    """All that a reader has to know."""
    return {
        "run": run.name,
        "job": run.job,
        "name": run.label,
        "version": run.version,
        "order": list(run.order),
        "published_at": at,
        "format": kind,
        "rows": sum(part.rows for part in parts),
        "columns": [{"name": column.name, "type": type_name(column.type)} for column in columns],
        "parts": [{"path": part.name, "rows": part.rows, "bytes": part.size} for part in parts],
    }


def publish(store: Store, run: Run, content: dict[str, Any]) -> bool:
    """Move the pointer; False when it points to a newer set already."""
    text = orjson.dumps(content, option=orjson.OPT_INDENT_2)
    with tempfile.TemporaryDirectory(prefix="shoal-") as folder:
        file = Path(folder) / MANIFEST
        file.write_bytes(text)
        store.put_file(f"{run.name}/{MANIFEST}", file)
    for _ in range(SWAP_TRIES):
        found = store.get(LATEST)
        if found and _order(found[0]) > run.order:
            return False
        if store.swap(LATEST, text, found[1] if found else None):
            return True
    raise PlaceUnavailable(f"{LATEST} was changed by others {SWAP_TRIES} times in a row")


def type_name(kind: Type) -> str:
    """A type in one word."""
    if isinstance(kind, ListOf):
        return f"list<{type_name(kind.of)}>"
    if isinstance(kind, Struct):
        return f"struct<{', '.join(f'{name}: {type_name(part)}' for name, part in kind.parts)}>"
    return "text" if kind.value == "nothing" else kind.value


def columns_digest(columns: tuple[Column, ...]) -> str:
    """Two files with the same have the same columns."""
    return sha256(repr([(column.name, type_name(column.type)) for column in columns]).encode()).hexdigest()[:16]


def _order(text: bytes) -> tuple[int, str, int]:
    """Of a set that is there; what is no manifest of ours gives way."""
    try:
        created, job, number = orjson.loads(text)["order"]
        return int(created), str(job), int(number)
    except (ValueError, TypeError, KeyError):
        return (0, "", 0)
