"""What databases are called in their archives: each otherwise, though URLs and paths are alike; a copy too."""

from __future__ import annotations

import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Engine

from shoal.store import schema
from shoal.store.database import open_database
from shoal.store.owner import Owner, own_name, owner_of
from shoal.store.tables import database_name
from tests.contract.databases import a_sqlite

AT_ONCE = 8


def test_a_database_has_its_name_from_its_migration_on(engine: Engine) -> None:
    with engine.connect() as connection:
        (row,) = connection.execute(sa.select(database_name)).all()
    assert (row.id, len(row.name)) == (1, 32)
    assert own_name(engine) == own_name(engine) == row.name


def test_who_comes_at_once_to_a_database_without_a_name_gives_it_one(engine: Engine) -> None:
    with engine.begin() as connection:
        connection.execute(sa.delete(database_name))
    start = threading.Barrier(AT_ONCE)

    def ask(_: int) -> str:
        start.wait()
        return own_name(engine)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        names = set(pool.map(ask, range(AT_ONCE)))
    assert len(names) == 1
    assert names == {own_name(engine)}


def test_each_new_database_has_another_name(tmp_path: Path) -> None:
    names: set[str] = set()
    for number in range(3):
        engine = open_database(f"sqlite:///{tmp_path / str(number)}.db")
        names.add(own_name(engine))
        engine.dispose()
    assert len(names) == 3


def test_a_name_comes_with_an_upgrade_and_rows_stay(engine: Engine) -> None:
    schema.downgrade(engine, "0015")
    schema.upgrade(engine)
    assert len(own_name(engine)) == 32


def _owner(path: Path, archive: Path | None) -> Owner:
    engine = open_database(f"sqlite:///{path}")
    try:
        return owner_of(engine, f"sqlite:///{path}", archive)
    finally:
        engine.dispose()


def test_files_at_the_same_path_of_two_machines_that_mount_one_archive_are_two_owners(tmp_path: Path) -> None:
    owners: list[Owner] = []
    for machine in ("one", "other"):
        home = tmp_path / machine
        home.mkdir()
        owners.append(_owner(home / "shoal.db", home / "archive"))
    assert owners[0].former == owners[1].former
    assert owners[0].name != owners[1].name


@pytest.mark.parametrize("archive", ["archive", None])
def test_a_copy_elsewhere_is_another_owner(tmp_path: Path, archive: str | None) -> None:
    """It has the same name in it, and knows nothing of the jobs that the original gets from now on."""
    original, copy = tmp_path / "shoal.db", tmp_path / "copy.db"
    a_sqlite(tmp_path)
    shutil.copyfile(original, copy)
    place = tmp_path / archive if archive else None
    assert _owner(original, place).name != _owner(copy, place).name


def test_database_and_archive_that_have_moved_together_know_each_other(tmp_path: Path) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    before.mkdir()
    a_sqlite(before)
    found = _owner(before / "shoal.db", before / "archive")
    before.rename(after)
    assert _owner(after / "shoal.db", after / "archive") == found
