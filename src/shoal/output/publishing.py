"""A set of files and the pointer to it. Files never change under their names; the pointer moves in one step, and only
to a set that is complete: whoever follows it sees one set, whole, at any moment.

    PREFIX/latest.json                          the pointer: the manifest of the newest set
    PREFIX/RUN/manifest.json                    the same for this run
    PREFIX/RUN/part-00000-1f0c2d3e4a5b.parquet  named after its content
"""

from __future__ import annotations

import re
import tempfile
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import orjson

from shoal.core.frozen import frozen
from shoal.errors import PlaceUnavailable
from shoal.output.columns import Column, ListOf, Struct, Type
from shoal.output.place import Store
from shoal.store.deliveries import Part

LATEST = "latest.json"
MANIFEST = "manifest.json"
SWAP_TRIES = 20
_HASH_BYTES = 1 << 20
_PART = re.compile(r"part-[0-9]{5,}-[0-9a-f]{12}\.[a-z0-9]{1,10}")


Order = tuple[int, str, int]
"""(when the job was created, its id, how often a delivery of it was asked for before this one)"""


@frozen
class Run:
    """Which set it is, and where it stands among others of its place."""

    name: str
    job: str
    label: str
    """The job's name, for people."""
    version: str
    order: Order
    """The pointer never goes back."""


@frozen
class Publication:
    """What became of a set that is whole."""

    seen: bool
    """Do readers see it, rather than something newer?"""
    word: str = ""
    """For people."""

    def with_word(self, word: str) -> Publication:
        """And this."""
        return replace(self, word=f"{self.word}; {word}" if self.word else word)


@frozen
class Latest:
    """What the pointer points to."""

    run: str
    job: str
    order: Order


def part_name(run: Run, number: int, kind: str, file: Path) -> str:
    """A name that no other content has."""
    digest = sha256()
    with file.open("rb") as content:
        while chunk := content.read(_HASH_BYTES):
            digest.update(chunk)
    return f"{run.name}/part-{number:05d}-{digest.hexdigest()[:12]}.{kind}"


def is_of_run(name: str) -> bool:
    """Is this the name of a file in a run's folder that we have written?"""
    return name == MANIFEST or _PART.fullmatch(name) is not None


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


def publish(store: Store, run: Run, content: dict[str, Any]) -> Publication:
    """Move the pointer, unless it points to a newer set already."""
    text = orjson.dumps(content, option=orjson.OPT_INDENT_2)
    with tempfile.TemporaryDirectory(prefix="shoal-") as folder:
        file = Path(folder) / MANIFEST
        file.write_bytes(text)
        store.put_file(f"{run.name}/{MANIFEST}", file)
    for _ in range(SWAP_TRIES):
        found = store.get(LATEST)
        latest = read_latest(found[0]) if found else None
        if latest and latest.order > run.order:
            return Publication(False, _stays(latest, run))
        if store.swap(LATEST, text, found[1] if found else None):
            return Publication(True)
    raise PlaceUnavailable(f"{LATEST} was changed by others {SWAP_TRIES} times in a row")


def read_latest(text: bytes) -> Latest | None:
    """What a pointer points to; None for what is no pointer of ours, which gives way."""
    try:
        found = orjson.loads(text)
        created, job, number = found["order"]
        return Latest(str(found["run"]), str(found["job"]), (int(created), str(job), int(number)))
    except (ValueError, TypeError, KeyError):
        return None


def _stays(latest: Latest, run: Run) -> str:
    newer = "asked for later" if latest.job == run.job else "of a job that was submitted later"
    ways = (
        f"read this set by {run.name}/{MANIFEST}, or deliver it to a place of its own: shoal deliver {run.job} --to …"
    )
    return f"{LATEST} stays with the newer run {latest.run}, {newer}; {ways}"


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
