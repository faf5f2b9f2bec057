"""Who asks, and what they may: permissions, tenants and the limits of API keys.

Nobody may do anything that is not among the permissions of their principal; `admin` includes the other two.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import StrEnum

from shoal.core.frozen import frozen
from shoal.core.spec import read_rate
from shoal.errors import InputError

DEFAULT_TENANT = "default"
MAX_RATE = 100_000.0
"""Requests a second."""
MAX_LABEL_CHARS = 200

_TENANT = re.compile(r"(?!\.+\Z)[A-Za-z0-9._-]{1,80}")  # dots alone would be folders


class Permission(StrEnum):
    """What a key allows; people call it a scope."""

    SUBMIT = "submit"
    READ = "read"
    ADMIN = "admin"


@frozen
class Principal:
    """Who a request to the API comes from."""

    tenant: str
    permissions: frozenset[Permission]
    key: str | None
    """The public prefix of the key; None where no key is asked for."""
    rate: float
    """Requests a second; 0 means unlimited."""

    def may(self, permission: Permission) -> bool:
        """Is this allowed?"""
        return permission in self.permissions or Permission.ADMIN in self.permissions

    @property
    def sees_fleet(self) -> bool:
        """May it see what is summed over all tenants? That is for those who run the fleet, not for who uses it."""
        return self.may(Permission.ADMIN) or (self.tenant == DEFAULT_TENANT and self.may(Permission.READ))


EVERYBODY = Principal(DEFAULT_TENANT, frozenset(Permission), None, 0.0)
"""Whoever can reach an API that is open: on loopback, without keys."""


def read_scopes(text: str) -> frozenset[Permission]:
    """`submit,read` as permissions."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    unknown = [name for name in names if name not in list(Permission)]
    if unknown:
        raise InputError(f"unknown scope {', '.join(map(repr, unknown))}; there are {', '.join(Permission)}")
    if not names:
        raise InputError(f"no scope given; there are {', '.join(Permission)}")
    return frozenset(map(Permission, names))


def write_scopes(scopes: Iterable[Permission]) -> str:
    """Permissions as people write them, always in the same order."""
    given = frozenset(scopes)
    return ",".join(permission for permission in Permission if permission in given)


def read_tenant(text: str) -> str:
    """A tenant's name."""
    if not _TENANT.fullmatch(text):
        raise InputError(f"tenant {text[:80]!r}: a name has 1 to 80 letters (a-z, A-Z), digits, '-', '_' and '.'")
    return text


def read_label(text: str) -> str:
    """A label for people: one line that is not empty."""
    label = text.strip()
    if not label or len(label) > MAX_LABEL_CHARS or not label.isprintable():
        raise InputError(f"label {text[:80]!r}: write one line of 1 to {MAX_LABEL_CHARS} characters")
    return label


def read_rate_limit(text: str) -> float:
    """Requests a second from `50`, `50/s`, `600/m`; `unlimited` is 0."""
    if text.strip() == "unlimited":
        return 0.0
    rate = read_rate(text)
    if not isinstance(rate, float) or not 0 < rate <= MAX_RATE:
        raise InputError(f"rate {text[:80]!r}: write 50, 50/s or 600/m (at most {MAX_RATE:.0f} a second), or unlimited")
    return rate


def write_rate_limit(rate: float) -> str:
    """A limit as people read it."""
    return f"{rate:g}/s" if rate else "unlimited"
