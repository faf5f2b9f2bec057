"""The migrations make exactly the tables that the code uses."""

from __future__ import annotations

from pathlib import Path

from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

from shoal.store.database import HEAD, open_database
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
