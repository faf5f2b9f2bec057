"""API keys: who has one gets in, who does not learns nothing, and the database never holds one."""

from __future__ import annotations

import base64
import hmac
import re
from pathlib import Path

import pytest
import sqlalchemy as sa
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sqlalchemy.engine import Engine

from shoal.core.access import Permission, Principal
from shoal.errors import NotFound, StoreUnavailable
from shoal.store.database import open_database
from shoal.store.keys import KeyRow, KeyStore, prefix_of
from shoal.store.tables import api_keys

BOTH = frozenset({Permission.SUBMIT, Permission.READ})
PREFIX, SECRET = "abcdefghi0", "Az-_" * 10 + "xyz"
FORMED = f"shoal_{PREFIX}_{SECRET}"
"""A key that nobody made."""


@pytest.fixture
def keys(engine: Engine) -> KeyStore:
    return KeyStore(engine)


def _create(keys: KeyStore, label: str = "nightly", created_ms: int = 5) -> str:
    return keys.create(label=label, tenant="shop", scopes=BOTH, rate=12.5, created_ms=created_ms)


def _prefix(key: str) -> str:
    prefix = prefix_of(key)
    assert prefix
    return prefix


def test_a_key_tells_whose_it_is(keys: KeyStore) -> None:
    key = _create(keys)
    assert re.fullmatch(r"shoal_[a-z0-9]{10}_[A-Za-z0-9_-]{43}", key)
    assert len(base64.urlsafe_b64decode(key.split("_", 2)[2] + "=")) == 32
    assert keys.principal(key) == Principal("shop", BOTH, _prefix(key), 12.5)


def test_two_keys_differ_in_both_parts(keys: KeyStore) -> None:
    made = [_create(keys) for _ in range(20)]
    assert len({key.split("_", 2)[1] for key in made}) == 20
    assert len({key.split("_", 2)[2] for key in made}) == 20
    assert all(keys.principal(key) for key in made)


def test_a_wrong_secret_with_the_right_prefix_is_refused(keys: KeyStore) -> None:
    key, other = _create(keys), _create(keys)
    last = "A" if key[-1] != "A" else "B"
    assert keys.principal(key[:-1] + last) is None
    assert keys.principal(f"shoal_{_prefix(key)}_{SECRET}") is None
    assert keys.principal(f"shoal_{_prefix(key)}_{other.split('_', 2)[2]}") is None


def test_the_unused_bits_of_the_last_letter_make_no_second_key(keys: KeyStore) -> None:
    """43 letters hold 258 bits, 2 more than the secret: up to four spellings decode to the same bytes."""
    key = _create(keys)
    secret = base64.urlsafe_b64decode(key.split("_", 2)[2] + "=")
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    twins = [
        key[:-1] + letter
        for letter in letters
        if base64.urlsafe_b64decode(key.split("_", 2)[2][:-1] + letter + "=") == secret
    ]
    assert len(twins) == 4
    assert [twin for twin in twins if keys.principal(twin)] == [key]


