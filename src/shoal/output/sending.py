"""A whole file to where somebody wants it: a path, standard output, an object in a store. Complete, or not there."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

from shoal.core.output import Place, TablePlace, read_place
from shoal.errors import InputError, Unavailable
from shoal.output.formats import LINES, Written, check_format, format_of, write_file
from shoal.output.place import open_store
from shoal.output.source import Source

STDOUT = "-"


def is_url(target: str) -> bool:
    """Does the file go to a store, rather than to a path?"""
    return "://" in target


def is_whole(target: str, kind: str) -> bool:
    """Can the file be there only when it is complete? Lines in a file or a pipe can be read as they come."""
    return kind not in LINES or is_url(target)


def check_target(target: str, chosen: str | None) -> str:
    """The format for a target; what would fail at the end is said at once."""
    kind = format_of(target, chosen)
    check_format(kind)
    if is_url(target):
        object_of(target)
    elif target == STDOUT and kind == "sqlite":
        raise InputError("a SQLite file is not a stream: write it to a path, -o FILE.sqlite")
    elif target == STDOUT and kind not in LINES and sys.stdout.isatty():
        raise InputError(f"{kind} is not for terminals: write it to a path, -o FILE.{kind}")
    return kind


def object_of(target: str) -> tuple[Place, str]:
    """The folder or prefix of a URL, and the name of the file in it."""
    try:
        place = read_place(target)
    except ValueError as exc:
        raise InputError(f"-o: {exc}") from exc
    if isinstance(place, TablePlace):
        raise InputError("-o writes a file; for rows in a table see: shoal deliver JOB --to postgresql://…")
    folder, _, name = place.path.rpartition("/")
    if not name or target.endswith("/"):
        raise InputError("-o: a file's name is missing at the end, such as s3://bucket/books.parquet")
    return Place(place.scheme, place.bucket, folder or ("/" if place.scheme == "file" else "")), name


def send_file(source: Source, kind: str, target: str) -> Written:
    """Write all rows to a file, and put it where it is wanted."""
    if not is_url(target) and target != STDOUT:
        return _write_beside(source, kind, Path(target).expanduser())
    with tempfile.TemporaryDirectory(prefix="shoal-") as folder:
        file = Path(folder) / f"rows.{kind}"
        written = write_file(source, kind, file)
        if target == STDOUT:
            _print(file)
        else:
            place, name = object_of(target)
            open_store(place).put_file(name, file)
        return written


def _write_beside(source: Source, kind: str, path: Path) -> Written:
    """Under another name first: what stood there before stays until the new one is on the disk."""
    new = path.with_name(f".{path.name[:100]}.{os.getpid()}.part")
    try:
        written = write_file(source, kind, new)
        with new.open("rb") as file:
            os.fsync(file.fileno())
        new.replace(path)
    except OSError as exc:
        raise Unavailable(f"cannot write {path}: {exc.strerror or exc}") from exc
    finally:
        new.unlink(missing_ok=True)
    return written


def _print(file: Path) -> None:
    with file.open("rb") as content:
        shutil.copyfileobj(content, sys.stdout.buffer)
    sys.stdout.buffer.flush()
