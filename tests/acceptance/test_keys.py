"""`shoal keys`: made, listed and revoked by the real command, with no Redis near."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from shoal.core.access import Permission, Principal
from shoal.store.database import open_database
from shoal.store.keys import KeyStore
from tests.command import Done, Shoal

KEY = re.compile(r"shoal_[a-z0-9]{10}_[A-Za-z0-9_-]{43}")


@pytest.fixture
def shoal(shoal: Shoal) -> Shoal:
    """Commands that would fail if they looked for a Redis."""
    return Shoal(shoal.home, (("SHOAL_REDIS_URL", "redis://127.0.0.1:9"),))


def _made(done: Done) -> str:
    assert done.code == 0, done.err
    key = done.out.removesuffix("\n")
    assert KEY.fullmatch(key)
    return key


def _principal(shoal: Shoal, key: str) -> Principal | None:
    engine = open_database(shoal.settings.sql_url)
    try:
        return KeyStore(engine).principal(key)
    finally:
        engine.dispose()


def _listed(shoal: Shoal) -> list[dict[str, Any]]:
    done = shoal.run("keys", "list", "--json")
    assert done.code == 0, done.err
    return json.loads(done.out)


def _with_prefix(shoal: Shoal, prefix: str) -> None:
    """A key in the database whose prefix is known beforehand."""
    engine = open_database(shoal.settings.sql_url)
    with engine.begin() as connection:
        connection.exec_driver_sql(
            "INSERT INTO api_keys (prefix, digest, label, tenant, scopes, rate, created_ms)"
            f" VALUES ('{prefix}', '', 'x', 'default', 'read', 0, 1)"
        )
    engine.dispose()


def test_a_key_stands_alone_on_standard_output_and_is_nowhere_else(shoal: Shoal) -> None:
    done = shoal.run("keys", "create", "--label", "nightly")
    key = _made(done)
    _, prefix, secret = key.split("_", 2)
    assert "this once" in done.err
    assert f"Authorization: Bearer shoal_{prefix}_…" in done.err
    assert secret not in done.err
    assert _principal(shoal, key) == Principal("default", frozenset({Permission.SUBMIT, Permission.READ}), prefix, 50.0)
    files = [path for path in shoal.home.rglob("*") if path.is_file()]
    assert any(prefix.encode() in path.read_bytes() for path in files)
    assert not any(secret.encode() in path.read_bytes() for path in files)


def test_a_key_has_the_limits_that_it_was_made_with(shoal: Shoal) -> None:
    flags = ["--label", "ops", "--scope", "admin", "--tenant", "shop-1", "--rate", "600/m", "--json"]
    done = shoal.run("keys", "create", *flags)
    made = done.json
    assert (made["label"], made["tenant"], made["scopes"], made["rate"]) == ("ops", "shop-1", ["admin"], 10.0)
    principal = _principal(shoal, made.pop("key"))
    assert principal == Principal("shop-1", frozenset({Permission.ADMIN}), made["prefix"], 10.0)
    assert _listed(shoal) == [made]


@pytest.mark.embedded
def test_every_flag_has_its_variable(shoal: Shoal) -> None:
    variables = {
        "SHOAL_KEY_LABEL": "from afar",
        "SHOAL_KEY_SCOPE": "read",
        "SHOAL_KEY_TENANT": "shop",
        "SHOAL_KEY_RATE": "unlimited",
    }
    principal = _principal(shoal, _made(Shoal(shoal.home, tuple(variables.items())).run("keys", "create")))
    assert principal
    assert (principal.tenant, principal.permissions, principal.rate) == ("shop", {Permission.READ}, 0.0)
    (row,) = _listed(shoal)
    assert (row["label"], row["rate"]) == ("from afar", "unlimited")
    help_text = shoal.run("keys", "create", "--help").out
    assert all(name in help_text for name in (*variables, "SHOAL_JSON"))


def test_the_list_shows_everything_but_the_secret(shoal: Shoal) -> None:
    key = _made(shoal.run("keys", "create", "--label", "with [bold]brackets[/]"))
    gone = _made(shoal.run("keys", "create", "--label", "gone", "--rate", "unlimited"))
    shoal.run("keys", "revoke", gone)
    done = shoal.run("keys", "list")
    assert done.code == 0, done.err
    (row,) = (line for line in done.out.splitlines() if key.split("_")[1] in line)
    for cell in ("with [bold]brackets[/]", "default", "submit,read", "50/s", "live"):
        assert cell in row
    (row,) = (line for line in done.out.splitlines() if gone.split("_")[1] in line)
    assert "unlimited" in row
    assert "revoked 20" in row
    for made in (key, gone):
        assert made.split("_", 2)[2] not in done.out + json.dumps(_listed(shoal))


def test_a_list_without_keys_says_how_to_make_one(shoal: Shoal) -> None:
    done = shoal.run("keys", "list")
    assert (done.code, done.out) == (0, "")
    assert "shoal keys create" in done.err
    assert _listed(shoal) == []


def test_a_key_is_revoked_by_its_first_letters_its_public_part_or_the_whole(shoal: Shoal) -> None:
    for part in (slice(0, 12), slice(0, 16), slice(6, 12), slice(6, 16)):
        key = _made(shoal.run("keys", "create", "--label", "x"))
        done = shoal.run("keys", "revoke", key[part])
        assert (done.code, done.out) == (0, ""), done.err
        assert key[6:16] in done.err
        assert _principal(shoal, key) is None
    key = _made(shoal.run("keys", "create", "--label", "leaked"))
    done = shoal.run("keys", "revoke", key, "--json")
    assert (done.json["state"], done.json["label"]) == ("revoked", "leaked")
    assert key.split("_", 2)[2] not in done.out + done.err


def test_revoking_twice_keeps_the_first_time(shoal: Shoal) -> None:
    key = _made(shoal.run("keys", "create", "--label", "x"))
    first = shoal.run("keys", "revoke", key, "--json").json
    assert shoal.run("keys", "revoke", key, "--json").json == first


def test_letters_that_fit_two_keys_revoke_neither(shoal: Shoal) -> None:
    _made(shoal.run("keys", "create", "--label", "makes the database"))
    for prefix in ("zzzzzzzzz1", "zzzzzzzzz2"):
        _with_prefix(shoal, prefix)
    done = shoal.run("keys", "revoke", "shoal_zzzzzzzzz")
    assert (done.code, done.out) == (2, "")
    assert "could be any of" in done.err
    assert {row["state"] for row in _listed(shoal)} == {"live"}
    assert shoal.run("keys", "revoke", "zzzzzzzzz1").code == 0


def test_an_unknown_key_cannot_be_revoked(shoal: Shoal) -> None:
    done = shoal.run("keys", "revoke", "shoal_0000000000")
    assert (done.code, done.out) == (1, "")
    assert "there is no key '0000000000'" in done.err


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["create"], "--label"),
        (["create", "--label", " "], "label"),
        (["create", "--label", "x", "--scope", "submit,write"], "unknown scope 'write'; there are submit, read, admin"),
        (["create", "--label", "x", "--scope", ","], "no scope given"),
        (["create", "--label", "x", "--tenant", "a/b"], "tenant 'a/b'"),
        (["create", "--label", "x", "--rate", "fast"], "rate 'fast'"),
        (["create", "--label", "x", "--rate", "0"], "or unlimited"),
        (["revoke", ""], "no prefix"),
        (["revoke", "shoal_"], "no prefix"),
        (["revoke", "%"], "no prefix"),
    ],
)
def test_bad_input_is_refused_before_anything_is_made(shoal: Shoal, args: list[str], words: str) -> None:
    done = shoal.run("keys", *args)
    assert (done.code, done.out) == (2, ""), done.err
    assert words in done.err
    assert "Traceback" not in done.err
    assert not shoal.home.exists()


def test_what_may_be_a_secret_is_not_repeated(shoal: Shoal) -> None:
    done = shoal.run("keys", "revoke", "S3cretS3cretS3cret")
    assert done.code == 2
    assert "S3cret" not in done.err
