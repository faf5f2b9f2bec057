"""The migrations make exactly the tables that the code uses, and so do the statements for a new file.

After a new migration these are written anew: SHOAL_TEST_WRITE=1 pytest tests/architecture/test_schema.py
"""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from typing import Any

from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

from shoal.store import schema
from shoal.store.database import HEAD, make_engine, open_database
from shoal.store.new_file import END, TABLES, WORKS_FROM
from shoal.store.tables import metadata


def test_the_newest_migration_is_the_one_that_start_up_looks_for() -> None:
    config = Config()
    config.set_main_option("script_location", "shoal.store:migrations")
    assert ScriptDirectory.from_config(config).get_current_head() == HEAD


def test_migrated_tables_equal_declared_tables(tmp_path: Path) -> None:
    engine = open_database(f"sqlite:///{tmp_path / 'new.db'}")
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, metadata) == []
    engine.dispose()


def test_an_index_of_some_rows_is_declared_with_its_condition(tmp_path: Path) -> None:
    file = tmp_path / "new.db"
    open_database(f"sqlite:///{file}").dispose()
    conditional = {sql.partition(" ON ")[0].split()[-1]: sql for sql in _statements(file) if " WHERE " in sql}
    declared = {str(each.name): each.info.get("where") for table in metadata.sorted_tables for each in table.indexes}
    assert {name: sql.partition(" WHERE ")[2] for name, sql in conditional.items()} == {
        name: where for name, where in declared.items() if where
    }


def test_a_new_file_has_the_tables_of_one_that_went_through_all_migrations(tmp_path: Path) -> None:
    migrated, new = tmp_path / "migrated.db", tmp_path / "new.db"
    engine = make_engine(f"sqlite:///{migrated}")
    schema.upgrade(engine)
    engine.dispose()
    if os.environ.get("SHOAL_TEST_WRITE"):
        TABLES.write_text("".join(f"{statement}{END}" for statement in _statements(migrated)), encoding="utf-8")
    open_database(f"sqlite:///{new}").dispose()
    assert _statements(new) == _statements(migrated)
    assert _words(new) == _words(migrated) == [(HEAD, WORKS_FROM)]
    assert schema.works_from(HEAD) == WORKS_FROM


def _statements(file: Path) -> list[Any]:
    ours = "sql NOT NULL AND name NOT LIKE 'sqlite_%'"
    return [sql for (sql,) in _ask(file, f"SELECT sql FROM sqlite_master WHERE {ours}")]


def _words(file: Path) -> list[tuple[Any, ...]]:
    asked = "SELECT revision, works_from FROM schema_log, alembic_version, database_name WHERE version_num = revision"
    return _ask(file, f"{asked} AND length(name) = 32")


def _ask(file: Path, question: str) -> list[tuple[Any, ...]]:
    connection = sqlite3.connect(file)
    try:
        return connection.execute(question).fetchall()
    finally:
        connection.close()
