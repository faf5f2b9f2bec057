"""Who may do what, and how people write it."""

from __future__ import annotations

from itertools import combinations

import pytest

from shoal.core.access import (
    DEFAULT_TENANT,
    EVERYBODY,
    Permission,
    Principal,
    read_label,
    read_rate_limit,
    read_scopes,
    read_tenant,
    write_rate_limit,
    write_scopes,
)
from shoal.errors import InputError


def _with(*permissions: Permission) -> Principal:
    return Principal("shop", frozenset(permissions), "abcdefghij", 50.0)


@pytest.mark.parametrize("permission", [Permission.SUBMIT, Permission.READ])
def test_a_permission_allows_itself_and_nothing_else(permission: Permission) -> None:
    assert [other for other in Permission if _with(permission).may(other)] == [permission]


def test_admin_includes_the_others() -> None:
    assert all(_with(Permission.ADMIN).may(permission) for permission in Permission)


def test_nobody_may_do_anything_without_permissions() -> None:
    assert not any(_with().may(permission) for permission in Permission)


def test_the_open_api_allows_everything_without_a_limit() -> None:
    assert all(EVERYBODY.may(permission) for permission in Permission)
    assert (EVERYBODY.tenant, EVERYBODY.key, EVERYBODY.rate) == (DEFAULT_TENANT, None, 0.0)
    assert read_tenant(DEFAULT_TENANT) == DEFAULT_TENANT


@pytest.mark.parametrize("text", ["submit,read", " read , submit ", "read,submit,read", "submit,,read,"])
def test_scopes_are_read_in_any_order(text: str) -> None:
    assert read_scopes(text) == {Permission.SUBMIT, Permission.READ}


def test_scopes_survive_being_written() -> None:
    for count in (1, 2, 3):
        for scopes in combinations(Permission, count):
            assert read_scopes(write_scopes(reversed(scopes))) == set(scopes)
    assert write_scopes([Permission.ADMIN, Permission.SUBMIT]) == "submit,admin"


@pytest.mark.parametrize("text", ["submit,write", "write", "write\n,read"])
def test_an_unknown_scope_is_named_beside_those_that_exist(text: str) -> None:
    with pytest.raises(InputError, match=r"unknown scope 'write'; there are submit, read, admin$"):
        read_scopes(text)


@pytest.mark.parametrize("text", ["Submit", "ADMIN", "submit read", "*", "Permission.READ"])
def test_what_only_resembles_a_scope_is_none(text: str) -> None:
    with pytest.raises(InputError, match="unknown scope"):
        read_scopes(text)


@pytest.mark.parametrize("text", ["", " ", ",", " , "])
def test_a_key_needs_a_scope(text: str) -> None:
    with pytest.raises(InputError, match="no scope given; there are submit, read, admin"):
        read_scopes(text)


@pytest.mark.parametrize("name", ["a", "Shop-1", "team_a.example", "7", "-x", ".x", "a..b", "x" * 80])
def test_tenants_have_plain_names(name: str) -> None:
    assert read_tenant(name) == name


@pytest.mark.parametrize("name", ["", " ", "a b", "a\n", "a/b", "ü", "٣", "a:b", "a\0", ".", "..", "x" * 81])
def test_other_tenants_are_refused(name: str) -> None:
    with pytest.raises(InputError, match="1 to 80 letters"):
        read_tenant(name)


@pytest.mark.parametrize(("text", "label"), [("nightly", "nightly"), (" Jörg's laptop ", "Jörg's laptop")])
def test_labels_are_for_people(text: str, label: str) -> None:
    assert read_label(text) == label
    assert read_label("x" * 200)


@pytest.mark.parametrize("text", ["", "  ", "a\nb", "a\x1b[31m", "a\0", "\udcff", "x" * 201])
def test_a_label_is_one_line_that_a_terminal_can_show(text: str) -> None:
    with pytest.raises(InputError, match="1 to 200 characters"):
        read_label(text)


@pytest.mark.parametrize(
    ("text", "per_second"),
    [
        ("50", 50.0),
        ("50/s", 50.0),
        ("600/m", 10.0),
        ("36/h", 0.01),
        (" 0.5 ", 0.5),
        ("unlimited", 0.0),
        (" unlimited", 0.0),
        ("100000", 100_000.0),
    ],
)
def test_a_limit_is_requests_a_second(text: str, per_second: float) -> None:
    assert read_rate_limit(text) == per_second


@pytest.mark.parametrize(
    "text", ["", "0", "0/m", "-1", "fast", "50/d", "nan", "inf", "1e9", "100001", "9" * 400, "5 0"]
)
def test_a_limit_that_is_none_is_explained(text: str) -> None:
    with pytest.raises(InputError, match=r"write 50, 50/s or 600/m .*, or unlimited"):
        read_rate_limit(text)


@pytest.mark.parametrize(
    ("rate", "text"), [(50.0, "50/s"), (0.01, "0.01/s"), (100_000.0, "100000/s"), (0.0, "unlimited")]
)
def test_a_limit_is_written_as_it_can_be_read(rate: float, text: str) -> None:
    assert write_rate_limit(rate) == text
    assert read_rate_limit(text) == rate
