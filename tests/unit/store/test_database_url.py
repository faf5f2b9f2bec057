"""The URL of a database, with a password in it that nobody is shown, whatever is wrong with the rest."""

from __future__ import annotations

import traceback

import pytest

from shoal.errors import ShoalError
from shoal.store.database import open_database

SECRET = "c4nary"


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://u:{SECRET}@127.0.0.1:9/db",
        f"postgresql://u:a@{SECRET}@127.0.0.1:9/db",
        f"postgresql://u:a/{SECRET}@127.0.0.1:9/db",
        f"postgresql://127.0.0.1:9/db?password={SECRET}",
        f"postgresql://u@h:{SECRET}/db",
        f"postgresql:{SECRET}",
        SECRET,
    ],
)
def test_what_is_wrong_is_told_without_the_password(url: str) -> None:
    with pytest.raises(ShoalError) as caught:
        open_database(url)
    assert SECRET not in str(caught.value)
    assert SECRET not in "".join(traceback.format_exception_only(caught.value))


def test_an_error_does_not_repeat_what_was_to_be_stored() -> None:
    engine = open_database("sqlite://")
    with pytest.raises(Exception, match="no such table") as caught, engine.connect() as connection:
        connection.exec_driver_sql("INSERT INTO missing VALUES (?)", (SECRET,))
    assert SECRET not in str(caught.value)
    engine.dispose()
