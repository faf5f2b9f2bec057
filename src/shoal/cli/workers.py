"""Commands about workers: those that live, and how many would be useful."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli import options as opt
from shoal.cli.talk import cells, print_json, say

if TYPE_CHECKING:
    from shoal.staffing import Staff

Queues = Annotated[
    str,
    typer.Option(envvar="SHOAL_ADVISE_QUEUES", show_default=False, metavar="NAME,…",
                 help="Only these queues, such as those that one deployment serves. [default: all]"),
]  # fmt: skip

app = typer.Typer(no_args_is_help=True, help="Look at the workers that live, and how many would be useful.")


@app.command(name="list")
def list_(json: opt.Json = False) -> None:
    """List the workers that live: what they serve, their processes, and what they do.

    shoal workers list
    """
    from shoal.api import present
    from shoal.settings import read_settings
    from shoal.wiring import open_platform

    with open_platform(read_settings()) as platform:
        workers = [present.worker(beat) for beat in platform.watch.workers()]
    if json:
        print_json(workers)
    elif workers:
        columns = ("name", "queues", "processes", "active", "pages", "pace", "memory_mb")
        rows = [[", ".join(each[c]) if c == "queues" else f"{each[c]}" for c in columns] for each in workers]
        _print_table(("worker", "serves", "processes", "busy", "pages", "pages/s each", "MB"), rows, left=2)
    else:
        say("no worker lives; start one with: shoal worker")


@app.command()
def advise(queues: Queues = "", json: opt.Json = False) -> None:
    """Say how many worker processes would be useful now: as many as fetch what waits within a minute, and no more than
    the limits of its hosts can keep busy.

    shoal workers advise

    shoal workers advise --queues http.high,http.batch --json | jq '.kinds[0].useful'
    """
    from shoal.api import present
    from shoal.settings import read_settings
    from shoal.staffing import look
    from shoal.wiring import open_platform

    chosen = _chosen(queues)
    settings = read_settings()
    with open_platform(settings) as platform:
        staff = look(platform.watch, settings.address_parallel).of(chosen)
    if json:
        print_json(present.staff(staff))
    else:
        _print_advice(staff)


def _chosen(queues: str) -> frozenset[str]:
    from shoal.core.model import ALL_QUEUES
    from shoal.errors import InputError

    names = frozenset(filter(None, (name.strip() for name in queues.split(","))))
    if unknown := sorted(names - set(ALL_QUEUES)):
        raise InputError(f"--queues: nothing is fetched from {', '.join(unknown)}; there are {', '.join(ALL_QUEUES)}")
    return names or frozenset(ALL_QUEUES)


def _print_advice(staff: Staff) -> None:
    rows = [[r.queue, f"{r.processes}", f"{r.busy}", f"{r.need:.4g}", f"{r.useful}", r.why] for r in staff.queues]
    rows += [
        [f"all {kind.kind}", f"{kind.processes}", f"{kind.busy}", "", f"{kind.useful}", ""] for kind in staff.kinds
    ]
    _print_table(("queue", "processes", "busy", "need", "useful", "why"), rows, left=1)


def _print_table(columns: Sequence[str], rows: Sequence[Sequence[str]], left: int) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD)
    for number, column in enumerate(columns):
        text = number < left or column == "why"
        table.add_column(column, justify="left" if text else "right", overflow="fold")
    for row in rows:
        table.add_row(*cells(row))
    Console().print(table)
