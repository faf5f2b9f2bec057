"""Commands about API keys. They need the database only, no Redis. A secret is printed once, when it is made."""

from __future__ import annotations

import re
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli import options as opt
from shoal.cli.talk import cells, print_json, say
from shoal.core.access import (
    DEFAULT_TENANT,
    Permission,
    read_label,
    read_rate_limit,
    read_scopes,
    read_tenant,
    write_rate_limit,
    write_scopes,
)
from shoal.errors import InputError, NotFound
from shoal.home import make_home
from shoal.settings import read_settings

if TYPE_CHECKING:
    from shoal.store.keys import KeyRow, KeyStore

REVOKED_WITHIN_S = 5
"""How long an API process may still take a revoked key for a good one."""

Label = Annotated[str, typer.Option(envvar="SHOAL_KEY_LABEL", help="Who or what the key is for.", show_default=False)]
Scope = Annotated[
    str,
    typer.Option(envvar="SHOAL_KEY_SCOPE",
                 help="What it allows, comma-separated: submit, read, admin (which includes the others)."),
]  # fmt: skip
Tenant = Annotated[str, typer.Option(envvar="SHOAL_KEY_TENANT", help="Whose jobs it can see and make.")]
Rate = Annotated[str, typer.Option(envvar="SHOAL_KEY_RATE", help="API requests a second: 50, 600/m, or unlimited.")]
Prefix = Annotated[
    str, typer.Argument(help="The key's prefix, or its first letters, with or without shoal_.", show_default=False)
]

app = typer.Typer(name="keys", help="Make, list and revoke the keys of the API.", no_args_is_help=True)


@app.command()
def create(
    label: Label,
    scope: Scope = "submit,read",
    tenant: Tenant = DEFAULT_TENANT,
    rate: Rate = "50",
    json: opt.Json = False,
) -> None:
    """Make a key and print it, this once.

    shoal keys create --label nightly --scope submit,read --rate 600/m > nightly.key
    """
    from shoal.store.keys import KeyRow, prefix_of

    label, tenant = read_label(label), read_tenant(tenant)
    scopes, limit, now_ms = read_scopes(scope), read_rate_limit(rate), _now_ms()
    with _open_keys() as keys:
        key = keys.create(label=label, tenant=tenant, scopes=scopes, rate=limit, created_ms=now_ms)
    row = KeyRow(prefix_of(key) or "", label, tenant, scopes, limit, now_ms)
    if json:
        print_json({"key": key, **_row_json(row)})
    else:
        print(key, flush=True)
        _explain(row)


@app.command("list")
def list_keys(json: opt.Json = False) -> None:
    """List all keys, newest first, without their secrets.

    shoal keys list --json
    """
    with _open_keys() as keys:
        rows = keys.all()
    if json:
        print_json([_row_json(row) for row in rows])
    elif rows:
        _print_table(rows)
    else:
        say("no keys yet; make one with: shoal keys create --label me")


@app.command()
def revoke(prefix: Prefix, json: opt.Json = False) -> None:
    """Take a key out of force, for good.

    shoal keys revoke shoal_8fk2
    """
    start = _start_of(prefix)
    with _open_keys() as keys:
        row = keys.revoke(_find(keys.all(), start), _now_ms())
    if json:
        print_json(_row_json(row))
    else:
        say(f"key {row.prefix} ({row.label}) is revoked; running APIs refuse it within {REVOKED_WITHIN_S} seconds")


@contextmanager
def _open_keys() -> Generator[KeyStore]:
    from shoal.store.keys import KeyStore
    from shoal.upgrades import open_store

    settings = read_settings()
    make_home(settings.home)
    engine = open_store(settings)
    try:
        yield KeyStore(engine)
    finally:
        engine.dispose()


def _explain(row: KeyRow) -> None:
    limit = f"at most {write_rate_limit(row.rate)}" if row.rate else "no rate limit"
    say(f"key {row.prefix} ({row.label}): tenant {row.tenant}, scopes {write_scopes(row.scopes)}, {limit}")
    say("From now on every request to the API needs a key, on this machine too.")
    say("It is shown this once: keep it like a password, and send it with each request to the API:")
    say(f"  Authorization: Bearer shoal_{row.prefix}_…", ours=True)


def _start_of(given: str) -> str:
    """The first letters of a prefix. A whole key loses its secret, and what is odd is not repeated: it may be one."""
    start = given.strip().removeprefix("shoal_").partition("_")[0]
    if not re.fullmatch(r"[a-z0-9]{1,10}", start):
        raise InputError("that is no prefix of a key (10 of a-z and 0-9) nor its beginning; `shoal keys list` has them")
    return start


def _find(rows: Sequence[KeyRow], start: str) -> str:
    matches = [row.prefix for row in rows if row.prefix.startswith(start)]
    if len(matches) > 1:
        raise InputError(f"{start!r} could be any of {', '.join(matches[:5])}; write more of it")
    if not matches:
        raise NotFound(f"there is no key {start!r}; `shoal keys list` shows them")
    return matches[0]


def _print_table(rows: Sequence[KeyRow]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD)
    for column in ("prefix", "label", "tenant", "scopes", "rate", "created", "state"):
        table.add_column(column, overflow="fold", no_wrap=column == "prefix")
    for row in rows:
        limits = write_scopes(row.scopes), write_rate_limit(row.rate)
        shown = (row.prefix, row.label, row.tenant, *limits, _when(row.created_ms), _state(row))
        table.add_row(*cells(shown))
    Console().print(table)


def _state(row: KeyRow) -> str:
    return "live" if row.revoked_ms is None else f"revoked {_when(row.revoked_ms)}"


def _row_json(row: KeyRow) -> dict[str, object]:
    return {
        "prefix": row.prefix,
        "label": row.label,
        "tenant": row.tenant,
        "scopes": [scope.value for scope in Permission if scope in row.scopes],
        "rate": row.rate or "unlimited",
        "created_ms": row.created_ms,
        "revoked_ms": row.revoked_ms,
        "state": "live" if row.live else "revoked",
    }


def _when(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).astimezone().strftime("%Y-%m-%d %H:%M")


def _now_ms() -> int:
    return int(time.time() * 1000)
