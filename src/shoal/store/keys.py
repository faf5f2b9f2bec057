"""API keys. A key is `shoal_PREFIX_SECRET`: the prefix is public and finds the row, the secret is never stored.

Of the whole key only its SHA-256 is kept. The secret is 32 random bytes, so a slow hash would protect nothing more.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import string
from collections.abc import Iterable

import sqlalchemy as sa
from sqlalchemy.engine import Engine

from shoal.core.access import Permission, Principal, write_scopes
from shoal.core.frozen import frozen, names_of
from shoal.errors import NotFound
from shoal.store.pages import translated_errors
from shoal.store.tables import api_keys

PREFIX_CHARS = 10
SECRET_BYTES = 32

_PREFIX_ALPHABET = string.ascii_lowercase + string.digits
_KEY = re.compile(r"shoal_([a-z0-9]{10})_[A-Za-z0-9_-]{43}")
_NO_DIGEST = "0" * 64
_LIVE = api_keys.c.revoked_ms.is_(None)
_PUBLIC = [column for column in api_keys.c if column.name != "digest"]


@frozen
class KeyRow:
    """What may be shown of a key."""

    prefix: str
    label: str
    tenant: str
    scopes: frozenset[Permission]
    rate: float
    """Requests a second; 0 means unlimited."""
    created_ms: int
    revoked_ms: int | None = None

    @property
    def live(self) -> bool:
        return self.revoked_ms is None


class KeyStore:
    """The keys of all tenants."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def create(self, *, label: str, tenant: str, scopes: Iterable[Permission], rate: float, created_ms: int) -> str:
        """A new key. It exists in what this returns, and nowhere else."""
        prefix = "".join(secrets.choice(_PREFIX_ALPHABET) for _ in range(PREFIX_CHARS))
        key = f"shoal_{prefix}_{secrets.token_urlsafe(SECRET_BYTES)}"
        values = {
            "prefix": prefix,
            "digest": _digest(key),
            "label": label,
            "tenant": tenant,
            "scopes": write_scopes(scopes),
            "rate": rate,
            "created_ms": created_ms,
        }
        with translated_errors(), self._engine.begin() as connection:
            connection.execute(sa.insert(api_keys).values(values))
        return key

    def principal(self, key: str) -> Principal | None:
        """Whose key this is; None for one that is malformed, unknown, wrong or revoked."""
        prefix = prefix_of(key)
        if prefix is None:
            return None
        with translated_errors(), self._engine.connect() as connection:
            row = connection.execute(sa.select(api_keys).where(api_keys.c.prefix == prefix)).mappings().first()
        # compared in any case: how long it takes must not tell whether the prefix exists
        right = hmac.compare_digest(_digest(key), _NO_DIGEST if row is None else row["digest"])
        if row is None or not right or row["revoked_ms"] is not None:
            return None
        return Principal(row["tenant"], _scopes(row["scopes"]), prefix, row["rate"])

    def principal_of(self, prefix: str) -> Principal | None:
        """Whose key has this prefix, for who has proved otherwise to have it; None when it was revoked."""
        mine = (api_keys.c.prefix == prefix, _LIVE)
        with translated_errors(), self._engine.connect() as connection:
            row = connection.execute(sa.select(*_PUBLIC).where(*mine)).mappings().first()
        return None if row is None else Principal(row["tenant"], _scopes(row["scopes"]), prefix, row["rate"])

    def any_made(self) -> bool:
        """Was a key ever made? Who revokes the last one does not mean to let everybody in."""
        with translated_errors(), self._engine.connect() as connection:
            return connection.execute(sa.select(api_keys.c.prefix).limit(1)).first() is not None

    def any_live(self) -> bool:
        """Is there a key that is not revoked?"""
        query = sa.select(sa.exists().where(_LIVE))
        with translated_errors(), self._engine.connect() as connection:
            return bool(connection.execute(query).scalar())

    def all(self) -> list[KeyRow]:
        """Every key, newest first, revoked ones too."""
        query = sa.select(*_PUBLIC).order_by(api_keys.c.created_ms.desc(), api_keys.c.prefix)
        with translated_errors(), self._engine.connect() as connection:
            return [_row(row) for row in connection.execute(query).mappings()]

    def revoke(self, prefix: str, at_ms: int) -> KeyRow:
        """Let a key open nothing any more. Safe to repeat: the first time stays on record."""
        mine = api_keys.c.prefix == prefix
        with translated_errors(), self._engine.begin() as connection:
            connection.execute(sa.update(api_keys).where(mine, _LIVE).values(revoked_ms=at_ms))
            row = connection.execute(sa.select(*_PUBLIC).where(mine)).mappings().first()
        if row is None:
            raise NotFound(f"there is no key {prefix!r}; `shoal keys list` shows them")
        return _row(row)


def prefix_of(key: str) -> str | None:
    """The public part of what is formed like a key."""
    match = _KEY.fullmatch(key)
    return match[1] if match else None


def _digest(key: str) -> str:
    return hashlib.sha256(key.encode("ascii")).hexdigest()


def _scopes(text: str) -> frozenset[Permission]:
    """A scope that this version does not know, of a newer one's key, allows nothing here."""
    names = text.split(",")
    return frozenset(permission for permission in Permission if permission in names)


def _row(row: sa.RowMapping) -> KeyRow:
    plain = {name: row[name] for name in names_of(KeyRow) if name != "scopes"}
    return KeyRow(**plain, scopes=_scopes(row["scopes"]))
