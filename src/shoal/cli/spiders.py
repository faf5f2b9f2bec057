"""The command about spiders and models: which there are, and what could not be imported."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import typer
from pydantic import BaseModel

from shoal.cli import options as opt
from shoal.cli.talk import cells, print_json, say
from shoal.settings import read_settings
from shoal.spiders.finder import load, use
from shoal.spiders.models import models
from shoal.spiders.registry import Spider, place_of
from shoal.spiders.registry import spiders as registered

Record = dict[str, Any]


def spiders(json: opt.Json = False) -> None:
    """List the spiders and models that jobs can name: those of SHOAL_SPIDERS and of installed packages.

    shoal spiders --json
    """
    use(read_settings().spiders)
    problems = load()
    records = [*map(_spider, registered().values()), *(_model(name, each) for name, each in models().items())]
    if json:
        print_json(records)
    elif records:
        _print_tables(records)
    elif not problems:
        say("no spiders and no models: SHOAL_SPIDERS names the modules or files that they stand in")
    for source, why in problems.items():
        say(f"{source} cannot be imported: {why}")
    if problems:
        raise typer.Exit(1)


def _spider(spider: Spider) -> Record:
    return {
        "kind": "spider",
        "name": spider.name,
        "callbacks": sorted(spider.callbacks),
        "source": spider.source,
        "about": spider.about,
    }


def _model(name: str, model: type[BaseModel]) -> Record:
    """For contracts: `contract: {model: NAME}`."""
    about = (inspect.cleandoc(model.__doc__ or "")).partition("\n")[0]
    return {
        "kind": "model",
        "name": name,
        "fields": list(model.model_fields),
        "source": place_of(model),
        "about": about,
    }


def _print_tables(records: Sequence[Record]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    for kind, parts in (("spider", "callbacks"), ("model", "fields")):
        rows = [each for each in records if each["kind"] == kind]
        table = Table(box=box.SIMPLE_HEAD)
        for column in (kind, parts, "about", "source"):
            table.add_column(column, overflow="fold")
        for each in rows:
            table.add_row(*cells((each["name"], ", ".join(each[parts]), each["about"], each["source"])))
        if rows:
            Console().print(table)
