"""Where bytes lie: SHOAL_HOME and its disk, the archive's folder, and the places that jobs may deliver to."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

from shoal.core.output import AnyPlace, Place
from shoal.core.trouble import gist
from shoal.doctor.database import opened
from shoal.doctor.finding import Area, Finding, Kind, Level, Words, well
from shoal.doctor.ground import Ground, NotLooked
from shoal.errors import ArchiveUnavailable, PlaceUnavailable
from shoal.home import PROBE_BYTES
from shoal.output.bucket import Bucket
from shoal.settings import Settings
from shoal.store.inspection import sqlite_file
from shoal.store.objects import Objects
from shoal.store.remote import OWNERS

ROOM_BYTES = 1_000_000_000
"""With less than this, a crawl may fill the disk."""
PROBE = "shoal-doctor"
"""An object that nobody has: asking for it shows whether the bucket is there, and ours to use."""
MANY_PLACES = 20

HOME = Kind(
    "home_unusable", Area.STORAGE, Level.ERROR,
    "Database, archive and the embedded Redis are there; no command starts without it.",
    "export SHOAL_HOME={other}",
)  # fmt: skip
DISK = Kind(
    "disk_full", Area.STORAGE, Level.ERROR,
    "Nothing can be stored: crawls pause until there is room.",
    "shoal prune --older-than 30d",
)  # fmt: skip
LITTLE_ROOM = Kind(
    "disk_nearly_full", Area.STORAGE, Level.WARNING,
    "A crawl may fill the disk, and pauses then.",
    "shoal prune --older-than 30d",
)  # fmt: skip
ARCHIVE = Kind(
    "archive_unusable", Area.STORAGE, Level.ERROR,
    "Workers cannot keep the bodies of pages, and pause.",
    "export SHOAL_ARCHIVE_DIR={other}",
)  # fmt: skip
GONE = Kind(
    "archive_missing", Area.STORAGE, Level.ERROR,
    "The database points to stored pages, and they are not there: moved, not mounted, or in another bucket.",
    "export SHOAL_ARCHIVE_DIR=FOLDER",
)  # fmt: skip
SHARED = Kind(
    "archive_shared", Area.STORAGE, Level.WARNING,
    "Several databases have written to this archive: what nobody owns any more is not removed from it.",
    "export SHOAL_ARCHIVE_DIR={other}",
)  # fmt: skip
OUTPUT = Kind(
    "output_unusable", Area.STORAGE, Level.ERROR,
    "Results that are to be delivered there wait, and are tried again.",
    "export AWS_ENDPOINT_URL=URL AWS_ACCESS_KEY_ID=ID AWS_SECRET_ACCESS_KEY=SECRET",
)  # fmt: skip


def home(ground: Ground) -> Iterator[Finding]:
    """Can the home be used, and is there room?"""
    path = ground.settings.home
    if why := unusable(path):
        yield HOME.found(f"SHOAL_HOME is {path}: {why}", other=Words("~/.shoal"))
        return
    if _is_filled(ground.settings):
        yield from _room(path, "SHOAL_HOME")


def _is_filled(settings: Settings) -> bool:
    """Does anything lie in the home that grows: the database, the embedded Redis, the archive?"""
    elsewhere = settings.redis_url and sqlite_file(settings.sql_url) is None
    return not elsewhere or settings.archive_path.is_relative_to(settings.home)


def archive(ground: Ground) -> Iterator[Finding]:
    """Can the archive be used, is it there where pages are said to be in it, and is it ours alone?"""
    path, place = ground.settings.archive_path, ground.settings.archive_place
    if why := unusable(path):
        yield ARCHIVE.found(f"the archive is {path}: {why}", other=Words("~/.shoal/archive"))
        return
    if place:
        yield from _objects(ground, place)
        return
    if not path.exists():
        yield from _missing(ground, path)
        return
    if path.stat().st_dev != _nearest(ground.settings.home).stat().st_dev:
        yield from _room(path, "the archive")
    owners = len(list((path / ".owners").glob("*")))
    if owners > 1:
        yield SHARED.found(f"{owners} databases use {path}", other=f"{path}-2")


def _objects(ground: Ground, place: Place) -> Iterator[Finding]:
    """The archive in an object store: can it be written, read and emptied?"""
    objects = Objects(place)
    try:
        objects.try_out()
        owners, empty = list(objects.listed(OWNERS)), objects.is_empty()
    except ArchiveUnavailable as exc:
        yield ARCHIVE.found(gist(exc), mend=OUTPUT.mend)
        return
    except ImportError as exc:
        raise NotLooked(f"object stores need {exc.name}") from exc
    yield well(Area.STORAGE, f"the archive is {place}, which can be written, read and emptied")
    if len(owners) > 1:
        yield SHARED.found(f"{len(owners)} databases use {place}", mend=f"export SHOAL_ARCHIVE_URL={place}-2")
    if empty:
        with opened(ground) as database:
            if database.has_archived_pages():
                mend = "export SHOAL_ARCHIVE_URL=URL"
                yield GONE.found(f"pages are stored in the archive, and nothing is in {place}", mend=mend)


def _missing(ground: Ground, path: Path) -> Iterator[Finding]:
    with opened(ground) as database:
        if database.has_archived_pages():
            yield GONE.found(f"pages are stored in {path}, which is not there")


def unusable(path: Path) -> str:
    """Why this cannot be a folder that we write to; empty when it can."""
    found = _nearest(path)
    if not found.is_dir():
        return f"{found} is not a folder"
    if not os.access(found, os.W_OK | os.X_OK):
        return f"{found} cannot be written"
    return ""


def _nearest(path: Path) -> Path:
    """The path, or what of it is there."""
    return next(place for place in (path, *path.parents) if place.exists() or place.is_symlink())


def _room(path: Path, whose: str) -> Iterator[Finding]:
    free = shutil.disk_usage(_nearest(path)).free
    told = f"{free / 1e6:,.1f} MB are free on the disk of {whose}, {path}"
    if free < PROBE_BYTES:
        yield DISK.found(told)
    elif free < ROOM_BYTES:
        yield LITTLE_ROOM.found(told)
    else:
        yield well(Area.STORAGE, told)


def outputs(ground: Ground) -> Iterator[Finding]:
    """Can the places be used that jobs may deliver to?"""
    for place in ground.settings.allowed_outputs.places[:MANY_PLACES]:
        yield from _output(place)


def _output(place: AnyPlace) -> Iterator[Finding]:
    if not isinstance(place, Place):
        return  # a table: the job that delivers there has its login
    if place.scheme == "file":
        if why := unusable(Path(place.path)):
            yield OUTPUT.found(f"{place}: {why}", mend=shlex.join(["mkdir", "-p", place.path]))
        return
    try:
        Bucket(place).get(PROBE)
    except PlaceUnavailable as exc:
        yield OUTPUT.found(gist(exc))
    except ImportError as exc:
        raise NotLooked(f"object stores need {exc.name}") from exc
    else:
        yield well(Area.STORAGE, f"{place} answers")


CHECKS = (home, archive, outputs)
