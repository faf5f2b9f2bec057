"""Commands about the servers that hosts are spread over (SHOAL_SHARDS)."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shoal.cli import options as opt
from shoal.cli.talk import cells, print_json, say
from shoal.errors import InputError, RedisUnavailable
from shoal.settings import read_settings

if TYPE_CHECKING:
    from shoal.frontier.moving import Move, Mover

Plan = Annotated[bool, typer.Option("--plan", help="Show what would be moved, and move nothing.")]
Retire = Annotated[
    str,
    typer.Option(envvar="SHOAL_RETIRE", metavar="NAME", show_default=False,
                 help="Move everything away from this shard, which SHOAL_SHARDS still names."),
]  # fmt: skip

_NOTHING = "nothing to move"

app = typer.Typer(no_args_is_help=True, help="Look at the Redis servers that hosts are spread over, and move hosts.")


@app.command()
def shards(json: opt.Json = False) -> None:
    """List the shards: their slots of hosts, URLs that wait there, memory, and which of them are away.

    shoal frontier shards --json
    """
    with _mover() as mover:
        mover.shards.table()
        rows = [_row(mover, name) for name in (*mover.shards.names, *mover.shards.unnamed)]
    if json:
        print_json(rows)
    else:
        _print_table(rows)


@app.command()
def rebalance(plan: Plan = False, retire: Retire = "", json: opt.Json = False) -> None:
    """Move slots of hosts until every shard has as many. Crawls go on; the hosts of the slot that moves wait meanwhile.

    After a shard was added to SHOAL_SHARDS of all processes:
    shoal frontier rebalance

    Before one is taken away:
    shoal frontier rebalance --retire old
    """
    with _mover() as mover:
        moves = mover.plan(retire)
        done = [_record(move) for move in moves] if plan else _carry_out_all(mover, moves)
    if json:
        print_json(done)
    elif plan:
        for move in moves:
            say(f"slot {move.slot}: {move.source} → {move.target}")
        say(f"{len(moves)} of 16 slots would be moved; do so with: {_command(retire)}" if moves else _NOTHING)
    elif not moves:
        say(_NOTHING)
    elif retire:
        say(f"{len(moves)} slots were moved; nothing is left on {retire}: take it out of SHOAL_SHARDS of all processes")
    else:
        say(f"{len(moves)} slots were moved; the shards have equally many, give or take one")


def _command(retire: str) -> str:
    return f"shoal frontier rebalance --retire {retire}" if retire else "shoal frontier rebalance"


def _carry_out_all(mover: Mover, moves: list[Move]) -> list[dict[str, Any]]:
    done: list[dict[str, Any]] = []
    for number, move in enumerate(moves, 1):
        say(f"slot {move.slot}: {move.source} → {move.target} ({number} of {len(moves)}) …")
        done.append({**_record(move), "keys": mover.move(move)})
    return done


def _record(move: Move) -> dict[str, Any]:
    return {"slot": move.slot, "from": move.source, "to": move.target}


@contextmanager
def _mover() -> Generator[Mover]:
    from shoal.wiring import frontier_place, with_redis

    settings = read_settings()
    if not settings.shard_urls:
        raise InputError("there are no shards: all hosts are on one Redis; docs/guides/shards.md says when to add some")
    with with_redis(settings, room=False) as chosen:
        mover = frontier_place(chosen).mover()
        try:
            yield mover
        finally:
            mover.close()


def _row(mover: Mover, name: str) -> dict[str, Any]:
    slots = mover.slots(name)
    row: dict[str, Any] = {"shard": name, "slots": slots, "away": "", "waiting": None, "memory_mb": None}
    try:
        waiting, memory = mover.look(name)
    except RedisUnavailable as exc:
        return {**row, "away": str(exc)}
    return {**row, "waiting": waiting, "memory_mb": memory // 1_000_000}


def _print_table(rows: list[dict[str, Any]]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD)
    for column in ("shard", "slots", "waiting", "memory", "away"):
        right = column in ("slots", "waiting", "memory")
        table.add_column(column, justify="right" if right else "left", overflow="fold")
    for row in rows:
        known = row["waiting"] is not None
        waiting, memory = (f"{row['waiting']:,}", f"{row['memory_mb']} MB") if known else ("", "")
        table.add_row(*cells((row["shard"], str(len(row["slots"])), waiting, memory, row["away"])))
    Console().print(table)
