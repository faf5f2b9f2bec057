"""Commands about what is taken from stored pages: extract, diff. What they do is in `again` and `compare`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from shoal.cli import options as opt
from shoal.cli.jobfile import read_params
from shoal.cli.run import DEFAULT_WORKERS
from shoal.cli.view import View

_PANEL = "What to take"
SpecFile = Annotated[
    Path | None,
    typer.Option("--spec", "-s", envvar="SHOAL_SPEC", rich_help_panel=_PANEL,
                 help="A YAML file: the settings of a job that say what is taken from its pages."),
]  # fmt: skip
As = Annotated[
    str | None,
    typer.Option("--as", envvar="SHOAL_AS", rich_help_panel=_PANEL,
                 help="The version's name; by itself, one that is under way is gone on with. [default: v2, v3, …]"),
]  # fmt: skip
Drop = Annotated[
    str | None,
    typer.Option("--drop", envvar="SHOAL_DROP", rich_help_panel=_PANEL,
                 help="Give this version up, and remove its items."),
]  # fmt: skip
VersionName = Annotated[str, typer.Argument(help="A version, such as v1.", show_default=False)]
Key = Annotated[
    str | None,
    typer.Option("--key", envvar="SHOAL_KEY", help="Rows with the same value of this field are the same row. "
                 "[default: those of the same place on the same page]"),
]  # fmt: skip
Rows = Annotated[
    int, typer.Option("--rows", envvar="SHOAL_ROWS", min=0, help="Rows to show to people; programs get all.")
]
ExitCode = Annotated[
    bool, typer.Option("--exit-code", envvar="SHOAL_EXIT_CODE", help="End with 1 when there are differences.")
]


def extract(
    job: opt.Job,
    spec: SpecFile = None,
    field: opt.FieldOption = None,
    each: opt.Each = None,
    take: opt.TakeOption = None,
    spider: opt.Spider = None,
    param: opt.Param = None,
    version: As = None,
    drop: Drop = None,
    workers: opt.Workers = DEFAULT_WORKERS,
    detach: opt.Detach = False,
    quiet: opt.Quiet = False,
    json: opt.Json = False,
) -> None:
    """Take other items from the pages that a job has stored, without fetching anything.

    shoal extract k3x9 --spec new.yaml --as v2

    shoal extract k3x9 --field title=h1 --field price=.price

    shoal extract k3x9 --each .card --field title=h2 --field price:money=.price

    shoal extract k3x9 --spider books --as v3

    shoal extract k3x9 --drop v2
    """
    from shoal.cli import again

    if drop:
        again.drop(job, drop, json=json)
        return
    params = read_params(param or ())
    flags = {"each": each, "formats": take, "spider": spider, "params": params}
    asked = again.Asked(job, spec, field or (), flags, version)
    raise typer.Exit(again.extract(asked, 0 if detach else workers, detach=detach, view=View(None, None, quiet, json)))


def diff(
    job: opt.Job,
    before: VersionName,
    after: VersionName,
    key: Key = None,
    rows: Rows = 20,
    exit_code: ExitCode = False,
    json: opt.Json = False,
) -> None:
    """Compare two versions of a job's items: rows added, removed and changed, field by field.

    shoal diff k3x9 v1 v2

    shoal diff k3x9 v1 v2 --key sku --json
    """
    from shoal.cli import compare

    different = compare.show_diff(job, before, after, key, rows, json=json)
    raise typer.Exit(int(different and exit_code))
