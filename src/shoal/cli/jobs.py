"""Commands about jobs. What they do is in `show`, imported when one is called: start-up time is for crawls."""

from __future__ import annotations

from typing import Annotated

import typer

from shoal.cli import options as opt
from shoal.errors import InputError

Limit = Annotated[int, typer.Option(envvar="SHOAL_LIMIT", min=1, help="How many jobs to list.")]
Watch = Annotated[bool, typer.Option("--watch", "-w", envvar="SHOAL_WATCH", help="Stay until the job ends.")]
OnlyPages = Annotated[bool, typer.Option("--pages", envvar="SHOAL_ONLY_PAGES", help="Rows about pages, not items.")]
OnlyErrors = Annotated[
    bool, typer.Option("--errors", envvar="SHOAL_ONLY_ERRORS", help="Rows about requests that brought no page.")
]
To = Annotated[
    str | None,
    typer.Option(
        "--to",
        envvar="SHOAL_TO",
        help="s3://bucket/prefix/ (gs, az), file:///folder/, postgresql://host/database/table. [default: the job's]",
    ),
]
PageUrl = Annotated[str, typer.Argument(help="A URL of the job.", show_default=False)]
Replay = Annotated[bool, typer.Option("--replay", envvar="SHOAL_REPLAY", help="Try them once more.")]
Reason = Annotated[str | None, typer.Option(envvar="SHOAL_REASON", help="Only those that died of this: http_503.")]
OfHost = Annotated[str | None, typer.Option("--host", envvar="SHOAL_OF_HOST", help="Only those of this host.")]
MoreUrls = Annotated[list[str] | None, typer.Argument(help="URLs to fetch.", show_default=False)]
KINDS = ("response", "document", "screenshot", "pdf")
Kind = Annotated[
    str | None,
    typer.Option("--kind", envvar="SHOAL_KIND", help=f"Of a rendered page: {', '.join(KINDS)}. [default: document]"),
]
WithHeaders = Annotated[bool, typer.Option("--headers", envvar="SHOAL_HEADERS", help="Status line and headers too.")]


OfVersion = Annotated[
    str | None,
    typer.Option("--version", envvar="SHOAL_VERSION",
                 help="Items of this version of the extraction. [default: the newest that is complete]"),
]  # fmt: skip
WithLineage = Annotated[
    bool,
    typer.Option("--lineage", envvar="SHOAL_LINEAGE",
                 help="With each item, where it comes from: fetch, place in the archive, version."),
]  # fmt: skip


def jobs(limit: Limit = 20, json: opt.Json = False) -> None:
    """List jobs, newest first.

    shoal jobs --limit 5
    """
    from shoal.cli import show

    show.list_jobs(limit, json=json)


def status(job: opt.Job, watch: Watch = False, json: opt.Json = False) -> None:
    """Show a job's state and sums.

    shoal status k3x9 --watch
    """
    from shoal.cli import show

    show.show_status(job, watch=watch, json=json)


def results(
    job: opt.Job,
    format: opt.Format = None,  # noqa: A002 - the flag's name
    output: opt.Output = None,
    pages: OnlyPages = False,
    version: OfVersion = None,
    lineage: WithLineage = False,
    errors: OnlyErrors = False,
) -> None:
    """Write a job's items, or its pages when it has no fields: JSON Lines, CSV, Parquet, SQLite.

    shoal results k3x9 --format csv > books.csv

    shoal results k3x9 -o s3://bucket/books.parquet

    shoal results k3x9 --version v1 --lineage
    """
    from shoal.cli import show

    if pages and errors:
        raise InputError("--pages and --errors: give one of them")
    what = "pages" if pages else "errors" if errors else None
    show.write_results(job, format, output, what=what, version=version, lineage=lineage)


def dead(
    job: opt.Job,
    replay: Replay = False,
    reason: Reason = None,
    host: OfHost = None,
    format: opt.Format = None,  # noqa: A002 - the flag's name
    output: opt.Output = None,
    json: opt.Json = False,
) -> None:
    """Print the requests that a job gave up on, with their reasons; or try them once more.

    shoal dead k3x9 --format csv

    shoal dead k3x9 --replay --reason http_503
    """
    from shoal.cli import show

    if replay:
        show.replay_dead(job, reason, host, json=json)
    else:
        show.write_dead(job, format, output, reason, host)


def deliver(
    job: opt.Job,
    to: To = None,
    version: OfVersion = None,
    format: opt.Format = None,  # noqa: A002 - the flag's name
    json: opt.Json = False,
) -> None:
    """Deliver a job's results: once more, or to somewhere else.

    shoal deliver k3x9

    shoal deliver k3x9 --to s3://bucket/books/ --format parquet
    """
    from shoal.cli import deliver

    deliver.deliver(job, to, format, version, json=json)


def page(job: opt.Job, url: PageUrl, headers: WithHeaders = False, kind: Kind = None) -> None:
    """Print the stored body of a page, straight from the archive; of a rendered one, the document after all scripts.

    shoal page k3x9 https://books.example/book/1 > book.html

    shoal page k3x9 https://shop.example/ --kind screenshot > shop.png
    """
    from shoal.cli import show

    if kind not in (None, *KINDS):
        raise InputError(f"--kind {kind}: there are {', '.join(KINDS)}")
    show.write_page(job, url, headers=headers, kind=kind)


def pause(job: opt.Job, json: opt.Json = False) -> None:
    """Stop handing out a job's requests; what is under way is finished.

    shoal pause k3x9
    """
    from shoal.cli import show

    show.pause(job, json=json)


def add(job: opt.Job, urls: MoreUrls = None, file: opt.UrlFile = None, json: opt.Json = False) -> None:
    """Send more URLs to an open job (`open: true`).

    shoal add k3x9 https://books.example/book/7

    shoal add k3x9 -f more.txt
    """
    from shoal.cli import show

    show.add(job, urls or [], file, json=json)


def close(job: opt.Job, json: opt.Json = False) -> None:
    """Take no more URLs for an open job; it ends when it has done what it has.

    shoal close k3x9
    """
    from shoal.cli import show

    show.close(job, json=json)


def cancel(job: opt.Job, json: opt.Json = False) -> None:
    """Give a job up: drop all that waits, keep what is stored.

    shoal cancel k3x9
    """
    from shoal.cli import show

    show.cancel(job, json=json)
