"""The command about proxies: the operator's pools and how their proxies do. Credentials are never shown."""

from __future__ import annotations

from typing import Annotated

import typer

from shoal.cli import options as opt
from shoal.cli.talk import cells, human_seconds, print_json, say
from shoal.core.proxies import ProxyPool, ProxyState
from shoal.proxy_pools import Listed, listed, pools_of, proxy_record
from shoal.settings import Settings, read_settings

Pool = Annotated[str | None, typer.Argument(help="Only this pool.", show_default=False)]


def proxies(pool: Pool = None, json: opt.Json = False) -> None:
    """List the pools of SHOAL_PROXIES_FILE and their proxies: score, in flight, rest.

    shoal proxies residential --json
    """
    settings = read_settings()
    pools = pools_of(settings.proxies_file)
    chosen: dict[str, ProxyPool] = dict(pools.all()) if pool is None else {pool: pools.get(pool)}
    rows = listed(chosen)
    states = _look(settings, rows) if rows else []
    if json:
        print_json([proxy_record(row, state) for row, state in zip(rows, states, strict=True)])
    elif rows:
        _print_table(rows, states)
    else:
        say("no proxy pools: SHOAL_PROXIES_FILE names the file that they stand in")


def _look(settings: Settings, rows: list[Listed]) -> list[ProxyState]:
    from shoal.frontier.proxies import ProxyDesk
    from shoal.wiring import redis_urls, with_redis

    with with_redis(settings, room=False) as chosen:
        desk = ProxyDesk.at(redis_urls(chosen).frontier, chosen.prefix)
        try:
            return desk.look([row.name for row in rows])
        finally:
            desk.close_connections()


def _print_table(rows: list[Listed], states: list[ProxyState]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD)
    for column in ("pool", "proxy", "rotate", "score", "in flight", "rests for"):
        table.add_column(column, justify="right" if column in ("score", "in flight") else "left", overflow="fold")
    for row, state in zip(rows, states, strict=True):
        rest = human_seconds(state.rest.total_seconds()) if state.rest else ""
        shown = (row.pool, row.shown, row.rotate, f"{state.score:.2f}", str(state.in_flight), rest)
        table.add_row(*cells(shown))
    Console().print(table)