def test_an_unknown_prefix_is_compared_like_any_other(keys: KeyStore, monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[tuple[str, str]] = []

    def compare(left: str, right: str) -> bool:
        compared.append((left, right))
        return True

    monkeypatch.setattr(hmac, "compare_digest", compare)
    assert keys.principal(FORMED) is None
    ((left, right),) = compared
    assert len(left) == len(right) == 64


def test_a_revoked_key_opens_nothing(keys: KeyStore) -> None:
    key, other = _create(keys), _create(keys)
    row = keys.revoke(_prefix(key), at_ms=9)
    assert row == KeyRow(_prefix(key), "nightly", "shop", BOTH, 12.5, 5, 9)
    assert not row.live
    assert keys.principal(key) is None
    assert keys.principal(other) is not None


def test_revoking_again_changes_nothing(keys: KeyStore) -> None:
    key = _create(keys)
    assert keys.revoke(_prefix(key), at_ms=9) == keys.revoke(_prefix(key), at_ms=10)


@pytest.mark.parametrize("prefix", [PREFIX, "", "%", "abc", "ü" * 500])
def test_revoking_an_unknown_key_says_so(keys: KeyStore, prefix: str) -> None:
    _create(keys)
    with pytest.raises(NotFound, match="there is no key"):
        keys.revoke(prefix, at_ms=9)
    assert keys.any_live()


def test_there_is_a_live_key_until_the_last_one_is_revoked(keys: KeyStore) -> None:
    assert not keys.any_live()
    first, second = _create(keys), _create(keys)
    assert keys.any_live()
    keys.revoke(_prefix(first), at_ms=9)
    assert keys.any_live()
    keys.revoke(_prefix(second), at_ms=9)
    assert not keys.any_live()


def test_all_keys_are_listed_newest_first_with_the_revoked_ones(keys: KeyStore) -> None:
    assert keys.all() == []
    old, new = _create(keys, "old", 1), _create(keys, "new [ü]", 2)
    keys.revoke(_prefix(old), at_ms=3)
    assert keys.all() == [
        KeyRow(_prefix(new), "new [ü]", "shop", BOTH, 12.5, 2),
        KeyRow(_prefix(old), "old", "shop", BOTH, 12.5, 1, 3),
    ]


def test_a_scope_of_a_newer_version_allows_nothing(keys: KeyStore, engine: Engine) -> None:
    key = _create(keys)
    with engine.begin() as connection:
        connection.execute(sa.update(api_keys).values(scopes="read,administrate"))
    principal = keys.principal(key)
    assert principal
    assert principal.permissions == {Permission.READ}


def test_no_column_holds_the_secret(keys: KeyStore, engine: Engine) -> None:
    key = _create(keys)
    with engine.connect() as connection:
        (row,) = connection.execute(sa.select(api_keys))
    text = " ".join(map(str, row))
    assert _prefix(key) in text
    assert key.split("_", 2)[2] not in text


def test_no_file_of_the_database_holds_the_secret(tmp_path: Path) -> None:
    engine = open_database(f"sqlite:///{tmp_path / 'shoal.db'}")
    key = _create(KeyStore(engine))
    secret = key.split("_", 2)[2]
    before = b"".join(path.read_bytes() for path in tmp_path.iterdir())  # with the write-ahead log
    engine.dispose()
    after = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    for stored in (before, after):
        assert _prefix(key).encode() in stored
        assert secret.encode() not in stored
        assert base64.urlsafe_b64decode(secret + "=") not in stored


# --- malformed keys -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def unreachable() -> KeyStore:
    """Keys in a database that cannot be opened: whoever asks it anything fails."""
    return KeyStore(sa.create_engine("sqlite:////no/such/folder/shoal.db"))


def test_a_well_formed_key_does_ask_the_database(unreachable: KeyStore) -> None:
    with pytest.raises(StoreUnavailable):
        unreachable.principal(FORMED)


@pytest.mark.parametrize(
    "key",
    [
        "",
        " ",
        "shoal",
        "shoal__",
        PREFIX,
        SECRET,
        f"shoal_{PREFIX}",
        f"shoal_{PREFIX}_",
        FORMED[:-1],
        FORMED + "x",
        FORMED + "=",
        FORMED + "\n",
        " " + FORMED,
        "Bearer " + FORMED,
        FORMED.upper(),
        FORMED.replace("shoal", "SHOAL"),
        FORMED.replace("shoal_", "whale_"),
        FORMED.replace(PREFIX, PREFIX.upper()),
        FORMED.replace(PREFIX, "abc_efghi0"),
        FORMED.replace(PREFIX, "%%%%%%%%%%"),
        FORMED.replace(PREFIX, "abcdefghi٣"),
        FORMED.replace("z", "\0"),
        FORMED.replace("z", "+"),
        FORMED[:-1] + "é",
        FORMED[:-1] + "\udcff",
        FORMED * 2,
        "shoal_" + "a" * 10_000_000,
        f"shoal_{PREFIX}_" + "a" * 10_000_000,
    ],
    ids=lambda key: repr(key[:70]),
)
def test_a_malformed_key_is_none_without_asking_the_database(unreachable: KeyStore, key: str) -> None:
    assert unreachable.principal(key) is None


_changes = st.tuples(st.integers(0, len(FORMED)), st.integers(0, 3), st.text(max_size=3)).map(
    lambda change: FORMED[: change[0]] + change[2] + FORMED[change[0] + change[1] :]
)


@settings(max_examples=300, deadline=None, database=None)
@given(key=st.text() | st.text(alphabet="shoal_Az09-", max_size=80) | _changes)
@example(key="shoal_" + "_" * 54)
def test_whatever_is_not_formed_like_a_key_is_none(unreachable: KeyStore, key: str) -> None:
    if not re.fullmatch(r"shoal_[a-z0-9]{10}_[A-Za-z0-9_-]{43}", key):
        assert unreachable.principal(key) is None
