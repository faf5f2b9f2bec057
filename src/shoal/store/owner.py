"""Whose an archive is: what a database is called there, by where it is and by a name that it got once, at random.

Where it is tells a copy from its original; the random name tells two databases that are called alike on two networks.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import tempfile
from contextlib import suppress
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.engine import Engine

from shoal.core.frozen import frozen
from shoal.errors import StoreUnavailable
from shoal.store.tables import database_name
from shoal.store.trouble import translated_errors
from shoal.store.upsert import insert_new

_ONLY = 1
"""The id of the one row."""


@frozen
class Owner:
    """A database as seen from its archive."""

    name: str
    former: str = ""
    """What it was called before databases had names of their own; others may be called so too."""


def owner_of(engine: Engine, url: str, archive: Path | None) -> Owner:
    """The owner of an archive: named without secrets, and the same after both have moved.

    None is an archive elsewhere, where databases of several machines may meet.
    """
    place = _place_of(sa.make_url(url), archive)
    return Owner(_digest(f"{place} {own_name(engine)}"), _digest(place))


def own_name(engine: Engine) -> str:
    """The random name of a database: its migration has given it one, and who finds none gives it another."""
    query = sa.select(database_name.c.name).where(database_name.c.id == _ONLY)
    with translated_errors(), engine.connect() as connection:
        found = connection.execute(query).scalar()
        if found is None:  # whoever comes first at this has named it for all
            made = {"id": _ONLY, "name": secrets.token_hex(16)}
            connection.execute(insert_new(engine.dialect.name, database_name).values(made))
            connection.commit()
            found = connection.execute(query).scalar_one()
        return found


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _place_of(url: sa.URL, archive: Path | None) -> str:
    if url.get_backend_name() == "sqlite":
        file = Path(url.database or "")
        return _name_beside(file) if archive is None else os.path.relpath(file, archive)
    return f"{url.get_backend_name()} {url.host or ''} {url.port or ''} {url.database or ''}"


def _name_beside(database: Path) -> str:
    """A name that a file of SQLite has got once, at random: its path says nothing to other machines."""
    file = Path(f"{database}.owner")
    try:
        if not file.exists():
            with tempfile.NamedTemporaryFile("w", dir=file.parent, prefix=".owner-") as new:
                new.write(secrets.token_hex(16))
                new.flush()
                os.fsync(new.fileno())
                with suppress(FileExistsError):
                    os.link(new.name, file)
        return file.read_text(encoding="ascii")
    except OSError as exc:
        raise StoreUnavailable(f"cannot write {file}: {exc.strerror or exc}") from exc
