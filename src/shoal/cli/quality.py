"""Commands about the quality of items. What they do is in `show_quality`, imported when one is called."""

from __future__ import annotations

from typing import Annotated

import typer

from shoal.cli import options as opt
from shoal.cli.jobs import OfVersion

Hosts = Annotated[bool, typer.Option("--hosts", envvar="SHOAL_BY_HOST", help="Each host by itself, too.")]


def fields(job: opt.Job, hosts: Hosts = False, version: OfVersion = None, json: opt.Json = False) -> None:
    """Show what the fields of a job's items look like: how many are filled, with what, how many different values.

    shoal fields k3x9

    shoal fields k3x9 --hosts --json
    """
    from shoal.cli import show_quality

    show_quality.show_fields(job, version, hosts=hosts, json=json)


def quarantine(
    job: opt.Job,
    version: OfVersion = None,
    format: opt.Format = None,  # noqa: A002 - the flag's name
    output: opt.Output = None,
) -> None:
    """Print the items that break a job's contract, with the reasons. They are not among its results.

    shoal quarantine k3x9 --format csv
    """
    from shoal.cli import show

    show.write_results(job, format, output, what="quarantine", version=version)
