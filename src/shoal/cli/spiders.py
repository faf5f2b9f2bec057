"""The command about spiders: which there are, and which could not be imported."""

from __future__ import annotations

from collections.abc import Iterable

import typer

from shoal.cli import options as opt
from shoal.cli.talk import cells, print_json, say
from shoal.settings import read_settings
from shoal.spiders.finder import load, use
from shoal.spiders.registry import Spider
from shoal.spiders.registry import spiders as registered


def spiders(json: opt.Json = False) -> None:
    """List the spiders that jobs can name: those of SHOAL_SPIDERS and of installed packages.

    shoal spiders --json
    """
    use(read_settings().spiders)
    problems = load()
    found = registered().values()
    if json:
        print_json([_record(each) for each in found])
    elif found:
        _print_table(found)
    elif not problems:
        say("no spiders: SHOAL_SPIDERS names the modules or files that they stand in")
    for source, why in problems.items():
        say(f"{source} cannot be imported: {why}")
    if problems:
        raise typer.Exit(1)


def _record(spider: Spider) -> dict[str, object]:
    return {
        "name": spider.name,
        "callbacks": sorted(spider.callbacks),
        "source": spider.source,
        "about": spider.about,
    }


def _print_table(found: Iterable[Spider]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD)
    for column in ("spider", "callbacks", "about", "source"):
        table.add_column(column, overflow="fold")
    for each in found:
        table.add_row(*cells((each.name, ", ".join(sorted(each.callbacks)), each.about, each.source)))
    Console().print(table)
