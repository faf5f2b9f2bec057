"""explain: what became of one URL."""

from __future__ import annotations

from typing import Annotated

import typer

from shoal.cli import options as opt

AnyUrl = Annotated[str, typer.Argument(help="The URL, as you have it; in quotes if it has an &.", show_default=False)]


def explain(job: opt.Job, url: AnyUrl, json: opt.Json = False) -> None:
    """Explain what became of a URL in a job, step by step: found where, filtered or refused by what, waiting for what.

    shoal explain k3x9 https://books.example/book/7

    shoal explain k3x9 https://books.example/book/7 --json
    """
    from shoal.cli import show_explain

    show_explain.show_explanation(job, url, json=json)
