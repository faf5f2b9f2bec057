"""Where results may go: what people write, read strictly, and what operators allow."""

from __future__ import annotations

import pytest

from shoal.core.output import Allowed, OutputSettings, Place, TablePlace, read_place, shown_place
from shoal.core.redact import HIDDEN


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("s3://bucket/a/b/", Place("s3", "bucket", "a/b")),
        ("s3://bucket", Place("s3", "bucket", "")),
        ("gs://bucket/x", Place("gs", "bucket", "x")),
        ("az://container/x/", Place("az", "container", "x")),
        ("file:///srv/exports/", Place("file", "", "/srv/exports")),
        ("postgresql://db/shop/books", TablePlace("db", None, "shop", "", "books")),
        (
            "postgres://me:p%40ss@db:6432/shop/team.books?sslmode=require",
            TablePlace("db", 6432, "shop", "team", "books", "me", "p@ss", "require"),
        ),
        ("postgresql://[::1]:5433/shop/books", TablePlace("::1", 5433, "shop", "", "books")),
    ],
)
def test_places_are_read(text: str, place: object) -> None:
    assert read_place(text) == place


@pytest.mark.parametrize(
    "text",
    [
        "books.jsonl",
        "ftp://host/x",
        "http://169.254.169.254/x",
        "s3:///x",
        "s3://bucket/../other/",
        "s3://bucket/a//b",
        "s3://bucket/a/./b",
        "s3://bucket/%2e%2e/x",
        "s3://key:secret@bucket/x",
        "s3://bucket/x?endpoint=http://10.0.0.1",
        "file://host/x",
        "file:///a/../b",
        "file:///a\\b",
        "postgresql://db/shop",
        "postgresql://db,other/shop/books",
        "postgresql://db/shop/books?host=/tmp",
        "postgresql://db/shop/books?sslmode=none",
        "postgresql://db:port/shop/books",
        "postgresql://me:p@ss/word@db/shop/books",
        "memory:///x",
        "",
    ],
)
def test_what_is_no_place_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        read_place(text)
    assert "secret" not in str(caught.value)


def test_no_password_is_shown() -> None:
    text = "postgresql://me:hunter2@db/shop/books"
    assert shown_place(text) == f"postgresql://me:{HIDDEN}@db/shop/books"
    settings = OutputSettings(to=text)
    assert "hunter2" not in f"{settings!r}{settings.place!r}{settings.place}{settings.shown()}"


@pytest.mark.parametrize(
    ("text", "allowed"),
    [
        ("s3://bucket/team/", True),
        ("s3://bucket/team/a/b", True),
        ("s3://bucket/teammate/", False),
        ("s3://bucket/", False),
        ("s3://other/team/", False),
        ("gs://bucket/team/", False),
        ("file:///srv/exports/x", True),
        ("file:///srv/exportsx", False),
        ("file:///", False),
        ("postgresql://me:pw@db/warehouse/team.books", True),
        ("postgresql://db/warehouse/books", False),
        ("postgresql://db/warehouse/other.books", False),
        ("postgresql://db:6432/warehouse/team.books", False),
        ("postgresql://db/other/team.books", False),
        ("postgresql://db@evil/warehouse/team.books", False),
        ("postgresql://localhost/any/table", True),
    ],
)
def test_only_what_the_operator_names_and_what_is_below_is_allowed(text: str, allowed: bool) -> None:
    words = "s3://bucket/team/, file:///srv/exports/,postgresql://db/warehouse/team,postgresql://localhost/any"
    assert (Allowed.read(words).root_of(read_place(text)) is not None) is allowed


def test_without_a_word_nothing_is_allowed() -> None:
    assert Allowed.read("").root_of(read_place("s3://bucket/x/")) is None


@pytest.mark.parametrize("every", [100, "100", 10_000, "5m", "10s"])
def test_parts_come_by_rows_or_by_time(every: int | str) -> None:
    output = OutputSettings(to="s3://bucket/x/", every=every)
    assert (output.every_rows is None) is not (output.every_seconds is None)


@pytest.mark.parametrize("every", [0, 99, "9s", "often", -1])
def test_parts_are_not_too_small(every: int | str) -> None:
    with pytest.raises(ValueError, match="every"):
        OutputSettings(to="s3://bucket/x/", every=every)


def test_a_key_is_for_tables() -> None:
    with pytest.raises(ValueError, match="PostgreSQL"):
        OutputSettings(to="s3://bucket/x/", key=("url",))


def test_a_user_that_the_operator_names_is_the_only_one() -> None:
    allowed = Allowed.read("postgresql://shoal@db/shop/team?sslmode=require")
    assert allowed.root_of(read_place("postgresql://shoal:x@db/shop/team.books"))
    assert not allowed.root_of(read_place("postgresql://postgres@db/shop/team.books"))
    assert not allowed.root_of(read_place("postgresql://db/shop/team.books"))
    (place,) = allowed.places
    assert place == TablePlace("db", None, "shop", "team", "", "shoal", "", "require")


@pytest.mark.parametrize("given", [{"format": "csv"}, {"keep": 3}, {"keep": None}])
def test_what_is_for_files_is_not_for_tables(given: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="is for files"):
        OutputSettings.model_validate({"to": "postgresql://db/shop/books", **given})


@pytest.mark.parametrize("keep", [0, -1, True, 501, "many"])
def test_a_place_keeps_a_run_at_least_and_some_hundred_at_most(keep: object) -> None:
    with pytest.raises(ValueError, match="keep"):
        OutputSettings.model_validate({"to": "s3://bucket/x/", "keep": keep})
